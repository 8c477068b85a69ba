"""Routes for webhooks: add, list, show and delete; test, rotate the secret, enable again; the log of attempts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool

from tidings.delivery.webhooks.attempt import TIMEOUT_S, send_test
from tidings.errors import QuotaExceeded
from tidings.web import webhook_schemas as schemas
from tidings.web.context import AppContext, Context, OwnerInTurn
from tidings.web.errors import error_responses
from tidings.web.request_body import describe_json, json_body
from tidings.web.schemas import Limit
from tidings.web.webhook_schemas import AfterWebhook, WebhookId

router = APIRouter(prefix="/api", tags=["webhooks"], responses=error_responses(401, 429))
_NewWebhookBody = Annotated[schemas.NewWebhook, json_body(schemas.NewWebhook)]


@router.post(
    "/webhooks",
    status_code=201,
    openapi_extra=describe_json(schemas.NewWebhook),
    responses=error_responses(404, 413, 422, 429),
)
def add_webhook(new_webhook: _NewWebhookBody, owner: OwnerInTurn, context: Context) -> schemas.SignedWebhookOut:
    """Send the matches of a subscription to a URL. The secret is shown only in this response."""
    webhook = context.write_store.webhooks.add(new_webhook.subscription, new_webhook.url, owner, new_webhook.after)
    return schemas.SignedWebhookOut.of(webhook)


@router.get("/webhooks", responses=error_responses(422))
def list_webhooks(
    owner: OwnerInTurn, context: Context, after: AfterWebhook = "", limit: Limit = 100
) -> schemas.WebhookPage:
    """List your webhooks in the order of creation."""
    rows = context.read_store.webhooks.page(owner, after, limit + 1)
    page = [schemas.WebhookOut.of(webhook) for webhook in rows[:limit]]
    return schemas.WebhookPage(webhooks=page, next=page[-1].id if len(rows) > limit else None)


@router.get("/webhooks/{id}", responses=error_responses(404, 422))
def get_webhook(id: WebhookId, owner: OwnerInTurn, context: Context) -> schemas.WebhookOut:
    """Return one webhook with its state."""
    return schemas.WebhookOut.of(context.read_store.webhooks.get(id, owner))


@router.delete("/webhooks/{id}", status_code=204, responses=error_responses(404, 422))
def remove_webhook(id: WebhookId, owner: OwnerInTurn, context: Context) -> None:
    """Delete a webhook."""
    context.write_store.webhooks.remove(id, owner)


@router.get("/webhooks/{id}/deliveries", responses=error_responses(404, 422))
def list_attempts(id: WebhookId, owner: OwnerInTurn, context: Context) -> schemas.AttemptList:
    """List the last hundred attempts, newest first."""
    attempts = context.read_store.webhooks.attempts(id, owner)
    return schemas.AttemptList(deliveries=[schemas.AttemptOut.of(attempt) for attempt in attempts])


@router.post("/webhooks/{id}/secret", responses=error_responses(404, 422))
def rotate_secret(id: WebhookId, owner: OwnerInTurn, context: Context) -> schemas.SignedWebhookOut:
    """Replace the secret. For a day, messages are signed with the old secret too."""
    return schemas.SignedWebhookOut.of(context.write_store.webhooks.rotate_secret(id, owner))


@router.post("/webhooks/{id}/enable", responses=error_responses(404, 422))
def enable_webhook(id: WebhookId, owner: OwnerInTurn, context: Context) -> schemas.WebhookOut:
    """Enable a webhook and retry its current message immediately."""
    return schemas.WebhookOut.of(context.write_store.webhooks.enable(id, owner))


@router.post("/webhooks/{id}/test", responses=error_responses(404, 422, 429))
async def test_webhook(id: WebhookId, owner: OwnerInTurn, context: Context) -> schemas.AttemptOut:
    """Send a message of the type `webhook.test` once and return the result."""
    webhook = await run_in_threadpool(context.read_store.webhooks.get, id, owner)
    with _single_test(context, owner):
        attempt = await send_test(webhook, context.allow)
    await run_in_threadpool(context.write_store.webhooks.record_attempt, webhook, attempt)
    return schemas.AttemptOut.of(attempt)


@contextmanager
def _single_test(context: AppContext, owner: str) -> Iterator[None]:
    """Limit an owner to one test at a time, so that the server cannot be used to flood others with requests."""
    if owner in context.testing_owners:
        raise QuotaExceeded("A webhook test is already running. Try again later.", retry_after_s=TIMEOUT_S)
    context.testing_owners.add(owner)
    try:
        yield
    finally:
        context.testing_owners.discard(owner)
