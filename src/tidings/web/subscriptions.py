"""Subscriptions: check a query, subscribe, list, show, delete; their matches page by page, and a new address."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from tidings.matching.explain import explain
from tidings.query.dnf import Region as Box
from tidings.query.geo.geojson import to_geojson
from tidings.query.geo.region import region as checked_region
from tidings.query.parse import parse
from tidings.store.rows import Region as Numbers
from tidings.store.rows import Subscription as Stored
from tidings.web import schemas
from tidings.web.context import MOST_CHARACTERS, Here, Owner, Service
from tidings.web.errors import documented
from tidings.web.schemas import Above, Identity, Limit, Sides

router = APIRouter(prefix="/api", tags=["subscriptions"], responses=documented(401))


@router.post("/check", responses=documented(422))
def check(wanted: schemas.Wanted, owner: Owner, here: Here) -> schemas.Checked:
    """How a query is understood, and how many matches a day it would bring. Nothing is stored."""
    region = _box(wanted.region)
    told, estimate = explain(wanted.query, region), here.history.estimate(parse(wanted.query, region))
    return schemas.Checked(
        query=wanted.query,
        ways=[schemas.Way(text=way.text, found_by=way.found_by) for way in told.conjunctions],
        ignored=[
            schemas.Ignored(piece=one.piece, start=one.start, end=one.end, reason=one.reason) for one in told.ignored
        ],
        matches_a_day=estimate.matches_a_day,
        posts_a_day=estimate.posts_a_day,
        history_hours=estimate.hours,
        sampled_posts=estimate.sampled,
    )


@router.post("/subscriptions", status_code=201, responses=documented(422, 429))
def subscribe(wanted: schemas.Wanted, owner: Owner, here: Here) -> schemas.Subscription:
    """Subscribe: the stream finds its posts from the next batch on."""
    box = _box(wanted.region)
    parse(wanted.query, box)
    number = here.writing.accounts.subscribe(owner, wanted.query, _sides(box))
    return _shown(here, here.writing.subscription(number, owner))


@router.get("/subscriptions", responses=documented(422))
def subscriptions(owner: Owner, here: Here, after: Above = 0, limit: Limit = 100) -> schemas.Subscriptions:
    """Yours, in the order in which they were made."""
    page = here.reading.page(owner, after, limit + 1)
    shown = [_shown(here, one) for one in page[:limit]]
    return schemas.Subscriptions(subscriptions=shown, next=shown[-1].id if len(page) > limit else None)


@router.get("/subscriptions/{id}", responses=documented(404, 422))
def subscription(id: Identity, owner: Owner, here: Here) -> schemas.Subscription:
    """One of yours."""
    return _shown(here, here.reading.subscription(id, owner))


@router.delete("/subscriptions/{id}", status_code=204, responses=documented(404, 422))
def unsubscribe(id: Identity, owner: Owner, here: Here) -> None:
    """Delete it, with its matches and its addresses."""
    here.writing.unsubscribe(id, owner)


@router.post("/subscriptions/{id}/address", responses=documented(404, 422))
def renew(id: Identity, owner: Owner, here: Here) -> schemas.Subscription:
    """Give it new addresses. The ones before lead nowhere from now on."""
    here.writing.addresses.renew(id, owner)
    return _shown(here, here.writing.subscription(id, owner))


@router.get("/subscriptions/{id}/matches", responses=documented(404, 422))
def matches(id: Identity, owner: Owner, here: Here, after: Above = 0, limit: Limit = 100) -> schemas.Matches:
    """Its matches after a cursor, page by page; a page has fewer than asked for where they are long."""
    page = here.reading.matches(id, after, limit, owner, MOST_CHARACTERS)
    cursor = page[-1].cursor if page else after
    more = bool(page) and bool(here.reading.matches(id, cursor, 1, owner))
    return schemas.Matches(matches=[schemas.Match.of(one) for one in page], cursor=cursor, more=more)


def _shown(here: Service, one: Stored) -> schemas.Subscription:
    secret = here.reading.addresses.known(one.id) or here.writing.addresses.of(one.id, one.owner)
    base = f"{here.public_url}/read/{secret}"
    return schemas.Subscription(
        id=one.id,
        query=one.query,
        region=_region(one.region),
        created_at=schemas.moment(one.created_at),
        matches=here.reading.kept(one.id),
        addresses=schemas.Addresses(rss=f"{base}/rss", atom=f"{base}/atom", json=f"{base}/json", live=f"{base}/live"),
    )


def _region(numbers: Numbers | None) -> Sides | dict[str, Any] | None:
    """Four numbers as they are; more are polygons."""
    if numbers is None:
        return None
    return (numbers[0], numbers[1], numbers[2], numbers[3]) if len(numbers) == 4 else to_geojson(numbers)


def _box(sides: Sides | None) -> Box | None:
    return None if sides is None else checked_region(*sides)


def _sides(box: Box | None) -> Sides | None:
    return None if box is None else (box.west, box.south, box.east, box.north)
