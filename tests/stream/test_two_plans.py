"""A stream on Spark moves its subscriptions to new plans in slices, crashes at switches, and gets subscriptions."""

from __future__ import annotations

import pytest
from tests.cli.runs import run_command
from tests.stream.process import QUERIES, PostFeed, expected_matches, stored_matches, subscribe

from tidings.balance.rebalance.global_policy import GlobalSettings
from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.refresh_policy import RefreshPolicy
from tidings.testing.stream import StreamHarness

REGIONS = ("near:51.5,-0.1,800", "storm within:-180,-90,180,90", "within:-20,30,40,60 (rain OR police)")
LATER_QUERY = "near:40,-100,3000"
POSTS, MAX_FILES = 600, 20
EAGER = GlobalSettings(min_posts=POSTS, min_gain=-10.0, max_slices=3, min_slice=1)  # every plan is adopted
OPTIONS = {
    "execution_mode": "partitioned",
    "partitioner": "hybrid",
    "matchers": 3,
    "rebalance": RebalanceOptions(factor=None, interval_s=0.0, global_settings=EAGER),
    "refresh_policy": RefreshPolicy(min_posts=POSTS),
}


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_slices_and_crashes_lose_and_repeat_nothing(spark, tmp_path):
    feed, state = PostFeed(tmp_path / "in", posts_per_file=POSTS), tmp_path / "state"
    subscribe(state, *QUERIES, *REGIONS)
    feed.add_files()
    harness = StreamHarness(spark, feed.folder, state, **OPTIONS)
    seen: set[str] = set()
    with harness.running_stream() as stream:
        while feed.files < MAX_FILES and not {"adopted", "moved"} <= seen:
            feed.add_files()
            snapshot = stream.wait_for_posts(len(feed.rows))
            reason = str(snapshot.last_rebalance.get("reason", ""))
            seen |= {"moved"} if "moved" in reason else set()
            seen |= {"adopted"} if snapshot.last_evaluation.get("is_adopted") else set()
    assert seen == {"adopted", "moved"}
    assert "a new plan has" in " ".join(run_command("status", "--state", state).out.split())
    for point in ("before-switch", "after-switch"):
        feed.add_files(6)
        harness.crash(point)
    (later,), before = subscribe(state, LATER_QUERY), len(feed.rows)
    assert harness.run().last_evaluation
    feed.add_files(3)
    harness.run()
    expected = expected_matches(feed.rows, (*QUERIES, *REGIONS))
    late = expected_matches(feed.rows[before:], [LATER_QUERY], later)
    earlier = stored_matches(state) - expected - late  # the posts that the crashed runs had not read
    assert expected | late <= stored_matches(state)
    assert earlier <= expected_matches(feed.rows[:before], [LATER_QUERY], later)
