"""The rows of `tidings status` about correlations of tags."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tidings.cli.output import to_line
from tidings.cli.values import format_time
from tidings.stream.metrics.correlations import CorrelationMetrics

_SECOND_US = 1_000_000
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def correlation_rows(metrics: CorrelationMetrics | None) -> Iterable[tuple[str, Text | str]]:
    """Yield rows about correlations, if the stream ever computed any."""
    if metrics is None:
        return
    if metrics.state == "failed":
        yield "correlations", Text(to_line(metrics.failure, 500), "bold red")
        yield "", _format_windows(metrics)
    else:
        yield "correlations", _format_windows(metrics)
    yield (
        "",
        f"{metrics.tagged:,} tagged posts" + "".join(f", {count:,} {what}" for count, what in _count_dropped(metrics)),
    )
    yield (
        "",
        (
            f"{metrics.algorithm}, {metrics.partitions} of {metrics.max_partitions} partitions in use, communication "
            f"{metrics.communication:.2f}, Gini {metrics.gini:.2f}, {metrics.additions:,} single additions"
        ),
    )
    if metrics.repartitions:
        yield "", _format_repartitions(metrics)


def _format_windows(metrics: CorrelationMetrics) -> str:
    window, slide = (_format_seconds(length_us / _SECOND_US) for length_us in (metrics.window_us, metrics.slide_us))
    last = "none yet" if metrics.window_end_us is None else f"the last until {format_time(metrics.window_end_us)}"
    return f"windows of {window} every {slide}, {last}; {metrics.coefficients:,} coefficients"


def _count_dropped(metrics: CorrelationMetrics) -> Iterable[tuple[int, str]]:
    counts = (
        (metrics.late, "too late"),
        (metrics.ahead, "from the future"),
        (metrics.untimed, "posts without a time"),
        (metrics.capped, "with too many tags"),
    )
    return ((count, what) for count, what in counts if count)


def _format_repartitions(metrics: CorrelationMetrics) -> str:
    reasons = ", ".join(f"{count:,} for {reason}" for reason, count in sorted(metrics.repartitions.items()))
    last = metrics.last_repartitions[-1] if metrics.last_repartitions else None
    return f"repartitions: {reasons}" + (f"; the last at {format_time(last['at_us'])}" if last else "")


def _format_seconds(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
