"""The number of matchers changes while a stream runs: crashes at the switch lose and repeat no match."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from tests.cli.runs import run_command, run_here
from tests.stream.process import QUERIES, PostFeed, expected_matches, stored_matches, subscribe

from tidings.balance.refresh_policy import RefreshPolicy
from tidings.errors import TidingsError
from tidings.failpoints import PLAN_FAILPOINTS, arm
from tidings.index.manifest import list_versions, load_manifest
from tidings.store import open_store
from tidings.testing.stream import StreamHarness

OPTIONS = {"execution_mode": "partitioned", "matchers": 3, "refresh_policy": RefreshPolicy(min_posts=500)}
LATER_QUERY = "the OR in OR a OR storm OR fire OR match"


def run_until_reached(harness: StreamHarness, feed: PostFeed, failpoint: str) -> None:
    """Add posts until the stream reaches a failpoint. Its error is ignored if the stream is stopped meanwhile."""
    with suppress(TidingsError), arm(failpoint) as point, harness.running_stream():
        while not point.is_reached:
            assert feed.files < 80, "the failpoint is not reached"
            feed.add_files()
            time.sleep(0.3)


@pytest.fixture(scope="module")
def story(spark, tmp_path_factory):
    """Three matchers, then a request for five, with a crash at each end of the switch."""
    folder = tmp_path_factory.mktemp("resize")
    state, feed = folder / "state", PostFeed(folder / "in", posts_per_file=100)
    subscribe(state, *QUERIES)
    feed.add_files(2)
    harness = StreamHarness(spark, feed.folder, state, **OPTIONS)
    assert len(harness.run().batch_matchers) == 3
    request = run_command("plan", "resize", "5", "--state", state)
    run_until_reached(harness, feed, PLAN_FAILPOINTS[0])
    (later,), before = subscribe(state, LATER_QUERY), feed.files
    feed.add_files()
    run_until_reached(harness, feed, PLAN_FAILPOINTS[1])
    harness.options = StreamHarness(spark, feed.folder, state, **{**OPTIONS, "matchers": None}).options
    feed.add_files(2)
    five = len(harness.run().batch_matchers)
    return state, feed, harness, request, five, (later, before)


def test_the_request_is_confirmed(story):
    *_, request, _, _ = story
    assert request.code == 0, request.err
    assert "changes to 5 matchers when it runs next" in request.out


def test_the_stream_has_the_matchers_that_were_requested(story):
    state, _, _, _, five, _ = story
    assert five == 5
    versions = list_versions(state / "index")
    assert len(load_manifest(state / "index", versions[-1]).shards) == 5
    with open_store(state) as store:
        pinned = {batch.index_version for batch in store.batches.recent()}
    shards = {len(load_manifest(state / "index", version).shards) for version in pinned & set(versions)}
    assert 5 in shards


def test_no_match_is_lost_or_repeated(story):
    state, feed, _, _, _, (later, _) = story
    stored = stored_matches(state)
    assert {pair for pair in stored if pair[0] != later} == expected_matches(feed.rows, QUERIES)
    assert {pair for pair in stored if pair[0] == later} <= expected_matches(feed.rows, [LATER_QUERY], later)
    assert any(pair[0] == later for pair in stored)


def test_another_option_at_a_later_start_resizes_too(story, spark):
    state, feed, _, _, _, (later, _) = story
    harness = StreamHarness(spark, feed.folder, state, **{**OPTIONS, "matchers": 2})
    with harness.running_stream() as stream:
        read = len(feed.rows)
        feed.add_files()
        assert stream.wait_for_posts(len(feed.rows) - read).wanted_matchers in (2, None)
        while len(stream.wait_for_posts(len(feed.rows) - read).batch_matchers) != 2:
            assert feed.files < 120, "the stream is not resized"
            feed.add_files()
    assert harness.snapshot.wanted_matchers is None
    stored = stored_matches(state)
    assert {pair for pair in stored if pair[0] != later} == expected_matches(feed.rows, QUERIES)


def test_invalid_numbers_and_replicated_streams_are_rejected(tmp_path):
    (done,) = run_here([["plan", "resize", "0", "--state", str(tmp_path)]], tmp_path)
    assert done.code == 2
    assert "matchers: 0 is out of range" in " ".join(done.err.split())
