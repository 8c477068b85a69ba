"""A plan that is learned while the stream runs: killed wherever it switches, no match is lost or repeated."""

from __future__ import annotations

import signal

import pytest
from tests.cli.runs import tidings
from tests.stream.process import QUERIES, Feed, Run, run_once, stored, subscribe, wanted

from tidings.failpoints import PLAN_FAILPOINTS
from tidings.store import open_store
from tidings.stream.metrics.snapshot import load_snapshot

pytestmark = pytest.mark.timeout(1_800)  # several starts of Spark
PLAN = ("--plan", "partitioned", "--matchers", "3")
LATER_QUERY = "the OR in OR a OR storm OR fire OR match"


def plan_versions(state) -> list[int]:
    with open_store(state) as store:
        return [one.plan_version for one in store.batches.recent()]


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Posts there at the start; a kill before and one after the switch; then a run that is asked to learn anew."""
    folder = tmp_path_factory.mktemp("relearning")
    state, feed = folder / "state", Feed(folder / "in")
    subscribe(state, *QUERIES)
    feed.put(2)
    for point in PLAN_FAILPOINTS:
        run = run_once(feed.folder, state, *PLAN, crash=f"{point}@any")
        assert run.process.returncode == -signal.SIGKILL, f"{point} was not reached\n{run.err}"
    done, later = 2 * feed.posts_a_file, None
    with Run(feed.folder, state, *PLAN) as run:
        run.until_posts(done)
        first = run.figures.plan_version
        asked = tidings("plan", "relearn", "--state", state)
        while run.figures.plan_version == first:
            feed.put()
            done += feed.posts_a_file
            run.until_posts(done)
            if later is None:
                later, at = subscribe(state, LATER_QUERY)[0], len(feed.rows)
        feed.put()
        run.until_posts(done + feed.posts_a_file)
        run.stop()
    return state, feed, first, asked, (later, at), run


def test_it_learns_from_the_posts_that_are_there_before_it_begins(story):
    state, _, first, _, _, _ = story
    assert first == 2
    assert plan_versions(state)[:2] == [2, 2]


def test_who_asks_gets_a_new_plan_between_two_batches(story):
    state, _, first, asked, _, run = story
    assert asked.code == 0
    assert "switches to it between two batches" in asked.out
    versions = plan_versions(state)
    assert versions == sorted(versions)
    assert set(versions) == {first, first + 1}
    assert "requested" in run.out
    assert f"from now on plan {first + 1} is used" in run.out
    with open_store(state) as store:
        assert store.plan_refresh.pending() == 0


def test_no_match_is_lost_or_repeated_also_of_a_subscription_that_came_meanwhile(story):
    state, feed, _, _, (later, at), _ = story
    assert stored(state) == wanted(feed.rows, QUERIES) | wanted(feed.rows[at:], [LATER_QUERY], later)


def test_the_status_tells_the_plan(story):
    state, _, first, _, _, _ = story
    figures = load_snapshot(state)
    assert (figures.execution_mode, figures.partitioner, figures.placement) == ("partitioned", "salb+", "rarest")
    assert figures.plan_version == first + 1
    assert "partitioned, version 3, words by salb+" in tidings("status", "--state", state).out


def test_a_stream_without_a_plan_cannot_learn_one(tmp_path):
    feed = Feed(tmp_path / "in", posts_a_file=5)
    feed.put()
    subscribe(tmp_path / "state", "storm")
    run = run_once(feed.folder, tmp_path / "state")
    assert run.process.returncode == 0, run.err
    told = tidings("plan", "relearn", "--state", tmp_path / "state")
    assert told.code == 2
    assert "run it with --plan partitioned" in " ".join(told.err.split())
