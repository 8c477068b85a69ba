"""Rules that check claims against rows: a claim holds, holds partly, or does not hold here.

A rule uses only the rows of an experiment. Repetitions and folds are averaged first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tidings_lab.experiment import Claim, Experiment

HOLDS, PARTLY, FAILS, UNKNOWN = "holds", "holds partly", "does not hold here", "not measured"
STALE = "stale"
Row = Mapping[str, Any]
Rows = Sequence[Row]
Point = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One of the four outcomes, and the numbers it is based on."""

    outcome: str
    reason: str


_NOT_MEASURED = Verdict(UNKNOWN, "this run has no rows for it")


def check_claim(claim: Claim, rows: Rows) -> Verdict:
    return RULES[claim.rule](rows, **claim.arguments)


def summarize(experiment: Experiment, rows: Rows) -> str:
    """Return the outcome of all claims of an experiment together, and how many of them hold."""
    outcomes = [check_claim(claim, rows).outcome for claim in experiment.claims]
    known = [outcome for outcome in outcomes if outcome != UNKNOWN]
    if not known:
        return UNKNOWN
    held = known.count(HOLDS)
    word = HOLDS if held == len(known) else FAILS if set(known) == {FAILS} else PARTLY
    return f"{word} ({held} of {len(known)})"


def select_rows(rows: Rows, where: Mapping[str, Any]) -> list[Row]:
    """Return the rows with these values; a list allows any of its values."""
    return [row for row in rows if all(_matches(row.get(name), value) for name, value in where.items())]


def _matches(value: Any, allowed: Any) -> bool:
    return value in allowed if isinstance(allowed, list) else bool(value == allowed)


def distinct_points(rows: Rows, over: Sequence[str]) -> list[Point]:
    """Return the distinct values of some columns, sorted."""
    points = {tuple((name, row[name]) for name in over) for row in rows if all(name in row for name in over)}
    return sorted(points, key=lambda point: [(isinstance(value, str), value) for _, value in point])


def mean(rows: Rows, measure: str) -> float:
    return float(np.mean([row[measure] for row in rows]))


def _check_times(
    rows: Rows,
    measure: str,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    where: Mapping[str, Any] | None = None,
    over: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
    best: bool = False,
    because: Sequence[str] = (),
) -> Verdict:
    """The ratio of the first to the second is at least `least` (or at most `most`) everywhere, or with `best` anywhere.

    `first` and `second` may name several by a list: the hardest pair counts. The reason includes the measures in
    `because` at the worst point.
    """
    chosen = select_rows(rows, where or {})
    compared = {}
    for point in distinct_points(chosen, over):
        at_point = select_rows(chosen, dict(point))
        sides = [[select_rows(at_point, one) for one in _expand(selector)] for selector in (first, second)]
        pairs = [(ours, other) for ours, other in product(*sides) if ours and other]
        if pairs:
            ratios = [_ratio(mean(ours, measure), mean(other, measure)) for ours, other in pairs]
            hardest = int(np.argmin(ratios) if least is not None else np.argmax(ratios))
            compared[point] = (ratios[hardest], *pairs[hardest])
    if not compared:
        return _NOT_MEASURED
    values = {point: ratio for point, (ratio, _, _) in compared.items()}
    worst = min(values, key=lambda point: values[point] if least is not None else -values[point])
    _, ours, other = compared[worst]
    opponent = "".join(f" for {value}" for _, value in _listed_values(ours, first))
    opponent += "".join(f" against {value}" for _, value in _listed_values(other, second))
    causes = [f"{name.replace('_', ' ')} {_ratio(mean(ours, name), mean(other, name)):.2f} ×" for name in because]
    why = f"; there {', '.join(causes)}" if causes else ""
    return _judge(values, least, most, best, " times", f"{opponent}{why}")


def _check_value(
    rows: Rows,
    measure: str,
    where: Mapping[str, Any] | None = None,
    over: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
    unit: str = "",
    best: bool = False,
) -> Verdict:
    """A measure is at least `least` (or at most `most`) everywhere, or with `best` anywhere."""
    chosen = [row for row in select_rows(rows, where or {}) if row.get(measure) is not None]
    points = distinct_points(chosen, over) if chosen else []
    values = {point: mean(select_rows(chosen, dict(point)), measure) for point in points}
    return _judge(values, least, most, best, unit, "") if values else _NOT_MEASURED


def _check_change(
    rows: Rows,
    measure: str,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    at: Mapping[str, Any] | None = None,
    than: Mapping[str, Any] | None = None,
    than_first: Mapping[str, Any] | None = None,
    than_second: Mapping[str, Any] | None = None,
    compared: str = "",
    where: Mapping[str, Any] | None = None,
    over: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
) -> Verdict:
    """The ratio of the first to the second, divided by another such ratio, is at least `least` (or at most `most`).

    The first ratio is taken `at` some rows; the other one at other rows (`than`; of several, the hardest counts), of
    another pair (`than_first`, `than_second`) or of another measure (`compared`).
    """
    chosen, other_measure = select_rows(rows, where or {}), compared or measure
    pair = (than_first or first, than_second or second)
    assert (measure, first, second, at) != (other_measure, *pair, than), "a ratio is compared with itself"
    values: dict[Point, float] = {}
    for point in distinct_points(chosen, over) if over else [()]:
        at_point = select_rows(chosen, dict(point))
        ours = _ratio_between(at_point, first, second, at or {}, measure)
        others = [_ratio_between(at_point, *pair, place, other_measure) for place in _expand(than or {})]
        changes = [_ratio(ours, other) for other in others if ours is not None and other is not None]
        if changes:
            values[point] = min(changes) if least is not None else max(changes)
    return _judge(values, least, most, False, " times as much", "") if values else _NOT_MEASURED


def _ratio_between(
    rows: Rows, first: Mapping[str, Any], second: Mapping[str, Any], place: Mapping[str, Any], measure: str
) -> float | None:
    ours, other = select_rows(rows, {**first, **place}), select_rows(rows, {**second, **place})
    return _ratio(mean(ours, measure), mean(other, measure)) if ours and other else None


def _check_slowing(
    rows: Rows,
    x: str,
    measure: str,
    where: Mapping[str, Any] | None = None,
    over: Sequence[str] = (),
    most: float = 1.0,
) -> Verdict:
    """The measure grows from the first to the last x, at the end at most `most` times as fast as at the beginning.

    Growth is counted per factor of x. Where the measure does not grow at all, the claim does not hold.
    """
    chosen = [row for row in select_rows(rows, where or {}) if row.get(measure) is not None]
    values: dict[Point, float] = {}
    for point in distinct_points(chosen, over) if over else [()]:
        curve = _curve(select_rows(chosen, dict(point)), x, measure, x)
        if curve is not None and len(curve[0]) > 2:
            slopes = np.diff(curve[1]) / np.diff(np.log2(curve[0]))
            grows = slopes[0] > 0 and curve[1][-1] > curve[1][0]
            values[point] = float(slopes[-1] / slopes[0]) if grows else float("inf")
    return _judge(values, None, most, False, " of the first growth at the end", "") if values else _NOT_MEASURED


def _check_curve(
    rows: Rows,
    x: str,
    y: str,
    by: str,
    first: Mapping[str, Any],
    second: Mapping[str, Any] | None = None,
    where: Mapping[str, Any] | None = None,
    at: float | None = None,
    least: float = 0.0,
    over: Sequence[str] = (),
) -> Verdict:
    """A curve is at least `least` high at x = `at`; or it lies above the second one wherever both are defined.

    A curve has a point for each value of `by` and is linear between points.
    """
    chosen = select_rows(rows, where or {})
    values: dict[Point, float] = {}
    for point in distinct_points(chosen, over):
        at_point = select_rows(chosen, dict(point))
        ours = _curve(select_rows(at_point, first), x, y, by)
        if at is not None and ours and ours[0][0] <= at <= ours[0][-1]:
            values[point] = float(np.interp(at, *ours))
        elif at is None and second is not None:
            other = _curve(select_rows(at_point, second), x, y, by)
            for place, height in zip(*ours, strict=True) if ours and other else ():
                if other is not None and max(0.0, other[0][0]) < place <= other[0][-1]:
                    values[(*point, (x, round(float(place), 3)))] = float(height - np.interp(place, *other))
    unit = f" {y} at {x} {at:g}" if at is not None else f" more {y}"
    return _judge(values, least, None, False, unit, "") if values else _NOT_MEASURED


def _curve(rows: Rows, x: str, y: str, by: str) -> tuple[list[float], list[float]] | None:
    """The points of a curve by ascending x."""
    groups = [select_rows(rows, dict(point)) for point in distinct_points(rows, [by])]
    places = sorted((mean(group, x), mean(group, y)) for group in groups)
    return ([place for place, _ in places], [height for _, height in places]) if places else None


def _expand(selector: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield one selector per value of the first list in a selector."""
    lists = [name for name, value in selector.items() if isinstance(value, list)]
    if not lists:
        yield selector
    else:
        yield from ({**selector, lists[0]: value} for value in selector[lists[0]])


def _listed_values(rows: Rows, selector: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of the columns for which the selector has a list: they name the pair."""
    yield from ((name, rows[0][name]) for name, value in selector.items() if isinstance(value, list))


def _ratio(first: float, second: float) -> float:
    return first / second if second else float("inf") if first else 1.0


def _judge(
    values: Mapping[Point, float], least: float | None, most: float | None, best: bool, unit: str, worst: str
) -> Verdict:
    """Compare values at points with the limit. *Partly* needs a point at which the claim holds as stated."""
    limit = least if least is not None else most
    assert limit is not None, "a rule needs `least` or `most`"
    sign = 1.0 if least is not None else -1.0
    held = [point for point, value in values.items() if sign * value >= sign * limit]
    holds = bool(held) if best else len(held) == len(values)
    outcome = HOLDS if holds else PARTLY if held else FAILS
    low, high = min(values, key=lambda point: values[point]), max(values, key=lambda point: values[point])
    if len(values) == 1:
        return Verdict(outcome, f"{_number(values[low])}{unit}{worst}")
    hardest, easiest = (low, high) if sign > 0 else (high, low)
    if best:
        return Verdict(outcome, f"at best {_number(values[easiest])}{unit} ({_describe(easiest)})")
    bounds = f"{_number(values[low])} to {_number(values[high])}{unit}"
    places = f"holds at {len(held)} of {len(values)} points; hardest: {_describe(hardest)}"
    return Verdict(outcome, f"{bounds}; {places}{worst}")


def _describe(point: Point) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in point)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


RULES: Mapping[str, Callable[..., Verdict]] = {
    "times": _check_times,
    "change": _check_change,
    "value": _check_value,
    "slowing": _check_slowing,
    "curve": _check_curve,
}
