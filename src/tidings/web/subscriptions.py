"""Routes for subscriptions: check a query; subscribe, list, show and delete; read matches; renew the feed URLs."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from starlette.responses import Response

from tidings.query.cost import query_cost
from tidings.query.dnf import Rectangle
from tidings.query.geo.geojson import to_geojson
from tidings.query.geo.region import make_rectangle
from tidings.store.rows import Region, Subscription
from tidings.web import schemas
from tidings.web.context import MAX_RESPONSE_CHARACTERS, AppContext, Context, OwnerInTurn
from tidings.web.errors import error_responses
from tidings.web.request_body import describe_json, json_body
from tidings.web.schemas import After, Before, Box, Limit, SubscriptionId

router = APIRouter(prefix="/api", tags=["subscriptions"], responses=error_responses(401, 429))
_QueryBody = Annotated[schemas.QueryIn, json_body(schemas.QueryIn)]


@router.post(
    "/check",
    response_model=schemas.QueryCheck,
    openapi_extra=describe_json(schemas.QueryIn),
    responses=error_responses(413, 422, 503),
)
async def check_query(query_in: _QueryBody, owner: OwnerInTurn, context: Context) -> Response:
    """Explain a query and estimate its matches per day. Nothing is stored."""
    checked = await context.checks.run(owner, context.checker.check, query_in.query, query_in.region)
    return Response(checked, media_type="application/json")


@router.post(
    "/subscriptions",
    status_code=201,
    openapi_extra=describe_json(schemas.QueryIn),
    responses=error_responses(413, 422, 429),
)
def subscribe(query_in: _QueryBody, owner: OwnerInTurn, context: Context) -> schemas.SubscriptionOut:
    """Subscribe: the stream matches the query from the next batch on, or a few seconds later in a large import."""
    region = _to_rectangle(query_in.region)
    cost = query_cost(query_in.query, region)
    box = None if region is None else (region.west, region.south, region.east, region.north)
    number = context.write_store.accounts.subscribe(owner, query_in.query, box, cost)
    return _to_subscription_out(context, context.write_store.subscriptions.get(number, owner))


@router.get("/subscriptions", responses=error_responses(422))
def list_subscriptions(
    owner: OwnerInTurn, context: Context, after: After = 0, limit: Limit = 100
) -> schemas.SubscriptionPage:
    """List your subscriptions in the order of creation."""
    rows = context.read_store.subscriptions.page(owner, after, limit + 1)
    page = [_to_subscription_out(context, subscription) for subscription in rows[:limit]]
    return schemas.SubscriptionPage(subscriptions=page, next=page[-1].id if len(rows) > limit else None)


@router.get("/subscriptions/{id}", responses=error_responses(404, 422))
def get_subscription(id: SubscriptionId, owner: OwnerInTurn, context: Context) -> schemas.SubscriptionOut:
    """Return one of your subscriptions."""
    return _to_subscription_out(context, context.read_store.subscriptions.get(id, owner))


@router.delete("/subscriptions/{id}", status_code=204, responses=error_responses(404, 422))
def unsubscribe(id: SubscriptionId, owner: OwnerInTurn, context: Context) -> None:
    """Delete a subscription with its matches and feed URLs."""
    context.write_store.subscriptions.remove(id, owner)


@router.post("/subscriptions/{id}/address", responses=error_responses(404, 422))
def renew_feed_urls(id: SubscriptionId, owner: OwnerInTurn, context: Context) -> schemas.SubscriptionOut:
    """Replace the secret feed URLs. The old ones stop working."""
    context.write_store.feed_urls.renew(id, owner)
    return _to_subscription_out(context, context.write_store.subscriptions.get(id, owner))


@router.get("/subscriptions/{id}/matches", responses=error_responses(404, 422))
def list_matches(
    id: SubscriptionId,
    owner: OwnerInTurn,
    context: Context,
    after: After = 0,
    before: Before = None,
    limit: Limit = 100,
) -> schemas.MatchPage:
    """List matches after a cursor, or the newest before one; a page of long posts has fewer than `limit`."""
    matches = context.read_store.matches
    if before is not None:
        newest = matches.latest(id, limit, owner, MAX_RESPONSE_CHARACTERS, before)
        cursor = newest[0].cursor if newest else before
        more = bool(newest) and bool(matches.latest(id, 1, owner, before=cursor))
        return schemas.MatchPage(matches=[schemas.MatchOut.of(match) for match in newest], cursor=cursor, more=more)
    page = matches.since(id, after, limit, owner, MAX_RESPONSE_CHARACTERS)
    cursor = page[-1].cursor if page else after
    more = bool(page) and bool(matches.since(id, cursor, 1, owner))
    return schemas.MatchPage(matches=[schemas.MatchOut.of(match) for match in page], cursor=cursor, more=more)


def _to_subscription_out(context: AppContext, subscription: Subscription) -> schemas.SubscriptionOut:
    secret = context.read_store.feed_urls.get(subscription.id)
    secret = secret or context.write_store.feed_urls.get_or_create(subscription.id, subscription.owner)
    base = f"{context.public_url}/read/{secret}"
    return schemas.SubscriptionOut(
        id=subscription.id,
        query=subscription.query,
        region=_to_region_out(subscription.region),
        created_at=schemas.to_datetime(subscription.created_at),
        matches=context.read_store.matches.count(subscription.id),
        addresses=schemas.FeedUrlsOut(rss=f"{base}/rss", atom=f"{base}/atom", json=f"{base}/json", live=f"{base}/live"),
    )


def _to_region_out(region: Region | None) -> Box | dict[str, Any] | None:
    """Return a box as four numbers, polygons as GeoJSON."""
    if region is None:
        return None
    return (region[0], region[1], region[2], region[3]) if len(region) == 4 else to_geojson(region)


def _to_rectangle(box: Box | None) -> Rectangle | None:
    return None if box is None else make_rectangle(*box)
