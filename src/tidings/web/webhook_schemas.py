"""What the routes of webhooks take and give, as the description tells it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from tidings.store import webhooks as store
from tidings.web.schemas import moment

_LARGEST = (1 << 63) - 1
_NAME = r"^[0-9a-zA-Z_-]{1,64}$"
Name = Annotated[str, Path(pattern=_NAME, description="The id of the webhook.")]
After = Annotated[str, Query(pattern=r"^[0-9a-zA-Z_-]{0,64}$", description="Only those after this one.")]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewWebhook(_Shape):
    """Where the matches of a subscription are to be sent."""

    subscription: int = Field(ge=1, le=_LARGEST)
    url: str = Field(max_length=2_048, examples=["https://example.org/tidings"])
    after: int | None = Field(
        None, ge=0, le=_LARGEST, description="Begin after this cursor; left out, with what matches from now on."
    )


class Webhook(_Shape):
    """A webhook and how it is."""

    id: str
    subscription: int
    url: str
    state: store.State = Field(description="`retrying`: the last attempt failed, others follow; `disabled`: none do.")
    error: str = Field(description="Why the last attempt failed; empty while all is well.")
    created_at: datetime
    cursor: int = Field(description="All matches up to this cursor are delivered.")
    messages: int = Field(description="Delivered so far.")
    matches: int = Field(description="Delivered so far.")
    delivered_at: datetime | None
    failures: int = Field(description="Attempts at the present message that failed.")
    retry_at: datetime | None = Field(description="When it is tried again.")

    @classmethod
    def of(cls, hook: store.Webhook) -> Webhook:
        return cls(**_told(hook))


class SignedWebhook(Webhook):
    """A webhook with its secret, which is told when it is made and when it is renewed, and never else."""

    secret: str = Field(description="What to verify messages with; see the Standard Webhooks specification.")

    @classmethod
    def of(cls, hook: store.Webhook) -> SignedWebhook:
        return cls(**_told(hook), secret=hook.secret)


class Webhooks(_Shape):
    """A page of webhooks; ``next`` is what to give as `after` for the next page, null on the last one."""

    webhooks: list[Webhook]
    next: str | None


class Delivery(_Shape):
    """One attempt to deliver a message."""

    message: str = Field(description="The `webhook-id`: the same each time a message is tried.")
    matches: int = Field(description="In the message.")
    at: datetime
    status: int | None = Field(description="What the receiver answered; null if it did not.")
    outcome: str
    took_s: float

    @classmethod
    def of(cls, attempt: store.Attempt) -> Delivery:
        return cls(**{**attempt._asdict(), "at": moment(attempt.at)})


class Deliveries(_Shape):
    """The last attempts, the newest first."""

    deliveries: list[Delivery]


def _told(hook: store.Webhook) -> dict[str, Any]:
    same = ("subscription", "url", "state", "error", "cursor", "messages", "matches", "failures")
    return {
        "id": hook.name,
        **{name: getattr(hook, name) for name in same},
        "created_at": moment(hook.created_at),
        "delivered_at": None if hook.delivered_at is None else moment(hook.delivered_at),
        "retry_at": moment(hook.due_at) if hook.state == "retrying" and hook.due_at is not None else None,
    }
