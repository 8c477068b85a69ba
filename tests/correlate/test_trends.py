"""Trends: unexpected correlations emerge, expected ones do not, and real events are found in real weeks."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data import shared

from tidings.correlate import wire
from tidings.correlate.coefficients import read_coefficients
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.reference_topology import correlate
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_parser import TagParser
from tidings.correlate.tag_vocabulary import TagVocabulary
from tidings.correlate.trends import PAST_WINDOWS, find_related, find_trends
from tidings.errors import InputError

DAY_US = 86_400_000_000
EVENTS = {  # first day of the week, tags of the event
    "2018-06-14": {"keepfamiliestogether", "familiesbelongtogether"},  # children taken from parents at the border
    "2020-03-12": {"coronavirus", "familiesfirst"},  # the pandemic, and the act that answered it
    "2020-05-28": {"georgefloyd", "blacklivesmatter"},  # the murder of George Floyd
}


def write_coefficients(tmp_path, rows):
    """Build coefficients from (day, tags, support, union); windows are days."""
    days, tags, support, union = zip(*rows, strict=True)
    stamp = pa.timestamp("us", "UTC")
    table = pa.table(
        {
            "window_start": pa.array([day * DAY_US for day in days], stamp),
            "window_end": pa.array([(day + 1) * DAY_US for day in days], stamp),
            "tags": pa.array([tag.split() for tag in tags]),
            "jaccard": pa.array([a / b for a, b in zip(support, union, strict=True)]),
            "support": pa.array(support, pa.int64()),
            "union": pa.array(union, pa.int64()),
            "calculator": pa.array([0] * len(rows), pa.int32()),
        }
    )
    (tmp_path / "found").mkdir()
    pq.write_table(table, tmp_path / "found" / "part-0.parquet")
    return read_coefficients(tmp_path / "found")


def test_only_unexpected_correlations_emerge(tmp_path):
    regular = [(day, "sun rain", 50, 100) for day in range(5)]
    found = write_coefficients(
        tmp_path, [*regular, (4, "storm flood", 30, 40), (4, "flood rescue", 8, 45), (4, "cat dog", 2, 2)]
    )
    stories = find_trends(found, None, None, 10)
    assert [sorted(story.strongest.tags) for story in stories] == [["flood", "storm"], ["cat", "dog"]]
    assert [sorted(tag_set.tags) for tag_set in stories[0].others] == [["flood", "rescue"]]
    assert stories[0].strongest.score == pytest.approx(30)
    assert (stories[0].strongest.support, stories[0].strongest.union, stories[0].strongest.predicted) == (30, 40, 0)


def test_prediction_is_a_decaying_mean_of_earlier_windows(tmp_path):
    found = write_coefficients(tmp_path, [(0, "a b", 10, 100), (1, "a b", 30, 100), (2, "a b", 60, 100)])
    (story,) = find_trends(found, None, None, 10)
    assert story.strongest.predicted == pytest.approx((0.7 * 0.3 + 0.49 * 0.1) / (0.7 + 0.49))


def test_nothing_emerges_in_the_first_window(tmp_path):
    assert find_trends(write_coefficients(tmp_path, [(0, "a b", 10, 100)]), None, None, 10) == []


def test_related_tags_are_summed_over_windows(tmp_path):
    found = write_coefficients(
        tmp_path, [(0, "a b", 10, 100), (1, "a b", 30, 100), (1, "a b c", 5, 100), (1, "c d", 5, 9)]
    )
    assert [(tags.tags, tags.support, tags.union, tags.windows) for tags in find_related(found, "a", None, 10)] == [
        (["b"], 40, 200, 2),
        (["b", "c"], 5, 100, 1),
    ]
    assert find_related(found, "a", 2 * DAY_US, 10) == []
    assert find_related(found, "unknown", None, 10) == []


def test_related_tags_count_only_adjacent_windows_of_overlapping_ones(tmp_path):
    half = DAY_US // 2
    stamp = pa.timestamp("us", "UTC")
    ends = pa.array([DAY_US, DAY_US + half, 2 * DAY_US], stamp)
    table = pa.table(
        {
            "window_start": pa.array([0, half, DAY_US], stamp),
            "window_end": ends,
            "tags": [["a", "b"]] * 3,
            "jaccard": [0.1, 0.2, 0.4],
            "support": [1, 2, 4],
            "union": [10, 10, 10],
            "calculator": pa.array([0, 0, 0], pa.int32()),
        }
    )
    pq.write_table(table, tmp_path / "found.parquet")
    (related,) = find_related(read_coefficients(tmp_path / "found.parquet"), "a", None, 10)
    assert (related.support, related.union, related.windows) == (5, 20, 2)


def test_files_without_coefficients_are_rejected_with_their_name(tmp_path):
    with pytest.raises(InputError, match="tidings correlate"):
        read_coefficients(tmp_path / "nothing")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "it.parquet")
    with pytest.raises(InputError, match="column `window_start` is missing"):
        read_coefficients(tmp_path / "it.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read"):
        read_coefficients(tmp_path / "bad.parquet")


@pytest.mark.real_data
@pytest.mark.parametrize("week", EVENTS)
def test_events_of_known_weeks_are_among_the_first_twenty_stories(tmp_path, week):
    start = int(dt.datetime.fromisoformat(f"{week}T00:00:00+00:00").timestamp() * 1_000_000)
    posts, vocabulary = _load_real_posts(start - PAST_WINDOWS * 7 * DAY_US, start + 7 * DAY_US)
    settings = CorrelationSettings.parse("7 days", partitions=4)
    reports = correlate(posts, settings).reports
    batch = wire.to_record_batch(reports, vocabulary.to_arrow(), settings.slide_us, settings.panes)
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "found.parquet")
    stories = find_trends(read_coefficients(tmp_path / "found.parquet"), None, None, 20)
    event = next(story for story in stories if EVENTS[week] <= set(story.tags))
    assert event.strongest.window_start_us == start
    assert event.strongest.jaccard > 3 * event.strongest.predicted
    assert event.strongest.support >= 50


def _load_real_posts(first_us: int, last_us: int) -> tuple[TaggedPosts, TagVocabulary]:
    table = pq.read_table(shared("hashtags.parquet"), columns=["time", "tags"])
    times = table["time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    inside = np.flatnonzero((times.to_numpy() >= first_us) & (times.to_numpy() < last_us))
    window = pa.table({"time": times, "tags": table["tags"]}).take(pa.array(inside)).combine_chunks()
    parser, vocabulary = TagParser(), TagVocabulary()
    parts = [vocabulary.renumber_posts(parser.parse(batch)) for batch in window.to_batches()]
    return TaggedPosts.concat(parts).sort_by_time(), vocabulary
