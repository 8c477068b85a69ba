"""What came of a matching, for people and for programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from tidings.cli.console import printable

if TYPE_CHECKING:
    from tidings.batch.match_files import Outcome
    from tidings.schemas import RejectedSubscription

_DETAIL = re.compile(r"\s*\([^()]*\)\.?$")
_ID = re.compile(r"^the id .* was used before;", re.DOTALL)
_SHOWN_REASONS = 8


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The summary as plain values; the keys are a promise."""
    subscriptions = reasons_of(outcome.rejected)
    return {
        "posts": outcome.look.posts,
        "subscriptions": outcome.subscriptions,
        "matches": outcome.matches,
        "rejected_posts": outcome.look.rejected,
        "rejected_subscriptions": len(outcome.rejected),
        "reasons": {"posts": outcome.look.reasons, "subscriptions": subscriptions},
        "duplicate_posts": outcome.look.duplicates,
        "plan": outcome.plan,
        "why": outcome.why,
        "matchers": outcome.matchers,
        "index_version": outcome.index_version,
        "seconds": round(outcome.seconds, 3),
        "posts_per_second": round(_speed(outcome)),
        "out": str(outcome.out),
        "rejected_file": None if outcome.rejected_file is None else str(outcome.rejected_file),
    }


def as_table(outcome: Outcome) -> Table:
    """The summary for a screen: what was read, what was found, how, and where it is."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    look, rejected = outcome.look, outcome.rejected
    table.add_row("posts", _read(look.posts, look.rejected))
    _add_reasons(table, look.reasons)
    if look.duplicates:
        table.add_row("", Text(f"{look.duplicates:,} repeat an id; posts that share an id count as one", "yellow"))
    table.add_row("subscriptions", _read(outcome.subscriptions + len(rejected), len(rejected)))
    _add_reasons(table, reasons_of(rejected))
    table.add_row("matches", Text(f"{outcome.matches:,}", "bold green"))
    table.add_row("plan", f"{outcome.plan}: {outcome.why}")
    table.add_row("time", f"{outcome.seconds:,.1f} s, {_speed(outcome):,.0f} posts/s")
    table.add_row("matches in", Text(str(outcome.out)))
    if outcome.rejected_file is not None:
        table.add_row("rejected in", Text(str(outcome.rejected_file)))
    return table


def reasons_of(rejected: Iterable[RejectedSubscription]) -> dict[str, int]:
    """How often each reason occurs, the most frequent first; what differs from row to row is left out."""
    counts = Counter(_ID.sub("its id was used before;", _DETAIL.sub("", one.reason)) for one in rejected)
    return dict(counts.most_common())


def _read(total: int, rejected: int) -> Text:
    if not rejected:
        return Text(f"{total:,}")
    return Text.assemble(f"{total:,}, of which ", (f"{rejected:,} rejected", "yellow"))


def _add_reasons(table: Table, reasons: dict[str, int]) -> None:
    for reason, count in list(reasons.items())[:_SHOWN_REASONS]:
        table.add_row("", Text(f"{count:,} × {printable(reason)}", "yellow"))
    if len(reasons) > _SHOWN_REASONS:
        rest = sum(list(reasons.values())[_SHOWN_REASONS:])
        table.add_row("", Text(f"{rest:,} for {len(reasons) - _SHOWN_REASONS} other reasons", "yellow"))


def _speed(outcome: Outcome) -> float:
    return outcome.look.posts / outcome.seconds if outcome.seconds > 0 else 0.0
