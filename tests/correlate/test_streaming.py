"""Correlating in a stream: whatever way posts come in batches, complete windows are reported as the definition says."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.correlate.definitions import coefficients, flat
from tests.correlate.test_topology import choices

from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import Settings
from tidings.correlate.state_pages import Book, Memory, Page
from tidings.correlate.streaming_calculator import LiveCalculator
from tidings.correlate.streaming_router import LiveDissemination
from tidings.correlate.tag_parser import Parsed
from tidings.correlate.windows import Windows, track

NOW = 1 << 60
Post = tuple[int, frozenset[int]]
batches_of_posts = st.lists(
    st.lists(
        st.tuples(st.integers(0, 40), st.frozensets(st.integers(0, 9), min_size=1, max_size=4)), min_size=1, max_size=9
    ),
    min_size=1,
    max_size=9,
)


def parsed(posts: Iterable[Post]) -> Parsed:
    """Tags by name; their numbers are those of the batch."""
    rows = list(posts)
    names = sorted({tag for _, tags in rows for tag in tags}, key=lambda tag: (tag * 7) % 10)
    local = flat([names.index(tag) for tag in tags] for _, tags in rows)
    times = np.array([time for time, _ in rows], np.int64)
    return Parsed(TaggedPosts(times, *local), "\n".join(f"t{tag}" for tag in names).encode())


class Stream:
    """What Spark does, with shelves in memory: everything is opened for a batch and closed after it."""

    def __init__(self, chosen: Settings, lateness_us: int) -> None:
        self.chosen, self.lateness_us = chosen, lateness_us
        self.posts, self.owners = Memory(), Memory()
        self.slides: dict[int, Memory] = defaultdict(Memory)
        self.kept: dict[int, str] = {}
        self.figures: dict = {}

    def take(self, *arrived: Parsed) -> list[Page]:
        live = LiveDissemination(self.chosen, self.lateness_us, self.posts, self.owners, self.kept.get(-1))
        told = list(live.take(arrived, NOW))
        self.kept[-1], self.figures = live.kept(), live.figures()
        reports = []
        for number in live.active:
            calculator = LiveCalculator(self.chosen, number, self.slides[number], self.kept.get(number))
            mine = [one for one in told if one.calculator == number]
            reports.append(calculator.take(mine, live.until))
            self.kept[number] = calculator.kept()
        assert {one.calculator for one in told} <= set(live.active)
        self.until = live.until
        return [page for page in reports if page is not None]


def listed(pages: Iterable[Page]) -> dict:
    """(window end, tags) -> (support, union)"""
    found, names = track(pages)
    counted, spelt = found.counted, names.to_pylist()
    bounds = counted.starts.astype(int).tolist()
    tags = [frozenset(int(spelt[tag][1:]) for tag in counted.tags[first:last].tolist())
            for first, last in pairwise(bounds)]  # fmt: skip
    counts = zip(counted.support.tolist(), counted.union.tolist(), strict=True)
    return dict(zip(zip(found.ends.tolist(), tags, strict=True), counts, strict=True))


def by_definition(said: list[Post], chosen: Settings, until: int) -> dict:
    found = {}
    for end in {time // chosen.slide_us + more for time, _ in said for more in range(1, chosen.panes + 1)}:
        inside = [tags for time, tags in said if end - chosen.panes <= time // chosen.slide_us < end]
        if end <= until:
            found |= {(end, tags): counts for tags, counts in coefficients(inside, chosen.min_support).items()}
    return found


def on_time(batches: list[list[Post]], lateness_us: int) -> tuple[list[Post], int]:
    """The posts that are not older than the newest of the batches before, less what is allowed; how many are."""
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
@given(batches_of_posts, choices, st.sampled_from([0, 3, 100]))
def test_complete_windows_are_exact_however_posts_come_in_batches(batches, chosen, lateness_us):
    chosen = Settings(**{**chosen, "sightings": 1})
    stream = Stream(chosen, lateness_us)
    pages = [stream.take(parsed(batch)) for batch in batches]
    said, late = on_time(batches, lateness_us)
    assert stream.figures["late"] == late
    assert stream.figures["tagged"] == sum(map(len, batches))
    windows = [set(listed(some)) for some in pages]
    assert sum(map(len, windows)) == len(set().union(*windows)), "a window is reported in one batch only"
    assert listed(page for some in pages for page in some) == by_definition(said, chosen, stream.until)


def test_a_long_stream_is_exact_keeps_little_and_repartitions_as_it_goes():
    rng = np.random.default_rng(3)
    chosen = Settings(40, 10, 6, 2, sightings=1, checked_every=50, threshold=0.1, posts_a_partition=60)
    stream, said, pages, held = Stream(chosen, 5), [], [], []
    for batch in range(120):  # many batches a slide, tags that come and go, loads that rise and fall
        size = 30 if 40 <= batch < 80 else 6
        times = batch * 2 + rng.integers(0, 4, size)
        tags = [frozenset((rng.zipf(1.5, rng.integers(1, 4)) % 8 + batch // 4).tolist()) for _ in range(size)]
        posts = [(int(time), tags_) for time, tags_ in zip(times, tags, strict=True)]
        pages += stream.take(_named(posts))
        said += posts
        held.append(len(stream.posts) + len(stream.owners) + sum(map(len, stream.slides.values())))
    assert listed(pages) == by_definition(said, chosen, stream.until)
    assert stream.figures["repartitions"]["scaling"] >= 2
    assert stream.figures["late"] == 0
    assert max(held) < 300
    owned = sum(len(page.names.split(b"\n")) for page in stream.owners.values())
    assert owned < 60, "tags of long ago are forgotten"


def _named(posts: list[Post]) -> Parsed:
    names = sorted({tag for _, tags in posts for tag in tags})
    rows = flat([names.index(tag) for tag in tags] for _, tags in posts)
    return Parsed(
        TaggedPosts(np.array([t for t, _ in posts], np.int64), *rows), "\n".join(f"t{tag}" for tag in names).encode()
    )


def test_a_post_from_the_future_is_counted_and_makes_no_other_late():
    stream = Stream(Settings(10, 10, 2, sightings=1), 0)
    stream.take(parsed([(5, frozenset({1, 2})), (NOW * 2, frozenset({1, 2}))]))
    pages = stream.take(parsed([(6, frozenset({1, 2})), (25, frozenset({3}))]))
    assert (stream.figures["ahead"], stream.figures["late"]) == (1, 0)
    assert listed(pages) == {(1, frozenset({1, 2})): (2, 2)}


def test_what_is_kept_is_plain_and_small():
    stream = Stream(Settings(10, 10, 3), 0)
    stream.take(parsed([(time, frozenset({time % 5, 5 + time % 3})) for time in range(30)]))
    assert len(stream.kept[-1]) < 3000
    assert json.loads(stream.kept[-1])["newest_us"] == 29


def test_pages_of_a_group_stay_in_their_order_and_become_one_when_there_are_many():
    shelf = Memory()
    book = Book(shelf)
    for number in range(16):
        book.add(7, Page(b"", bytes([number])))
    book.add(8, Page(b"", b"x"))
    assert [page.blob for page in Book(shelf).of(7)] == [bytes([number]) for number in range(16)]
    assert book.crowded() == [7]
    book.rewrite(7, Page(b"", b"all"))
    assert [(group, page.blob) for group, page in Book(shelf)] == [(7, b"all"), (8, b"x")]
    book.forget(lambda group: group < 8)
    assert list(Book(shelf)) == [(8, Page(b"", b"x"))]


@pytest.fixture
def reports() -> list[list[Page]]:
    stream = Stream(Settings(10, 10, 2, sightings=1), 0)
    return [
        stream.take(parsed([(10 * time, frozenset({1, 2})), (10 * time + 1, frozenset({1, 2}))])) for time in range(6)
    ]


def test_a_batch_that_comes_again_replaces_its_file_and_old_windows_go(tmp_path, reports):
    windows = Windows(tmp_path, Settings(10, 10, 2), kept=3)
    for batch, pages in [*enumerate(reports), (5, reports[5])]:
        windows.write(batch, pages)
    found = pq.read_table(tmp_path).to_pylist()
    assert [row["window_end"].microsecond for row in found] == [30, 40, 50]
    assert [row["support"] for row in found] == [2, 2, 2]
