"""The rules that judge results: a claim holds, holds partly, or does not hold here, and the figures that say so.

A rule looks at the rows of an experiment only; nothing is typed in. Repetitions and folds are averaged first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidings_lab.experiment import Claim, Experiment

HOLDS, PARTLY, FAILS, UNKNOWN = "holds", "holds partly", "does not hold here", "not measured"
Row = Mapping[str, Any]
Rows = Sequence[Row]
Point = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict and what it rests on."""

    verdict: str
    reason: str


def judge(claim: Claim, rows: Rows) -> Finding:
    """Whether a claim shows in the rows."""
    return RULES[claim.rule](rows, **claim.arguments)


def summary(one: Experiment, rows: Rows) -> str:
    """All claims of an experiment in a word, and how many hold."""
    verdicts = [judge(claim, rows).verdict for claim in one.claims]
    known = [verdict for verdict in verdicts if verdict != UNKNOWN]
    if not known:
        return UNKNOWN
    held = known.count(HOLDS)
    word = HOLDS if held == len(known) else FAILS if set(known) == {FAILS} else PARTLY
    return f"{word} ({held} of {len(known)})"


def matching(rows: Rows, where: Mapping[str, Any]) -> list[Row]:
    """The rows with these values; a list allows any of its values."""
    return [row for row in rows if all(_is(row.get(name), value) for name, value in where.items())]


def _is(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else bool(value == wanted)


def points(rows: Rows, over: Sequence[str]) -> list[Point]:
    """The different values of some columns, in order."""
    found = {tuple((name, row[name]) for name in over) for row in rows if all(name in row for name in over)}
    return sorted(found, key=lambda point: [(isinstance(value, str), value) for _, value in point])


def mean(rows: Rows, measure: str) -> float:
    return float(np.mean([row[measure] for row in rows]))


def _times(
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
) -> Finding:
    """The first is at least (or at most) so many times the second, everywhere, or with `best` somewhere.

    `second` may name several by a list: the hardest of them counts. `because` are measures told of the worst place.
    """
    chosen = matching(rows, where or {})
    found = {}
    for point in points(chosen, over):
        here = matching(chosen, dict(point))
        mine, others = matching(here, first), [matching(here, other) for other in _each(second)]
        if mine and any(others):
            ratios = [_ratio(mean(mine, measure), mean(other, measure)) for other in others if other]
            hardest = int(np.argmin(ratios) if least is not None else np.argmax(ratios))
            found[point] = (ratios[hardest], mine, [other for other in others if other][hardest])
    if not found:
        return Finding(UNKNOWN, "this run has nothing to tell it by")
    values = {point: ratio for point, (ratio, _, _) in found.items()}
    worst = min(values, key=lambda point: values[point] if least is not None else -values[point])
    _, mine, other = found[worst]
    named = next((f" against {value}" for name, value in _told(other, second) if name), "")
    causes = [f"{name.replace('_', ' ')} {_ratio(mean(mine, name), mean(other, name)):.2f} ×" for name in because]
    why = f"; there {', '.join(causes)}" if causes else ""
    return _found(values, least, most, best, " times", f"{named}{why}")


def _value(
    rows: Rows,
    measure: str,
    where: Mapping[str, Any] | None = None,
    over: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
    unit: str = "",
    best: bool = False,
) -> Finding:
    """A measure is at least (or at most) so much, everywhere, or with `best` somewhere."""
    chosen = [row for row in matching(rows, where or {}) if row.get(measure) is not None]
    values = {point: mean(matching(chosen, dict(point)), measure) for point in points(chosen, over) if chosen}
    if not values:
        return Finding(UNKNOWN, "this run has nothing to tell it by")
    return _found(values, least, most, best, unit, "")


def _curve(
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
) -> Finding:
    """Where a curve passes `at` it is at least `least` high; or it lies above the second one wherever both go.

    A curve has a point for each value of `by`; between points it is straight.
    """
    chosen = matching(rows, where or {})
    values: dict[Point, float] = {}
    for point in points(chosen, over):
        here = matching(chosen, dict(point))
        mine = _line(matching(here, first), x, y, by)
        if at is not None and mine and mine[0][0] <= at <= mine[0][-1]:
            values[point] = float(np.interp(at, *mine))
        elif at is None and second is not None:
            other = _line(matching(here, second), x, y, by)
            for place, height in zip(*mine, strict=True) if mine and other else ():
                if other is not None and max(0.0, other[0][0]) < place <= other[0][-1]:
                    values[(*point, (x, round(float(place), 3)))] = float(height - np.interp(place, *other))
    if not values:
        return Finding(UNKNOWN, "this run has nothing to tell it by")
    unit = f" {y} at {x} {at:g}" if at is not None else f" more {y}"
    return _found(values, least, None, False, unit, "")


def _line(rows: Rows, x: str, y: str, by: str) -> tuple[list[float], list[float]] | None:
    """The points of a curve by ascending x."""
    groups = [matching(rows, dict(point)) for point in points(rows, [by])]
    places = sorted((mean(group, x), mean(group, y)) for group in groups)
    return ([place for place, _ in places], [height for _, height in places]) if places else None


def _each(selector: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A selector with a list stands for one selector for each value."""
    lists = [name for name, value in selector.items() if isinstance(value, list)]
    if not lists:
        yield selector
    else:
        yield from ({**selector, lists[0]: value} for value in selector[lists[0]])


def _told(other: Rows, second: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Which of several was the hardest, if there were several."""
    yield from ((name, other[0][name]) for name, value in second.items() if isinstance(value, list))


def _ratio(first: float, second: float) -> float:
    return first / second if second else float("inf") if first else 1.0


def _found(
    values: Mapping[Point, float], least: float | None, most: float | None, best: bool, unit: str, worst: str
) -> Finding:
    """The verdict on values at points. *Partly*: at some points, or the right way but not by as much."""
    wanted = least if least is not None else most
    assert wanted is not None, "a rule needs a limit"
    sign = 1.0 if least is not None else -1.0
    held = [point for point, value in values.items() if sign * value >= sign * wanted]
    right_way = (
        [point for point, value in values.items() if sign * (value - 1.0) > 0] if sign * (wanted - 1) > 0 else []
    )
    enough = bool(held) if best else len(held) == len(values)
    partly = bool(right_way) if best else bool(held) or len(right_way) == len(values)
    verdict = HOLDS if enough else PARTLY if partly else FAILS
    low, high = min(values, key=lambda one: values[one]), max(values, key=lambda one: values[one])
    if len(values) == 1:
        return Finding(verdict, f"{_number(values[low])}{unit}{worst}")
    hardest, easiest = (low, high) if sign > 0 else (high, low)
    if best:
        return Finding(verdict, f"at best {_number(values[easiest])}{unit} ({_place(easiest)})")
    told = f"{_number(values[low])} to {_number(values[high])}{unit}; "
    told += f"at {len(held)} of {len(values)} places; hardest: {_place(hardest)}"
    return Finding(verdict, f"{told}{worst}")


def _place(point: Point) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in point)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


RULES: Mapping[str, Callable[..., Finding]] = {"times": _times, "value": _value, "curve": _curve}
