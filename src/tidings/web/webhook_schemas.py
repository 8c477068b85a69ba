"""Request and response models of the webhook routes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import Field

from tidings.store.rows import MAX_INT64
from tidings.store.webhooks import Attempt, Webhook, WebhookState
from tidings.web.schemas import ApiModel, to_datetime

WebhookId = Annotated[str, Path(pattern=r"^[0-9a-zA-Z_-]{1,64}$", description="The id of the webhook.")]
AfterWebhook = Annotated[
    str, Query(pattern=r"^[0-9a-zA-Z_-]{0,64}$", description="Return only webhooks created after this one.")
]


class NewWebhook(ApiModel):
    """Where to send the matches of a subscription."""

    subscription: int = Field(ge=1, le=MAX_INT64)
    url: str = Field(max_length=2_048, examples=["https://example.org/tidings"])
    after: int | None = Field(
        None, ge=0, le=MAX_INT64, description="Send matches after this cursor. Default: only future matches."
    )


class WebhookOut(ApiModel):
    """A webhook and its state."""

    id: str
    subscription: int
    url: str
    state: WebhookState = Field(
        description="`retrying`: the last attempt failed and is repeated; `disabled`: nothing is sent."
    )
    error: str = Field(description="Why the last attempt failed; empty if it did not.")
    created_at: datetime
    cursor: int = Field(description="Matches up to this cursor are delivered.")
    messages: int = Field(description="Messages delivered.")
    matches: int = Field(description="Matches delivered.")
    delivered_at: datetime | None
    failures: int = Field(description="Failed attempts of the current message.")
    retry_at: datetime | None = Field(description="The time of the next attempt.")

    @classmethod
    def of(cls, webhook: Webhook) -> WebhookOut:
        return cls(**_to_fields(webhook))


class SignedWebhookOut(WebhookOut):
    """A webhook with its secret, which is shown only when it is created or rotated."""

    secret: str = Field(description="Verify messages with it; see the Standard Webhooks specification.")

    @classmethod
    def of(cls, webhook: Webhook) -> SignedWebhookOut:
        return cls(**_to_fields(webhook), secret=webhook.secret)


class WebhookPage(ApiModel):
    """A page of webhooks; ``next`` is the `after` of the next page, null on the last page."""

    webhooks: list[WebhookOut]
    next: str | None


class AttemptOut(ApiModel):
    """One attempt to deliver a message."""

    message: str = Field(description="The `webhook-id`, the same in all attempts of a message.")
    matches: int = Field(description="Number of matches in the message.")
    at: datetime
    status: int | None = Field(description="The HTTP status of the receiver; null without a response.")
    outcome: str
    took_s: float

    @classmethod
    def of(cls, attempt: Attempt) -> AttemptOut:
        return cls(**{**attempt._asdict(), "at": to_datetime(attempt.at)})


class AttemptList(ApiModel):
    """The last attempts, newest first."""

    deliveries: list[AttemptOut]


def _to_fields(webhook: Webhook) -> dict[str, Any]:
    unchanged = ("subscription", "url", "state", "error", "cursor", "messages", "matches", "failures")
    return {
        "id": webhook.name,
        **{name: getattr(webhook, name) for name in unchanged},
        "created_at": to_datetime(webhook.created_at),
        "delivered_at": None if webhook.delivered_at is None else to_datetime(webhook.delivered_at),
        "retry_at": to_datetime(webhook.due_at) if webhook.state == "retrying" and webhook.due_at is not None else None,
    }
