"""An executor that dies in the middle of a batch changes nothing."""

from __future__ import annotations

import os
import signal
import time

import pytest
from tests.stream.process import QUERIES, Feed, Run, children, command_line, stored, subscribe, wanted

from tidings.store import open_store

EXECUTOR = "CoarseGrainedExecutorBackend"


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_an_executor_killed_in_a_batch_changes_nothing(tmp_path):
    state, feed = tmp_path / "state", Feed(tmp_path / "in", posts_a_file=30_000)
    feed.put(2)
    subscribe(state, *QUERIES)
    with Run(feed.folder, state, "--once", "--master", "local-cluster[2,1,1024]") as run, open_store(state) as store:
        run.until(
            lambda: [one.state for one in store.batches.recent()] == ["done", "begun"], "the second batch begins", 400
        )
        time.sleep(0.1)
        executors = [child for child in children(run.process.pid) if EXECUTOR in command_line(child)]
        os.kill(executors[0], signal.SIGKILL)
        assert store.batches.recent(limit=1)[0].state == "begun", "it died in the middle of the batch"
        assert run.ended(300) == 0, run.err
    assert len(executors) == 2
    assert stored(state) == wanted(feed.rows, QUERIES)
