"""A stream with a spatial plan: it crashes at the switch to the plan, gets a subscription, and moves cells."""

from __future__ import annotations

import pytest
from tests.cli.runs import run_command
from tests.stream.process import QUERIES, PostFeed, expected_matches, run_to_kill, stored_matches, subscribe

from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.refresh_policy import MIN_POSTS, RefreshPolicy
from tidings.testing.stream import StreamHarness

REGIONS = ("near:51.5,-0.1,800", "storm within:-180,-90,180,90", "within:-20,30,40,60 (rain OR police)")
LATER_QUERY = "near:40,-100,3000"
OPTIONS = {
    "execution_mode": "partitioned",
    "partitioner": "hybrid",
    "matchers": 3,
    "rebalance": RebalanceOptions(1.01, min_gain=0.01, min_busy_s=0),
    "refresh_policy": RefreshPolicy(min_posts=1_000),
}
POSTS = 4_000


@pytest.fixture(scope="module")
def story(spark, tmp_path_factory):
    """The first run crashes at the switch to its first plan; the second one runs until cells have moved."""
    folder = tmp_path_factory.mktemp("spatial")
    feed, state = PostFeed(folder / "in", posts_per_file=POSTS), folder / "state"
    subscribe(state, *QUERIES, *REGIONS)
    feed.add_files()
    harness = StreamHarness(spark, feed.folder, state, **OPTIONS)
    harness.crash("after-switch")
    with harness.running_stream() as stream:
        stream.wait_for_posts(POSTS)
        for _ in range(8):
            feed.add_files()
            if stream.wait_for_posts(len(feed.rows)).rebalances:
                break
        (later,), before = subscribe(state, LATER_QUERY), len(feed.rows)
        feed.add_files()
        stream.wait_for_posts(len(feed.rows))
    return state, feed, (later, before), harness.snapshot


def test_the_matches_are_exact(story):
    state, feed, (later, before), _ = story
    expected = expected_matches(feed.rows, (*QUERIES, *REGIONS))
    assert stored_matches(state) == expected | expected_matches(feed.rows[before:], [LATER_QUERY], later)


def test_cells_move_and_the_status_shows_why(story):
    state, _, _, snapshot = story
    assert (snapshot.execution_mode, snapshot.partitioner) == ("partitioned", "hybrid")
    assert snapshot.rebalances >= 1
    assert snapshot.rebalanced_bytes > 0
    assert snapshot.rebalance_seconds > 0
    assert "cells: " in snapshot.last_rebalance["reason"]
    status = " ".join(run_command("status", "--state", state).out.split())
    assert "regions and words by hybrid" in status
    assert "cells: " in status


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_process_killed_at_the_switch_to_a_spatial_plan_loses_and_repeats_nothing(spark, tmp_path):
    feed, state = PostFeed(tmp_path / "in", posts_per_file=MIN_POSTS // 2), tmp_path / "state"
    subscribe(state, *QUERIES, *REGIONS)
    feed.add_files(2)
    options = ("--plan", "partitioned", "--partitioner", "hybrid", "--matchers", "3")
    run_to_kill(feed.folder, state, "after-switch@any", *options)
    StreamHarness(spark, feed.folder, state, **OPTIONS).run()
    assert stored_matches(state) == expected_matches(feed.rows, (*QUERIES, *REGIONS))
