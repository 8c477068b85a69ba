"""Killed anywhere and started again: every match is stored exactly once."""

from __future__ import annotations

import random
import signal
import sys
import time

import pytest
from tests.cli.runs import TIDINGS
from tests.stream.process import QUERIES, Feed, Run, done, run_once, stored, subscribe, wanted

from tidings.failpoints import POINTS
from tidings.store import open_store

BEHIND = "import tidings.stream.commit_queue as s; s.MUCH = 0; from tidings.cli.main import main; main()"
ALL_BEHIND = (sys.executable, "-c", BEHIND)  # stores every batch while the next is matched, however small it is
LATER_QUERY = "the OR in OR a OR storm OR fire OR match"


def crash(feed: Feed, state, point: str, batch: int, command=TIDINGS) -> None:
    run = run_once(feed.folder, state, crash=f"{point}@{batch}", command=command)
    assert run.process.returncode == -signal.SIGKILL, f"{point}@{batch} was not reached\n{run.err}"


def test_six_crashes_lose_nothing_and_repeat_nothing_and_a_replay_uses_its_first_index_version(tmp_path):
    state, feed = tmp_path / "state", Feed(tmp_path / "in")
    feed.put(7)
    subscribe(state, *QUERIES)
    crash(feed, state, "after writing", 0)
    crash(feed, state, "before committing", 1)
    (later,) = subscribe(state, LATER_QUERY)  # batch 1 is begun, and must not see it
    crash(feed, state, "after keeping", 2, ALL_BEHIND)
    crash(feed, state, "before committing", 3, ALL_BEHIND)
    crash(feed, state, "before checkpointing", 4)
    with Run(feed.folder, state, "--once", command=ALL_BEHIND) as run:
        run.until_taking()
        time.sleep(random.Random(1).uniform(0, 2))
        run.kill()
    done(state, feed=feed.folder)

    old = wanted(feed.rows, QUERIES)
    new = wanted(feed.rows[2 * feed.posts_a_file :], [LATER_QUERY], later)
    assert len(old) > 10
    assert wanted(feed.rows[feed.posts_a_file : 2 * feed.posts_a_file], [LATER_QUERY]), "it would match in batch 1"
    assert stored(state) == old | new
    with open_store(state) as store:
        ledger = {one.batch: one for one in store.batches.recent()}
        found = {
            one.index_version for n in range(1, later) for one in store.matches.since(n, limit=10_000) if one.batch == 1
        }
    assert set(ledger) == set(range(7))
    assert {one.state for one in ledger.values()} == {"done"}
    assert found == {ledger[0].index_version}, "the replay of batch 1 used the version that batch 0 had"
    assert ledger[2].index_version > ledger[1].index_version


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_crash_at_every_point_loses_nothing_and_repeats_nothing(tmp_path):
    state, feed = tmp_path / "state", Feed(tmp_path / "in")
    feed.put(len(POINTS) + 2)
    subscribe(state, *QUERIES)
    for batch, point in enumerate(POINTS):
        crash(feed, state, point, batch, ALL_BEHIND if batch % 2 else TIDINGS)
    done(state, feed=feed.folder)
    assert stored(state) == wanted(feed.rows, QUERIES)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_fifty_crashes_at_any_moment_lose_nothing_and_repeat_nothing(tmp_path):
    chance = random.Random(2013)
    state, feed = tmp_path / "state", Feed(tmp_path / "in", posts_a_file=100)
    subscribe(state, *QUERIES)
    feed.put(5)
    for number in range(50):
        feed.put(2)
        with Run(feed.folder, state, command=ALL_BEHIND if number % 2 else TIDINGS) as run:
            if number % 5:
                run.until_taking()
            time.sleep(chance.uniform(0, 4))
            run.kill()
    with Run(feed.folder, state, "--once") as run:
        assert run.ended(600) == 0, run.err
    assert stored(state) == wanted(feed.rows, QUERIES)
