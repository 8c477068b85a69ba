"""The tracker, the number of partitions in use, and the settings."""

from __future__ import annotations

import numpy as np
import pytest
from tests.correlate.definitions import to_arrays, to_tag_sets

from tidings.correlate.autoscale import choose_partition_count
from tidings.correlate.partition.subset_counts import CountedSets
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tracker import Reports, Tracker, choose_reports
from tidings.errors import InputError


def build_reports(*rows: tuple[int, int, set[int], int, int]) -> Reports:
    """Build reports from (window end, calculator, tags, support, union)."""
    ends, calculators, tags, support, union = zip(*rows, strict=True)
    counted = CountedSets(*to_arrays(tags), np.array(support, np.int64), np.array(union, np.int64))
    return Reports(np.array(ends, np.int64), np.array(calculators, np.uint8), counted)


def to_rows(reports: Reports) -> list[tuple]:
    tags = map(set, to_tag_sets(reports.counted.tags, reports.counted.starts))
    counts = (reports.counted.support.tolist(), reports.counted.union.tolist())
    return list(zip(reports.ends.tolist(), reports.calculators.tolist(), tags, *counts, strict=True))


def test_report_with_the_most_support_is_chosen():
    chosen = choose_reports(
        build_reports((5, 0, {1, 2}, 3, 9), (5, 1, {1, 2}, 4, 8), (6, 0, {1, 2}, 1, 1), (5, 2, {1, 3}, 1, 2))
    )
    assert sorted(to_rows(chosen), key=str) == [(5, 1, {1, 2}, 4, 8), (5, 2, {1, 3}, 1, 2), (6, 0, {1, 2}, 1, 1)]
    assert sorted(chosen.jaccard.tolist()) == [0.5, 0.5, 1.0]


def test_ties_go_to_the_larger_union_then_the_lower_calculator():
    assert to_rows(choose_reports(build_reports((5, 0, {1, 2}, 3, 7), (5, 3, {1, 2}, 3, 9), (5, 1, {1, 2}, 3, 9)))) == [
        (5, 1, {1, 2}, 3, 9)
    ]


def test_duplicate_report_changes_nothing():
    once = build_reports((5, 0, {1, 2}, 3, 9), (6, 1, {2, 4}, 4, 8))
    assert to_rows(choose_reports(Reports.concat([once, once]))) == to_rows(choose_reports(once))


def test_report_after_the_close_of_its_window_is_counted_and_ignored():
    tracker = Tracker()
    tracker.take(build_reports((5, 0, {1, 2}, 3, 9), (6, 0, {1, 2}, 2, 9)))
    assert to_rows(tracker.close(5)) == [(5, 0, {1, 2}, 3, 9)]
    tracker.take(build_reports((5, 1, {1, 2}, 8, 9), (6, 1, {1, 2}, 3, 9)))
    assert tracker.late == 1
    assert to_rows(tracker.close(6)) == [(6, 1, {1, 2}, 3, 9)]


def test_tracker_without_reports_returns_no_coefficients():
    assert len(Tracker().close(9)) == 0


@pytest.mark.parametrize(
    ("posts", "in_use", "expected"),
    [(0, 1, 1), (100, 1, 1), (101, 1, 2), (950, 3, 8), (190, 3, 3), (140, 3, 2), (40, 8, 1), (100, 2, 2)],
)
def test_partition_count_follows_the_load(posts, in_use, expected):
    assert choose_partition_count(posts, 100, in_use, maximum=8) == expected


def test_all_partitions_are_used_without_a_limit():
    assert choose_partition_count(3, None, 1, maximum=8) == 8


def test_window_and_slide_are_parsed_as_durations():
    settings = CorrelationSettings.parse("1 W", "0.5 days")
    assert (settings.window_us, settings.slide_us, settings.panes) == (604_800_000_000, 43_200_000_000, 14)


@pytest.mark.parametrize("text", ["", "five", "5", "5 parsecs", "-1 s", "0 s"])
def test_window_that_is_not_a_duration_is_rejected(text):
    with pytest.raises(InputError, match=f"^--window {text!r}: "):
        CorrelationSettings.parse(text)


@pytest.mark.parametrize(
    "options",
    [
        {"slide": "3 min"}, {"partitions": 0}, {"partitions": 65}, {"partitioners": 0}, {"algorithm": "x"},
        {"min_sightings": 0}, {"check_every": 0}, {"threshold": 0}, {"threshold": float("nan")}, {"min_support": 0},
        {"posts_per_partition": 0},
    ],
)  # fmt: skip
def test_invalid_settings_are_rejected(options):
    with pytest.raises(InputError):
        CorrelationSettings.parse("5 min", **options)
