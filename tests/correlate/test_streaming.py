"""Correlations in a stream: complete windows are exact, however the posts are divided into batches."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate.definitions import count_coefficients, to_arrays
from tests.correlate.test_topology import settings_options

from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.state_pages import MemoryBackend, StatePage, StateStore
from tidings.correlate.streaming_calculator import StreamingCalculator
from tidings.correlate.streaming_router import StreamingTagRouter
from tidings.correlate.tag_parser import ParsedTags
from tidings.correlate.windows import WindowFiles, merge_reports

NOW = 1 << 60
Post = tuple[int, frozenset[int]]
batches_of_posts = st.lists(
    st.lists(
        st.tuples(st.integers(0, 40), st.frozensets(st.integers(0, 9), min_size=1, max_size=4)), min_size=1, max_size=9
    ),
    min_size=1,
    max_size=9,
)


def parse(posts: Iterable[Post]) -> ParsedTags:
    """Return posts with the local tag numbers of a batch, in a mixed order."""
    rows = list(posts)
    names = sorted({tag for _, tags in rows for tag in tags}, key=lambda tag: (tag * 7) % 10)
    local = to_arrays([names.index(tag) for tag in tags] for _, tags in rows)
    times = np.array([time for time, _ in rows], np.int64)
    return ParsedTags(TaggedPosts(times, *local), "\n".join(f"t{tag}" for tag in names).encode())


class Stream:
    """Does what Spark does, with state in memory: everything is opened for a batch and closed after it."""

    def __init__(self, settings: CorrelationSettings, lateness_us: int) -> None:
        self.settings, self.lateness_us = settings, lateness_us
        self.posts, self.owners = MemoryBackend(), MemoryBackend()
        self.slides: dict[int, MemoryBackend] = defaultdict(MemoryBackend)
        self.states: dict[int, str] = {}  # of the calculators, and of the router (-1)
        self.metrics: dict = {}

    def process(self, *batch: ParsedTags) -> list[StatePage]:
        router = StreamingTagRouter(self.settings, self.lateness_us, self.posts, self.owners, self.states.get(-1))
        notifications = list(router.route(batch, NOW))
        self.states[-1], self.metrics = router.dump_state(), router.metrics()
        reports = []
        for number in router.active:
            calculator = StreamingCalculator(self.settings, number, self.slides[number], self.states.get(number))
            received = [packed for packed in notifications if packed.calculator == number]
            reports.append(calculator.process(received, router.until))
            self.states[number] = calculator.dump_state()
        assert {packed.calculator for packed in notifications} <= set(router.active)
        self.until = router.until
        return [page for page in reports if page is not None]


def to_dict(pages: Iterable[StatePage]) -> dict:
    """Return (window end, tags) → (support, union)."""
    reports, name_column = merge_reports(pages)
    counted, names = reports.counted, name_column.to_pylist()
    bounds = counted.starts.astype(int).tolist()
    tags = [frozenset(int(names[tag][1:]) for tag in counted.tags[first:last].tolist())
            for first, last in pairwise(bounds)]  # fmt: skip
    counts = zip(counted.support.tolist(), counted.union.tolist(), strict=True)
    return dict(zip(zip(reports.ends.tolist(), tags, strict=True), counts, strict=True))


def count_windows(posts: list[Post], settings: CorrelationSettings, until: int) -> dict:
    """Return (window end, tags) → (support, union) by definition, of windows that end by slide `until`."""
    slide, panes, counts = settings.slide_us, settings.panes, {}
    for end in {time // slide + offset for time, _ in posts for offset in range(1, panes + 1)}:
        inside = [tags for time, tags in posts if end - panes <= time // slide < end]
        if end <= until:
            counts |= {(end, tags): pair for tags, pair in count_coefficients(inside, settings.min_support).items()}
    return counts


def drop_late(batches: list[list[Post]], lateness_us: int) -> tuple[list[Post], int]:
    """Return the posts that are not late by the newest time of earlier batches, and the number of late ones."""
    kept, late, newest = [], 0, -(1 << 60)
    for batch in batches:
        for post in batch:
            if post[0] < newest - lateness_us:
                late += 1
            else:
                kept.append(post)
        newest = max([newest, *(time for time, _ in batch)])
    return kept, late


@settings(max_examples=150, deadline=None)
@given(batches_of_posts, settings_options, st.sampled_from([0, 3, 100]))
def test_complete_windows_are_exact_for_any_division_into_batches(batches, options, lateness_us):
    correlation_settings = CorrelationSettings(**{**options, "min_sightings": 1})
    stream = Stream(correlation_settings, lateness_us)
    pages = [stream.process(parse(batch)) for batch in batches]
    posts, late = drop_late(batches, lateness_us)
    assert stream.metrics["late"] == late
    assert stream.metrics["tagged"] == sum(map(len, batches))
    windows = [set(to_dict(batch_pages)) for batch_pages in pages]
    assert sum(map(len, windows)) == len(set().union(*windows)), "a window is reported in one batch only"
    assert to_dict(chain.from_iterable(pages)) == count_windows(posts, correlation_settings, stream.until)


def test_long_stream_is_exact_and_its_state_is_bounded():
    rng = np.random.default_rng(3)
    options = CorrelationSettings(40, 10, 6, 2, min_sightings=1, check_every=50, threshold=0.1, posts_per_partition=60)
    stream, all_posts, pages, stored_pages = Stream(options, 5), [], [], []
    for batch in range(120):  # many batches per slide, changing tags, loads that rise and fall
        size = 30 if 40 <= batch < 80 else 6
        times = batch * 2 + rng.integers(0, 4, size)
        tags = [frozenset((rng.zipf(1.5, rng.integers(1, 4)) % 8 + batch // 4).tolist()) for _ in range(size)]
        posts = [(int(time), post_tags) for time, post_tags in zip(times, tags, strict=True)]
        pages += stream.process(name_tags(posts))
        all_posts += posts
        stored_pages.append(len(stream.posts) + len(stream.owners) + sum(map(len, stream.slides.values())))
    assert to_dict(pages) == count_windows(all_posts, options, stream.until)
    assert stream.metrics["repartitions"]["scaling"] >= 2
    assert stream.metrics["late"] == 0
    assert max(stored_pages) < 300
    owned = sum(len(page.names.split(b"\n")) for page in stream.owners.values())
    assert owned < 60, "owners of old tags must be deleted"


def name_tags(posts: list[Post]) -> ParsedTags:
    names = sorted({tag for _, tags in posts for tag in tags})
    rows = to_arrays([names.index(tag) for tag in tags] for _, tags in posts)
    return ParsedTags(
        TaggedPosts(np.array([t for t, _ in posts], np.int64), *rows), "\n".join(f"t{tag}" for tag in names).encode()
    )


def test_post_from_the_future_is_counted_and_makes_no_other_post_late():
    stream = Stream(CorrelationSettings(10, 10, 2, min_sightings=1), 0)
    stream.process(parse([(5, frozenset({1, 2})), (NOW * 2, frozenset({1, 2}))]))
    pages = stream.process(parse([(6, frozenset({1, 2})), (25, frozenset({3}))]))
    assert (stream.metrics["ahead"], stream.metrics["late"]) == (1, 0)
    assert to_dict(pages) == {(1, frozenset({1, 2})): (2, 2)}


def test_dumped_state_is_small_json():
    stream = Stream(CorrelationSettings(10, 10, 3), 0)
    stream.process(parse([(time, frozenset({time % 5, 5 + time % 3})) for time in range(30)]))
    assert len(stream.states[-1]) < 3000
    assert json.loads(stream.states[-1])["newest_us"] == 29


def test_pages_of_a_group_keep_their_order_and_are_compacted():
    backend = MemoryBackend()
    store = StateStore(backend)
    for number in range(16):
        store.add(7, StatePage(b"", bytes([number])))
    store.add(8, StatePage(b"", b"x"))
    assert [page.blob for page in StateStore(backend).pages_of(7)] == [bytes([number]) for number in range(16)]
    assert store.groups_to_compact() == [7]
    store.compact(7, StatePage(b"", b"all"))
    assert [(group, page.blob) for group, page in StateStore(backend)] == [(7, b"all"), (8, b"x")]
    store.delete_groups(lambda group: group < 8)
    assert list(StateStore(backend)) == [(8, StatePage(b"", b"x"))]


@pytest.fixture
def reports() -> list[list[StatePage]]:
    stream = Stream(CorrelationSettings(10, 10, 2, min_sightings=1), 0)
    return [
        stream.process(parse([(10 * time, frozenset({1, 2})), (10 * time + 1, frozenset({1, 2}))])) for time in range(6)
    ]


def test_replayed_batch_replaces_its_file_and_old_windows_are_deleted(tmp_path, reports):
    windows = WindowFiles(tmp_path, CorrelationSettings(10, 10, 2), max_windows=3)
    for batch, pages in [*enumerate(reports), (5, reports[5])]:
        windows.write(batch, pages)
    rows = pq.read_table(tmp_path).to_pylist()
    assert [row["window_end"].microsecond for row in rows] == [30, 40, 50]
    assert [row["support"] for row in rows] == [2, 2, 2]
