"""The small parts: the tracker's choice, how many partitions are in use, what settings may be."""

from __future__ import annotations

import numpy as np
import pytest
from tests.correlate.definitions import flat, rows

from tidings.correlate.autoscale import partitions_for
from tidings.correlate.partition.subset_counts import Counted
from tidings.correlate.settings import Settings, microseconds
from tidings.correlate.tracker import Reports, Tracker, tracked
from tidings.errors import InputError


def reports(*given: tuple[int, int, set[int], int, int]) -> Reports:
    """Of (window end, calculator, tags, support, union)."""
    ends, calculators, tags, support, union = zip(*given, strict=True)
    counted = Counted(*flat(tags), np.array(support, np.int64), np.array(union, np.int64))
    return Reports(np.array(ends, np.int64), np.array(calculators, np.uint8), counted)


def listed(found: Reports) -> list[tuple]:
    tags = map(set, rows(found.counted.tags, found.counted.starts))
    counts = (found.counted.support.tolist(), found.counted.union.tolist())
    return list(zip(found.ends.tolist(), found.calculators.tolist(), tags, *counts, strict=True))


def test_the_report_with_the_largest_counter_is_kept():
    found = tracked(reports((5, 0, {1, 2}, 3, 9), (5, 1, {1, 2}, 4, 8), (6, 0, {1, 2}, 1, 1), (5, 2, {1, 3}, 1, 2)))
    assert sorted(listed(found), key=str) == [(5, 1, {1, 2}, 4, 8), (5, 2, {1, 3}, 1, 2), (6, 0, {1, 2}, 1, 1)]
    assert sorted(found.jaccard.tolist()) == [0.5, 0.5, 1.0]


def test_of_equal_counters_the_one_that_saw_more_then_the_lower_calculator():
    assert listed(tracked(reports((5, 0, {1, 2}, 3, 7), (5, 3, {1, 2}, 3, 9), (5, 1, {1, 2}, 3, 9)))) == [
        (5, 1, {1, 2}, 3, 9)
    ]


def test_a_report_that_comes_twice_changes_nothing():
    once = reports((5, 0, {1, 2}, 3, 9), (6, 1, {2, 4}, 4, 8))
    assert listed(tracked(Reports.together([once, once]))) == listed(tracked(once))


def test_a_report_later_than_its_window_is_counted_and_left_out():
    tracker = Tracker()
    tracker.take(reports((5, 0, {1, 2}, 3, 9), (6, 0, {1, 2}, 2, 9)))
    assert listed(tracker.close(5)) == [(5, 0, {1, 2}, 3, 9)]
    tracker.take(reports((5, 1, {1, 2}, 8, 9), (6, 1, {1, 2}, 3, 9)))
    assert tracker.late == 1
    assert listed(tracker.close(6)) == [(6, 1, {1, 2}, 3, 9)]


def test_no_reports_are_no_coefficients():
    assert len(Tracker().close(9)) == 0


@pytest.mark.parametrize(
    ("posts", "in_use", "expected"),
    [(0, 1, 1), (100, 1, 1), (101, 1, 2), (950, 3, 8), (190, 3, 3), (140, 3, 2), (40, 8, 1), (100, 2, 2)],
)
def test_as_many_partitions_are_in_use_as_the_load_needs(posts, in_use, expected):
    assert partitions_for(posts, 100, in_use, most=8) == expected


def test_without_a_limit_all_partitions_are_in_use():
    assert partitions_for(3, None, 1, most=8) == 8


def test_lengths_of_time_are_read_as_people_write_them():
    expected = {"5 min": 300e6, "90s": 90e6, "1 h": 3600e6, "2 days": 172800e6, "0.5 seconds": 5e5, "1 Week": 604800e6}
    assert {text: microseconds(text, "It") for text in expected} == expected


@pytest.mark.parametrize("text", ["", "five", "5", "5 parsecs", "-1 s", "0 s"])
def test_what_is_no_length_of_time_is_refused(text):
    with pytest.raises(InputError, match="such as '5 min'"):
        microseconds(text, "The window")


@pytest.mark.parametrize(
    "wrong",
    [
        {"slide": "3 min"}, {"partitions": 0}, {"partitions": 65}, {"partitioners": 0}, {"algorithm": "x"},
        {"sightings": 0}, {"checked_every": 0}, {"threshold": 0}, {"threshold": float("nan")}, {"min_support": 0},
        {"posts_a_partition": 0},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError):
        Settings.checked("5 min", **wrong)
