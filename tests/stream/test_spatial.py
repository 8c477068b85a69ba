"""A stream shared out by places: killed while it switches, its subscriptions come and go, its cells change hands."""

from __future__ import annotations

import pytest
from tests.cli.runs import tidings
from tests.stream.process import QUERIES, Feed, Run, run_once, stored, subscribe, wanted

from tidings.stream.metrics.snapshot import load_snapshot

PLACES = ("near:51.5,-0.1,800", "storm within:-180,-90,180,90", "within:-20,30,40,60 (rain OR police)")
LATER = "near:40,-100,3000"
OPTIONS = ("--plan", "partitioned", "--partitioner", "hybrid", "--matchers", "3", "--adjust-factor", "1.01")
POSTS = 4_000


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A first run is killed at the switch to its first plan; a second one goes on until cells have changed hands."""
    folder = tmp_path_factory.mktemp("places")
    feed, state = Feed(folder / "in", posts_a_file=POSTS), folder / "state"
    subscribe(state, *QUERIES, *PLACES)
    feed.put()
    killed = run_once(feed.folder, state, *OPTIONS, crash="after switching@any")
    with Run(feed.folder, state, *OPTIONS) as run:
        run.until_posts(POSTS)
        for _ in range(8):
            feed.put()
            run.until(lambda: run.figures.posts >= len(feed.rows), "the file is taken")
            if run.figures.rebalances:
                break
        (later,), before = subscribe(state, LATER), len(feed.rows)
        feed.put()
        run.until_posts(len(feed.rows))
        run.stop()
    return state, feed, killed, (later, before), run


def test_it_was_killed_and_went_on(story):
    _, _, killed, _, run = story
    assert killed.process.returncode == -9
    assert run.process.returncode == 0


def test_it_stores_what_the_scan_finds(story):
    state, feed, _, (later, before), _ = story
    wished = wanted(feed.rows, (*QUERIES, *PLACES)) | wanted(feed.rows[before:], [LATER], later)
    assert stored(state) == wished


def test_cells_changed_hands_and_the_status_tells_why(story):
    state, _, _, _, run = story
    figures = load_snapshot(state)
    assert (figures.execution_mode, figures.partitioner) == ("partitioned", "hybrid")
    assert figures.rebalances >= 1, run.out
    assert figures.rebalanced_bytes > 0
    assert figures.rebalance_seconds > 0
    assert "; cells: " in figures.last_rebalance["reason"]
    said = " ".join(tidings("status", "--state", state).out.split())
    assert "places and words by hybrid" in said
    assert "; cells: " in said
