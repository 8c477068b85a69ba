"""A stream with a partitioned index: the same matches, every post counted once, the load of each matcher.

Its store is in PostgreSQL if there is one: the only stream of the tests that uses it.
"""

from __future__ import annotations

import pytest
from tests.stream.process import QUERIES, PostFeed, expected_matches, stored_matches, subscribe

from tidings.testing.postgres import binaries, postgres
from tidings.testing.stream import StreamHarness

MATCHERS = 3


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    if binaries() is None:
        yield str(tmp_path_factory.mktemp("store"))
    else:
        with postgres() as url:
            yield url


@pytest.fixture(scope="module")
def finished_stream(spark, state, tmp_path_factory):
    """A stream that has read three files, one of them with two rows that are rejected."""
    folder = tmp_path_factory.mktemp("partitioned")
    feed = PostFeed(folder / "in", posts_per_file=100)
    subscribe(state, *QUERIES)
    feed.add_files(2)
    feed.add_text("bad.jsonl", "neither JSON\nnor useful\n")
    options = {"execution_mode": "partitioned", "matchers": MATCHERS}
    return feed, StreamHarness(spark, feed.folder, state, folder / "work", **options).run()


def test_the_matches_are_exact(finished_stream, state):
    feed, _ = finished_stream
    assert stored_matches(state) == expected_matches(feed.rows, QUERIES)


def test_every_row_is_counted_once(finished_stream):
    feed, snapshot = finished_stream
    assert snapshot.posts == len(feed.rows) + 2
    assert snapshot.rejected == 2


def test_every_matcher_reports_its_load(finished_stream):
    _, snapshot = finished_stream
    assert [load.matcher for load in snapshot.matchers] == list(range(MATCHERS))
    assert 0 < max(load.posts for load in snapshot.matchers) <= snapshot.posts
    assert sum(load.matches for load in snapshot.matchers) >= snapshot.matches > 0
    assert len(snapshot.batch_matchers) == MATCHERS
