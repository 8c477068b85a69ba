"""Rules compute verdicts from rows."""

from __future__ import annotations

from typing import Any

import pytest

from tidings_lab.claims import FAILS, HOLDS, PARTLY, UNKNOWN, check_claim
from tidings_lab.experiment import Claim


def _rows(**columns: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _check(rule: str, rows: list[dict[str, Any]], **arguments: Any) -> tuple[str, str]:
    verdict = check_claim(Claim("", "", rule, arguments), rows)
    return verdict.outcome, verdict.reason


def test_verdict_follows_from_the_rows() -> None:
    rows = _rows(name=["a", "b", "a", "b", "a", "b"], at=[1, 1, 2, 2, 2, 2], speed=[4.0, 2.0, 3.0, 2.0, 5.0, 2.0])
    both = {"measure": "speed", "first": {"name": "a"}, "second": {"name": "b"}, "over": ["at"]}
    assert _check("times", rows, **both, least=2.0) == (HOLDS, "2 to 2 times; holds at 2 of 2 points; hardest: at 1")
    assert _check("times", rows, **both, least=3.0)[0] == FAILS  # the right direction, but nowhere as stated
    assert _check("times", rows, **both, most=1.0)[0] == FAILS
    assert _check("times", rows, **both, least=1.0, where={"at": 9})[0] == UNKNOWN
    assert _check("value", rows, measure="speed", where={"name": "b"}, most=2.0)[0] == HOLDS
    assert _check("value", rows, measure="speed", over=["at"], least=3.0)[0] == HOLDS
    assert _check("value", rows, measure="speed", where={"name": "b"}, least=3.0)[0] == FAILS
    assert _check("value", rows, measure="speed", where={"name": "a"}, over=["at"], least=4.0)[0] == HOLDS
    steep = [*rows, {"name": "a", "at": 3, "speed": 9.0}, {"name": "b", "at": 3, "speed": 2.0}]
    assert _check("times", steep, **both, least=3.0)[0] == PARTLY  # as stated at one of three points
    assert _check("times", rows, **both, least=3.0, best=True)[0] == FAILS


def test_curves_are_compared_where_both_are_defined() -> None:
    up = _rows(name=["a"] * 3, step=[1, 2, 3], x=[0.0, 0.5, 1.0], y=[1.0, 0.8, 0.0])
    down = _rows(name=["b"] * 2, step=[1, 2], x=[0.0, 1.0], y=[1.0, 0.0])
    curve = {"x": "x", "y": "y", "by": "step", "first": {"name": "a"}}
    assert _check("curve", up + down, **curve, second={"name": "b"})[0] == HOLDS
    assert _check("curve", up, **curve, at=0.25, least=0.9) == (HOLDS, "0.9 y at x 0.25")
    assert _check("curve", up, **curve, at=0.75, least=0.9)[0] == FAILS
    assert _check("curve", up, **curve, at=2.0, least=0.9)[0] == UNKNOWN


def test_hardest_opponent_counts_and_is_named() -> None:
    rows = _rows(name=["a", "b", "c"], speed=[4.0, 2.0, 5.0], cost=[1.0, 1.0, 2.0])
    verdict = _check(
        "times",
        rows,
        measure="speed",
        first={"name": "a"},
        second={"name": ["b", "c"]},
        least=1.0,
        because=["cost"],
    )
    assert verdict == (FAILS, "0.8 times against c; there cost 0.50 ×")


def test_hardest_of_several_firsts_counts() -> None:
    rows = _rows(name=["a", "b", "c", "d"], speed=[4.0, 2.0, 5.0, 1.0])
    sides = {"measure": "speed", "first": {"name": ["a", "b"]}, "second": {"name": ["c", "d"]}}
    assert _check("times", rows, **sides, least=0.5) == (FAILS, "0.4 times for b against c")
    assert _check("times", rows, **sides, most=4.0) == (HOLDS, "4 times for a against d")


def test_most_takes_the_hardest_opponent_too() -> None:
    rows = _rows(name=["a", "b", "c"], cost=[3.0, 6.0, 2.0])
    arguments = {"measure": "cost", "first": {"name": "a"}, "second": {"name": ["b", "c"]}}
    assert _check("times", rows, **arguments, most=1.0) == (FAILS, "1.5 times against c")


def test_changes_compare_two_ratios() -> None:
    """The lead of a over b grows from 2 to 6 times, so it becomes three times as large."""
    rows = _rows(name=["a", "b", "a", "b"], at=[1, 1, 2, 2], speed=[4.0, 2.0, 6.0, 1.0], cost=[1.0, 1.0, 2.0, 1.0])
    lead = {"measure": "speed", "first": {"name": "a"}, "second": {"name": "b"}, "at": {"at": 2}, "than": {"at": 1}}
    assert _check("change", rows, **lead, least=3.0) == (HOLDS, "3 times as much")
    assert _check("change", rows, **lead, least=3.1)[0] == FAILS
    assert _check("change", rows, **lead, compared="cost", least=6.0)[0] == HOLDS  # 6 of speed over 1 of cost
    assert _check("change", rows, **(lead | {"than": {"at": 3}}), least=1.0)[0] == UNKNOWN
    falls = {"measure": "speed", "first": {"name": "a", "at": 2}, "second": {"name": "a", "at": 1}}
    pair = {"than_first": {"name": "b", "at": 2}, "than_second": {"name": "b", "at": 1}}
    assert _check("change", rows, **falls, **pair, least=3.0) == (HOLDS, "3 times as much")  # 1.5 over 0.5
    with pytest.raises(AssertionError, match="compared with itself"):
        _check("change", rows, **falls, least=1.0)


def test_change_is_compared_with_the_hardest_of_several() -> None:
    rows = _rows(name=["a", "a", "b", "b", "c", "c"], at=[1, 2] * 3, load=[1.0, 4.0, 1.0, 2.0, 1.0, 8.0])
    growth = {"measure": "load", "first": {"at": 2}, "second": {"at": 1}, "at": {"name": "a"}}
    assert _check("change", rows, **growth, than={"name": ["b", "c"]}, least=1.0) == (FAILS, "0.5 times as much")
    assert _check("change", rows, **growth, than={"name": ["b", "c"]}, most=1.0) == (FAILS, "2 times as much")


def test_slowing_growth_is_counted_per_doubling() -> None:
    slowing = _rows(at=[2, 4, 8], spread=[1.0, 2.0, 2.5])
    assert _check("slowing", slowing, x="at", measure="spread", most=0.5)[0] == HOLDS
    assert _check("slowing", slowing, x="at", measure="spread", most=0.4)[0] == FAILS
    assert _check("slowing", _rows(at=[2, 4, 8], spread=[3.0, 2.0, 1.0]), x="at", measure="spread")[0] == FAILS
    assert _check("slowing", slowing[:2], x="at", measure="spread")[0] == UNKNOWN
