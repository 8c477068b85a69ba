"""What `tidings status` says of the plan, of how its load was adjusted, and of what is shed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.text import Text

from tidings.cli.output import one_line
from tidings.stream.metrics.snapshot import StreamFigures

if TYPE_CHECKING:
    from tidings.store import ShedCounts

_OWNERS = 5


def planned(figures: StreamFigures) -> str:
    """The plan, and whether it is as good as it was."""
    if not figures.partitioner:
        return f"{figures.plan}, version {figures.plan_version}"
    how = f"{figures.plan}, version {figures.plan_version}, {figures.shared_out} by {figures.partitioner}"
    value = "" if figures.plan_value is None else f", imbalance × spread {figures.plan_value:.2f}"
    first = "" if figures.plan_value_at_first is None else f" ({figures.plan_value_at_first:.2f} when it was new)"
    return how + value + first + (", a new one is being learned" if figures.learning else "")


def adjusting(figures: StreamFigures) -> Iterable[tuple[str, Text | str]]:
    """What was moved from one matcher to another, and why; nothing where nothing was."""
    if figures.adjustments:
        moved = f"{figures.adjusted_bytes:,} bytes in {figures.adjusting_seconds:.1f} s"
        last = figures.last_adjustment
        yield "adjusted", f"{figures.adjustments:,} times, {moved}; last: {one_line(str(last.get('reason', '')), 300)}"
    if figures.old_plan_share is not None:
        yield "", f"{figures.old_plan_share:.0%} of the subscriptions still lie by the plan before this one"


def shedding(figures: StreamFigures, ever: ShedCounts) -> Iterable[tuple[str, Text | str]]:
    """What is shed now, and what ever was; nothing where nothing is."""
    if figures.shed != "off":
        yield "shedding", Text(_now(figures), "yellow" if figures.shed_level else "")
    if ever.matchers:
        posts = sum(ever.matchers.values())
        name = "" if figures.shed != "off" else "shedding"
        yield name, f"in all runs {posts:,} posts withheld from matchers; matches not looked for: {_by_owner(ever)}"


def _now(figures: StreamFigures) -> str:
    latency = f"{figures.accepted_latency_s:g} s accepted" if figures.accepted_latency_s is not None else ""
    unread = "" if figures.unread_posts is None else f", {figures.unread_posts:,} posts unread"
    work = "" if figures.unread_seconds is None else f" (about {figures.unread_seconds:.1f} s of work)"
    now = "nothing is shed" if not figures.shed_level else f"level {figures.shed_level}, {_limit(figures)}"
    return f"{figures.shed}, {latency}{unread}{work}: {now}; {figures.withheld:,} withheld since start"


def _limit(figures: StreamFigures) -> str:
    limit = figures.shed_limit or 0.0
    return f"{limit:.0%} of the posts pass" if figures.shed == "random" else f"{limit:.3g} matchers a post at most"


def _by_owner(ever: ShedCounts) -> str:
    ranked = sorted(ever.owners.items(), key=lambda one: -one[1])
    shown = ", ".join(f"{one_line(owner, 60) or 'no owner'} {count:,}" for owner, count in ranked[:_OWNERS])
    return (shown or "none") + (f" and {len(ranked) - _OWNERS:,} owners more" if len(ranked) > _OWNERS else "")
