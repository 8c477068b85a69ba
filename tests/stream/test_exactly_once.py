"""A stream that crashes anywhere and starts again stores every match exactly once."""

from __future__ import annotations

import random
import time
from contextlib import nullcontext

import pytest
from tests.cli.runs import TIDINGS
from tests.stream.process import (
    BACKGROUND_COMMITS,
    QUERIES,
    PostFeed,
    StreamProcess,
    expected_matches,
    run_to_end,
    run_to_kill,
    stored_matches,
    subscribe,
)

from tidings.failpoints import BATCH_FAILPOINTS, SPILL_FAILPOINTS
from tidings.store import open_store
from tidings.testing.stream import StreamHarness, background_commits

LATER_QUERY = "the OR in OR a OR storm OR fire OR match"


@pytest.fixture
def feed(tmp_path):
    subscribe(tmp_path / "state", *QUERIES)
    return PostFeed(tmp_path / "in")


@pytest.mark.parametrize("in_background", [False, True], ids=["foreground", "background"])
def test_a_crash_at_every_failpoint_loses_and_repeats_nothing(spark, tmp_path, feed, in_background):
    points = (*BATCH_FAILPOINTS, *(SPILL_FAILPOINTS if in_background else ()))
    feed.add_files(len(points) + 2)
    harness = StreamHarness(spark, feed.folder, tmp_path / "state")
    with background_commits() if in_background else nullcontext():
        for batch, point in enumerate(points):
            harness.crash(point, batch)
        harness.run()
    matches = stored_matches(tmp_path / "state")
    assert len(matches) > 10
    assert matches == expected_matches(feed.rows, QUERIES)
    with open_store(tmp_path / "state") as store:
        assert {batch.state for batch in store.batches.recent()} == {"done"}


def test_a_replay_uses_the_index_version_of_its_first_run(spark, tmp_path, feed):
    state = tmp_path / "state"
    feed.add_files(4)
    harness = StreamHarness(spark, feed.folder, state)
    harness.crash("before-commit", 1)
    (later,) = subscribe(state, LATER_QUERY)  # batch 1 has begun and must not use it
    with background_commits():
        harness.crash("after-spill", 2)
    harness.run()
    size = feed.posts_per_file
    assert expected_matches(feed.rows[size : 2 * size], [LATER_QUERY]), "it would match in batch 1"
    later_matches = expected_matches(feed.rows[2 * size :], [LATER_QUERY], later)
    assert stored_matches(state) == expected_matches(feed.rows, QUERIES) | later_matches
    with open_store(state) as store:
        ledger = {batch.batch: batch for batch in store.batches.recent()}
        matches = [match for number in range(1, later) for match in store.matches.since(number, limit=10_000)]
    assert set(ledger) == set(range(4))
    assert {match.index_version for match in matches if match.batch == 1} == {ledger[0].index_version}
    assert ledger[2].index_version > ledger[1].index_version


@pytest.mark.parametrize(
    ("failpoint", "command"),
    [
        ("before-commit@1", BACKGROUND_COMMITS),
        pytest.param("after-write@0", TIDINGS, marks=pytest.mark.long),
        pytest.param("after-spill@2", BACKGROUND_COMMITS, marks=pytest.mark.long),
        pytest.param("before-checkpoint@1", TIDINGS, marks=pytest.mark.long),
    ],
)
def test_a_killed_process_loses_and_repeats_nothing(spark, tmp_path, feed, failpoint, command):
    feed.add_files(4)
    run_to_kill(feed.folder, tmp_path / "state", failpoint, command=command)
    StreamHarness(spark, feed.folder, tmp_path / "state").run()
    assert stored_matches(tmp_path / "state") == expected_matches(feed.rows, QUERIES)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_process_killed_at_every_failpoint_loses_and_repeats_nothing(tmp_path, feed):
    feed.add_files(len(BATCH_FAILPOINTS) + 2)
    for batch, point in enumerate(BATCH_FAILPOINTS):
        command = BACKGROUND_COMMITS if batch % 2 else TIDINGS
        run_to_kill(feed.folder, tmp_path / "state", f"{point}@{batch}", command=command)
    run_to_end(feed.folder, tmp_path / "state")
    assert stored_matches(tmp_path / "state") == expected_matches(feed.rows, QUERIES)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_process_killed_fifty_times_at_random_loses_and_repeats_nothing(tmp_path, feed):
    rng = random.Random(2013)
    feed.posts_per_file = 100
    feed.add_files(5)
    for number in range(50):
        feed.add_files(2)
        command = BACKGROUND_COMMITS if number % 2 else TIDINGS
        with StreamProcess(feed.folder, tmp_path / "state", command=command) as process:
            if number % 5:
                process.wait_until_started()
            time.sleep(rng.uniform(0, 4))
            process.kill()
    with StreamProcess(feed.folder, tmp_path / "state", "--once") as process:
        assert process.wait(600) == 0, process.err
    assert stored_matches(tmp_path / "state") == expected_matches(feed.rows, QUERIES)
