"""What `tidings status` says of the correlations of tags."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tidings.cli.output import one_line
from tidings.cli.times import moment
from tidings.stream.metrics.correlations import CorrelationFigures

_SECOND_US = 1_000_000
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def correlating(figures: CorrelationFigures | None) -> Iterable[tuple[str, Text | str]]:
    """Nothing where tags were never correlated."""
    if figures is None:
        return
    if figures.state == "failed":
        yield "correlations", Text(one_line(figures.failure, 500), "bold red")
        yield "", _windows(figures)
    else:
        yield "correlations", _windows(figures)
    yield "", f"{figures.tagged:,} tagged posts" + "".join(f", {count:,} {what}" for count, what in _dropped(figures))
    yield (
        "",
        (
            f"{figures.algorithm}, {figures.partitions} of {figures.most_partitions} partitions in use, communication "
            f"{figures.communication:.2f}, Gini {figures.gini:.2f}, {figures.additions:,} single additions"
        ),
    )
    if figures.repartitions:
        yield "", _repartitions(figures)


def _windows(figures: CorrelationFigures) -> str:
    window, slide = (_length(one / _SECOND_US) for one in (figures.window_us, figures.slide_us))
    last = "none yet" if figures.window_end_us is None else f"the last until {moment(figures.window_end_us)}"
    return f"windows of {window} every {slide}, {last}; {figures.coefficients:,} coefficients so far"


def _dropped(figures: CorrelationFigures) -> Iterable[tuple[int, str]]:
    counts = (
        (figures.late, "too late"),
        (figures.ahead, "from the future"),
        (figures.untimed, "posts without a time"),
        (figures.capped, "with more tags than count"),
    )
    return ((count, what) for count, what in counts if count)


def _repartitions(figures: CorrelationFigures) -> str:
    reasons = ", ".join(f"{count:,} for {reason}" for reason, count in sorted(figures.repartitions.items()))
    last = figures.last_repartitions[-1] if figures.last_repartitions else None
    return f"repartitions: {reasons}" + (f"; the last at {moment(last['at_us'])}" if last else "")


def _length(seconds: float) -> str:
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"
