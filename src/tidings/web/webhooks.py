"""Webhooks: have matches sent to an address, see how that goes, try it out, renew the secret, switch it on again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from tidings.delivery.webhooks.attempt import TIMEOUT_S, try_out
from tidings.errors import QuotaExceeded
from tidings.web import webhook_schemas as shapes
from tidings.web.context import Here, Owner, Service
from tidings.web.errors import documented
from tidings.web.schemas import Limit
from tidings.web.webhook_schemas import After, Name

router = APIRouter(prefix="/api", tags=["webhooks"], responses=documented(401))


@router.post("/webhooks", status_code=201, responses=documented(404, 422, 429))
def add(wanted: shapes.NewWebhook, owner: Owner, here: Here) -> shapes.SignedWebhook:
    """Have the matches of a subscription sent to an address. The secret is told now, and never again."""
    made = here.writing.webhooks.add(wanted.subscription, wanted.url, owner, wanted.after)
    return shapes.SignedWebhook.of(made)


@router.get("/webhooks", responses=documented(422))
def webhooks(owner: Owner, here: Here, after: After = "", limit: Limit = 100) -> shapes.Webhooks:
    """Yours, in the order in which they were made."""
    page = here.reading.webhooks.page(owner, after, limit + 1)
    shown = [shapes.Webhook.of(one) for one in page[:limit]]
    return shapes.Webhooks(webhooks=shown, next=shown[-1].id if len(page) > limit else None)


@router.get("/webhooks/{id}", responses=documented(404, 422))
def webhook(id: Name, owner: Owner, here: Here) -> shapes.Webhook:
    """How one of them is."""
    return shapes.Webhook.of(here.reading.webhooks.get(id, owner))


@router.delete("/webhooks/{id}", status_code=204, responses=documented(404, 422))
def remove(id: Name, owner: Owner, here: Here) -> None:
    """Send nothing there from now on."""
    here.writing.webhooks.remove(id, owner)


@router.get("/webhooks/{id}/deliveries", responses=documented(404, 422))
def deliveries(id: Name, owner: Owner, here: Here) -> shapes.Deliveries:
    """The last hundred attempts, the newest first."""
    return shapes.Deliveries(deliveries=[shapes.Delivery.of(one) for one in here.reading.webhooks.log(id, owner)])


@router.post("/webhooks/{id}/secret", responses=documented(404, 422))
def rotate(id: Name, owner: Owner, here: Here) -> shapes.SignedWebhook:
    """Give it a new secret. For a day messages carry a signature of the one before, too."""
    return shapes.SignedWebhook.of(here.writing.webhooks.rotate(id, owner))


@router.post("/webhooks/{id}/enable", responses=documented(404, 422))
def enable(id: Name, owner: Owner, here: Here) -> shapes.Webhook:
    """Send again, at once, beginning with the message it stopped at."""
    return shapes.Webhook.of(here.writing.webhooks.enable(id, owner))


@router.post("/webhooks/{id}/test", responses=documented(404, 422, 429))
async def test(id: Name, owner: Owner, here: Here) -> shapes.Delivery:
    """Send a message of the type `webhook.test` now, once, and tell how that went."""
    hook = await run_in_threadpool(here.reading.webhooks.get, id, owner)
    with _one_at_a_time(here, owner):
        attempt = await try_out(hook, here.allow)
    await run_in_threadpool(here.writing.webhooks.note, hook, attempt)
    return shapes.Delivery.of(attempt)


@contextmanager
def _one_at_a_time(here: Service, owner: str) -> Iterator[None]:
    """Nobody sends requests through us as fast as they like."""
    if owner in here.trying:
        raise QuotaExceeded("A webhook of yours is tried out just now; wait for that.", retry_after_s=TIMEOUT_S)
    here.trying.add(owner)
    try:
        yield
    finally:
        here.trying.discard(owner)
