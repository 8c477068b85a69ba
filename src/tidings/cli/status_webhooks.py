"""The rows of `tidings status` about webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from tidings.cli.output import to_line
from tidings.cli.values import format_time

if TYPE_CHECKING:
    from tidings.store import Store
    from tidings.store.webhook_queue import WebhookTotals
    from tidings.store.webhooks import Webhook

COLUMNS = ("subscription", "owner", "receiver", "state", "failures", "next attempt", "reason")
_MAX_FAILING = 5
_OWNER_CELLS, _HOST_CELLS, _REASON_CELLS = 30, 40, 80


class WebhookStatus(NamedTuple):
    """Totals of all webhooks, and some that fail."""

    totals: WebhookTotals
    failing: list[Webhook]


def read_webhooks(store: Store) -> WebhookStatus:
    return WebhookStatus(store.webhook_queue.totals(), store.webhook_queue.failing_webhooks(_MAX_FAILING))


def to_dict(webhooks: WebhookStatus) -> dict[str, Any]:
    """Return plain values, without secrets."""
    fields = ("name", "subscription", "owner", "host", "state", "error", "failures", "due_at", "cursor", "delivered_at")
    failing = [{name: getattr(webhook, name) for name in fields} for webhook in webhooks.failing]
    return {**webhooks.totals._asdict(), "failing": failing}


def summary_rows(webhooks: WebhookStatus) -> Iterable[tuple[str, Text | str]]:
    """Yield one row, if there are webhooks."""
    totals = webhooks.totals
    if totals.active or totals.retrying or totals.disabled:
        failing = ((totals.retrying, "retrying"), (totals.disabled, "disabled"))
        failing_states = [f"{count:,} {what}" for count, what in failing if count]
        states = ", ".join([f"{totals.active:,} active", *failing_states])
        sent = f"{totals.matches:,} matches delivered in {totals.messages:,} messages"
        yield "webhooks", Text(f"{states}; {sent}", "yellow" if failing_states else "")


def failing_rows(webhooks: WebhookStatus) -> list[tuple[str, ...]]:
    """Return the failing webhooks as rows of a table."""
    return [
        (
            f"{webhook.subscription}",
            to_line(webhook.owner, _OWNER_CELLS) or "-",
            to_line(webhook.host, _HOST_CELLS),
            webhook.state,
            f"{webhook.failures:,}",
            "-" if webhook.due_at is None else format_time(round(webhook.due_at * 1e6)),
            to_line(webhook.error, _REASON_CELLS),
        )
        for webhook in webhooks.failing
    ]
