"""The summary of `tidings match`, as JSON and as a table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from tidings.cli.console import printable

if TYPE_CHECKING:
    from tidings.batch.match_files import MatchResult
    from tidings.schemas import RejectedSubscription

_DETAIL = re.compile(r"(?<!\s)\s*\([^()]*\)\.?$")
_ID = re.compile(r"^the id .* belongs to", re.DOTALL)
_SHOWN_REASONS = 8


def match_summary(outcome: MatchResult) -> dict[str, Any]:
    """Return the summary as plain values. The keys are part of the interface."""
    subscriptions = count_reasons(outcome.rejected)
    return {
        "posts": outcome.profile.posts,
        "subscriptions": outcome.subscriptions,
        "matches": outcome.matches,
        "rejected_posts": outcome.profile.rejected,
        "rejected_subscriptions": len(outcome.rejected),
        "reasons": {"posts": outcome.profile.reasons, "subscriptions": subscriptions},
        "duplicate_posts": outcome.profile.duplicates,
        "plan": outcome.mode,
        "why": outcome.mode_reason,
        "matchers": outcome.matchers,
        "index_version": outcome.index_version,
        "seconds": round(outcome.seconds, 3),
        "posts_per_second": round(_posts_per_second(outcome)),
        "out": str(outcome.out),
        "rejected_file": None if outcome.rejected_file is None else str(outcome.rejected_file),
    }


def match_table(outcome: MatchResult) -> Table:
    """Return the summary for a screen: input, matches, execution mode, output."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    look, rejected = outcome.profile, outcome.rejected
    table.add_row("posts", _format_count(look.posts, look.rejected))
    _add_reasons(table, look.reasons)
    if look.duplicates:
        table.add_row(
            "",
            Text(f"{look.duplicates:,} have an id that occurred before; posts with the same id count as one", "yellow"),
        )
    table.add_row("subscriptions", _format_count(outcome.subscriptions + len(rejected), len(rejected)))
    _add_reasons(table, count_reasons(rejected))
    table.add_row("matches", Text(f"{outcome.matches:,}", "bold green"))
    table.add_row("plan", f"{outcome.mode}: {outcome.mode_reason}")
    table.add_row("time", f"{outcome.seconds:,.1f} s, {_posts_per_second(outcome):,.0f} posts/s")
    table.add_row("matches in", Text(str(outcome.out)))
    if outcome.rejected_file is not None:
        table.add_row("rejected in", Text(str(outcome.rejected_file)))
    return table


def count_reasons(rejected: Iterable[RejectedSubscription]) -> dict[str, int]:
    """Return how often each reason occurs, most frequent first, without the details of single rows."""
    counts = Counter(_ID.sub("the id belongs to", _DETAIL.sub("", row.reason)) for row in rejected)
    return dict(counts.most_common())


def _format_count(total: int, rejected: int) -> Text:
    if not rejected:
        return Text(f"{total:,}")
    return Text.assemble(f"{total:,}, of which ", (f"{rejected:,} rejected", "yellow"))


def _add_reasons(table: Table, reasons: dict[str, int]) -> None:
    for reason, count in list(reasons.items())[:_SHOWN_REASONS]:
        table.add_row("", Text(f"{count:,} × {printable(reason)}", "yellow"))
    if len(reasons) > _SHOWN_REASONS:
        rest = sum(list(reasons.values())[_SHOWN_REASONS:])
        table.add_row("", Text(f"{rest:,} for {len(reasons) - _SHOWN_REASONS} other reasons", "yellow"))


def _posts_per_second(outcome: MatchResult) -> float:
    return outcome.profile.posts / outcome.seconds if outcome.seconds > 0 else 0.0
