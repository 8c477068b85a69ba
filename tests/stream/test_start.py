"""A stream that starts: it stops with code 0, leaves no temporary files, and names a Java process that was killed."""

from __future__ import annotations

import os
import re
import signal

import pytest
from tests.stream.process import QUERIES, PostFeed, StreamProcess, subscribe

from tidings.spark.run_files import FOLDER
from tidings.stream.phase import read_phase
from tidings.testing.processes import descendants, read_arguments


def find_jvm(process: StreamProcess) -> int | None:
    """Return the Java process of Spark, not the one that only assembles its command line."""
    lines = {pid: " ".join(read_arguments(pid)) for pid in descendants(process.process.pid)}
    return next((pid for pid, line in lines.items() if "SparkSubmit" in line and "launcher.Main" not in line), None)


@pytest.fixture
def feed(tmp_path, monkeypatch) -> PostFeed:
    """A feed with one file, and a shared temporary directory that is empty."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    feed = PostFeed(tmp_path / "posts")
    feed.add_files()
    return feed


@pytest.mark.parametrize("moment", ["imports", "Java starts", "index opens"])
def test_sigterm_during_the_start_exits_with_0(feed, tmp_path, moment):
    state = tmp_path / "state"
    subscribe(state, *QUERIES)
    with StreamProcess(feed.folder, state) as process:
        conditions = {
            "imports": lambda: (state / FOLDER).is_dir(),
            "Java starts": lambda: find_jvm(process),
            "index opens": lambda: read_phase(state) is not None,
        }
        process.wait_for(conditions[moment], moment)
        process.process.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.err
        assert "Traceback" not in process.err
    phase = read_phase(state)
    assert phase is None or phase.phase == "stopped"


def test_killed_run_leaves_nothing_for_ever_and_a_killed_jvm_is_named(feed, tmp_path):
    state, temporary = tmp_path / "state", tmp_path / "tmp"
    subscribe(state, *QUERIES)
    with StreamProcess(feed.folder, state) as process:
        process.wait_for_posts(len(feed.rows))
        process.wait_for(lambda: read_phase(state).phase == "running", "the phase is running")
        process.kill()
    assert not list(temporary.iterdir()), "all temporary files are in the state"
    [dead] = (state / FOLDER).glob("run-*")
    with StreamProcess(feed.folder, state) as process:
        process.wait_until_started()
        assert not dead.exists()
        jvm = find_jvm(process)
        os.kill(jvm, signal.SIGKILL)
        assert process.wait() == 1
    assert re.search(rf"The Java process of Spark \({jvm}\) was killed by SIGKILL (during|after|before)", process.err)
    assert "memory" in process.err
    assert "Py4J" not in process.err
    assert not list((state / FOLDER).glob("run-*"))


def test_idle_stream_reports_that_no_files_wait(feed, tmp_path):
    """Spark reports progress only after a batch; a restarted stream without new posts has none."""
    state = tmp_path / "state"
    with StreamProcess(feed.folder, state) as process:
        process.wait_until_started()
        process.wait_for(lambda: process.snapshot and process.snapshot.pending_files is not None, "files are counted")
        process.stop()
