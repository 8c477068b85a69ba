"""A stream whose index is shared out over matchers: the same matches, every post counted once, each matcher's load.

Its state is in PostgreSQL where there is one: the only stream of the tests that has it there.
"""

from __future__ import annotations

import pytest
from tests.stream.process import QUERIES, Feed, run_once, stored, subscribe, wanted

from tidings.stream.metrics.snapshot import load_snapshot
from tidings_lab.postgres import binaries, postgres

MATCHERS = 3


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    if binaries() is None:
        yield str(tmp_path_factory.mktemp("store"))
    else:
        with postgres() as url:
            yield url


@pytest.fixture(scope="module")
def ended(state, tmp_path_factory):
    """A stream that took three files, one of them with a row that cannot be used."""
    folder = tmp_path_factory.mktemp("partitioned")
    feed, work = Feed(folder / "in", posts_a_file=100), folder / "work"
    subscribe(state, *QUERIES)
    feed.put(2)
    feed.put_text("bad.jsonl", "neither JSON\nnor useful\n")
    run = run_once(feed.folder, state, "--plan", "partitioned", "--matchers", str(MATCHERS), work=work)
    assert run.process.returncode == 0, run.err
    return state, feed, load_snapshot(work)


def test_it_stores_what_the_scan_finds(ended):
    state, feed, _ = ended
    assert stored(state) == wanted(feed.rows, QUERIES)


def test_every_row_is_counted_once_though_the_plan_looks_at_it_thrice(ended):
    _, feed, figures = ended
    assert figures.posts == len(feed.rows) + 2
    assert figures.rejected == 2


def test_every_matcher_tells_its_load(ended):
    _, _, figures = ended
    assert [load.matcher for load in figures.matchers] == list(range(MATCHERS))
    assert 0 < max(load.posts for load in figures.matchers) <= figures.posts
    assert sum(load.matches for load in figures.matchers) >= figures.matches > 0
    assert len(figures.batch_matchers) == MATCHERS
