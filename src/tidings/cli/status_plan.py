"""The rows of `tidings status` about the plan, rebalancing and load shedding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tidings.cli.output import to_line
from tidings.cli.values import format_time
from tidings.stream.metrics.snapshot import StreamSnapshot

if TYPE_CHECKING:
    from tidings.store import ShedCounts

_MAX_OWNERS = 5


def format_plan(metrics: StreamSnapshot) -> str:
    """Format the plan, its quality now and when it was learned."""
    if not metrics.partitioner:
        return f"{metrics.execution_mode}, version {metrics.plan_version}"
    how = f"{metrics.execution_mode}, version {metrics.plan_version}, {metrics.partitioned_by} by {metrics.partitioner}"
    value = "" if metrics.plan_value is None else f", imbalance × spread {metrics.plan_value:.2f}"
    first = "" if metrics.plan_value_when_learned is None else f" ({metrics.plan_value_when_learned:.2f} when learned)"
    resize = "" if metrics.wanted_matchers is None else f", resizing to {metrics.wanted_matchers} matchers"
    next_plan = ", learning a new one" if metrics.is_building_plan else _format_comparison(metrics)
    return how + value + first + resize + next_plan


def _format_comparison(metrics: StreamSnapshot) -> str:
    last = metrics.last_plan_comparison
    if not last:
        return ""
    found = f"{last['gain']:.2f} times the throughput of the old one (at least {last['low_gain']:.2f})"
    return f", last new plan: {found}, {'taken' if last['is_replaced'] else 'not taken'}"


def rebalance_rows(metrics: StreamSnapshot) -> Iterable[tuple[str, Text | str]]:
    """Yield rows about moves between matchers, if there were any."""
    if metrics.rebalances:
        moved = f"{metrics.rebalanced_bytes:,} bytes in {metrics.rebalance_seconds:.1f} s"
        last = metrics.last_rebalance
        yield "rebalanced", f"{metrics.rebalances:,} times, {moved}; last: {to_line(str(last.get('reason', '')), 300)}"
    if metrics.previous_plan_share is not None:
        share = 1 - metrics.previous_plan_share
        yield "two plans", f"{share:.0%} of the subscriptions are placed by the new plan; the others move in slices"
    if metrics.last_evaluation:
        yield "last evaluation", _format_evaluation(metrics.last_evaluation)
    if metrics.rebalance_failure:
        yield "rebalancing", Text(_format_failure(metrics.rebalance_failure), "yellow")


def _format_evaluation(evaluation: Mapping[str, Any]) -> str:
    gain, error = evaluation.get("gain", 0.0), evaluation.get("gain_error", 0.0)
    posts = (
        f"learned from {evaluation.get('learned_posts', 0):,} posts, judged by {evaluation.get('judged_posts', 0):,}"
    )
    result = "adopted" if evaluation.get("is_adopted") else "not adopted"
    at = _format_seconds(evaluation.get("at", 0.0))
    return f"{at}: a new plan has {gain:.1%} ± {error:.1%} less load on its busiest matcher ({posts}): {result}"


def _format_failure(failure: Mapping[str, Any]) -> str:
    reason, retry_at = to_line(str(failure.get("reason", "")), 200), _format_seconds(failure.get("retry_at", 0.0))
    return f"failed {failure.get('count', 0):,} times in a row: {reason}; next attempt at {retry_at}"


def _format_seconds(seconds: float) -> str:
    return format_time(round(seconds * 1_000_000))


def shed_rows(metrics: StreamSnapshot, totals: ShedCounts) -> Iterable[tuple[str, Text | str]]:
    """Yield rows about current and past shedding, if there is any."""
    if metrics.shed != "off":
        yield "shedding", Text(_format_shedding(metrics), "yellow" if metrics.shed_level else "")
    if totals.matchers:
        posts = sum(totals.matchers.values())
        name = "" if metrics.shed != "off" else "shedding"
        yield name, f"{posts:,} posts shed in all runs; possible matches lost by owner: {_format_owners(totals)}"


def _format_shedding(metrics: StreamSnapshot) -> str:
    latency = f"{metrics.max_latency_s:g} s maximum latency" if metrics.max_latency_s is not None else ""
    unread = "" if metrics.backlog_posts is None else f", {metrics.backlog_posts:,} posts in the backlog"
    work = "" if metrics.backlog_seconds is None else f" (about {metrics.backlog_seconds:.1f} s of work)"
    now = "not shedding" if not metrics.shed_level else f"level {metrics.shed_level}, {_format_limit(metrics)}"
    return f"{metrics.shed}, {latency}{unread}{work}: {now}; {metrics.shed_posts:,} shed since start"


def _format_limit(metrics: StreamSnapshot) -> str:
    limit = metrics.shed_limit or 0.0
    return f"{limit:.0%} of the posts pass" if metrics.shed == "random" else f"{limit:.3g} matchers per post at most"


def _format_owners(totals: ShedCounts) -> str:
    ranked = sorted(totals.owners.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{to_line(owner, 60) or 'no owner'} {count:,}" for owner, count in ranked[:_MAX_OWNERS])
    return (shown or "none") + (f" and {len(ranked) - _MAX_OWNERS:,} more owners" if len(ranked) > _MAX_OWNERS else "")
