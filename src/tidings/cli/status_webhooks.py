"""What `tidings status` says of webhooks: how many deliver, and what is wrong with those that do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from tidings.cli.output import one_line
from tidings.cli.times import moment

if TYPE_CHECKING:
    from tidings.store import Store
    from tidings.store.webhook_queue import Totals
    from tidings.store.webhooks import Webhook

TROUBLED = ("subscription", "owner", "receiver", "state", "failed", "again at", "reason")
_SHOWN = 5
_OWNER_CELLS, _HOST_CELLS, _REASON_CELLS = 30, 40, 80


class Hooks(NamedTuple):
    """All webhooks together, and some of those that do not deliver."""

    totals: Totals
    troubled: list[Webhook]


def look(store: Store) -> Hooks:
    """How they are now."""
    return Hooks(store.webhook_queue.totals(), store.webhook_queue.troubled(_SHOWN))


def as_dict(hooks: Hooks) -> dict[str, Any]:
    """As plain values, without secrets."""
    told = ("name", "subscription", "owner", "host", "state", "error", "failures", "due_at", "cursor", "delivered_at")
    troubled = [{name: getattr(hook, name) for name in told} for hook in hooks.troubled]
    return {**hooks.totals._asdict(), "troubled": troubled}


def lines(hooks: Hooks) -> Iterable[tuple[str, Text | str]]:
    """One line, where there are any."""
    totals = hooks.totals
    if totals.active or totals.retrying or totals.disabled:
        trouble = ((totals.retrying, "retrying"), (totals.disabled, "disabled"))
        bad = [f"{count:,} {what}" for count, what in trouble if count]
        states = ", ".join([f"{totals.active:,} active", *bad])
        sent = f"{totals.matches:,} matches delivered in {totals.messages:,} messages"
        yield "webhooks", Text(f"{states}; {sent}", "yellow" if bad else "")


def rows(hooks: Hooks) -> list[tuple[str, ...]]:
    """Those in trouble, as cells of a table."""
    return [
        (
            f"{hook.subscription}",
            one_line(hook.owner, _OWNER_CELLS) or "-",
            one_line(hook.host, _HOST_CELLS),
            hook.state,
            f"{hook.failures:,}",
            "-" if hook.due_at is None else moment(round(hook.due_at * 1e6)),
            one_line(hook.error, _REASON_CELLS),
        )
        for hook in hooks.troubled
    ]
