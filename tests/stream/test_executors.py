"""A killed executor does not change the matches."""

from __future__ import annotations

import os
import signal
import time

import pytest
from tests.stream.process import (
    QUERIES,
    PostFeed,
    StreamProcess,
    expected_matches,
    stored_matches,
    subscribe,
)

from tidings.store import open_store
from tidings.testing.processes import descendants, read_arguments

EXECUTOR = "CoarseGrainedExecutorBackend"


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_an_executor_killed_in_a_batch_does_not_change_the_matches(tmp_path):
    state, feed = tmp_path / "state", PostFeed(tmp_path / "in", posts_per_file=30_000)
    feed.add_files(2)
    subscribe(state, *QUERIES)
    with (
        StreamProcess(feed.folder, state, "--once", "--master", "local-cluster[2,1,1024]") as process,
        open_store(state) as store,
    ):
        process.wait_for(
            lambda: [batch.state for batch in store.batches.recent()] == ["done", "begun"],
            "the second batch begins",
            400,
        )
        time.sleep(0.1)
        children = descendants(process.process.pid)
        executors = [child for child in children if EXECUTOR in " ".join(read_arguments(child))]
        os.kill(executors[0], signal.SIGKILL)
        assert store.batches.recent(limit=1)[0].state == "begun", "it was killed during the batch"
        assert process.wait(300) == 0, process.err
    assert len(executors) == 2
    assert stored_matches(state) == expected_matches(feed.rows, QUERIES)
