"""The phase of a stream, as other processes read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from tests.spark.fixtures import run_python

from tidings.stream import phase as phase_module
from tidings.stream import shutdown
from tidings.stream.phase import FILE, PhaseFile, phase_of_stream, read_phase

_WRITE = "import sys; from pathlib import Path; from tidings.stream.phase import PhaseFile\n"
_WRITE += "PhaseFile(Path(sys.argv[1])).write('running'); print('written', flush=True); input()"


def test_there_is_no_phase_before_the_first_stream(tmp_path):
    assert read_phase(tmp_path) is None
    assert read_phase(tmp_path / "missing") is None


def test_stream_starts_runs_and_has_stopped_at_the_end(tmp_path):
    before = time.time()
    with phase_of_stream(tmp_path) as file:
        starting = read_phase(tmp_path)
        file.write("running")
        running = read_phase(tmp_path)
        file.write("stopping")
        assert read_phase(tmp_path).phase == "stopping"
    assert (starting.phase, starting.pid, running.phase) == ("starting", os.getpid(), "running")
    assert before <= starting.since <= running.since <= time.time()
    assert read_phase(tmp_path).phase == "stopped"


@pytest.mark.parametrize(
    ("message", "batch", "is_matching", "phase"),
    [
        ("Initializing sources", None, False, "starting"),
        ("Processing new data", 3, True, "starting"),  # matches of this batch cannot be seen yet
        ("Processing new data", 3, False, "running"),
        ("Waiting for data to arrive", None, False, "running"),
    ],
)
def test_stream_runs_after_its_first_batch_or_when_no_posts_wait(tmp_path, message, batch, is_matching, phase):
    stop, lock = threading.Event(), threading.Lock()
    runner = SimpleNamespace(batch=batch, running=lock, commits=SimpleNamespace(error=None, wait=lambda *_: None))
    query = SimpleNamespace(isActive=True, status={"message": message}, exception=lambda: None)

    def end_on_second_look() -> bool:
        query.isActive = False
        return stop.is_set()

    with phase_of_stream(tmp_path) as file:
        stopping = SimpleNamespace(is_set=end_on_second_look, wait=stop.wait)
        if is_matching:
            lock.acquire()
        shutdown.run_until_stopped(query, runner, stopping, file)
        assert read_phase(tmp_path).phase == phase


def test_killed_stream_reads_as_stopped(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        alive = read_phase(tmp_path)
        process.kill()
    dead = read_phase(tmp_path)
    assert (alive.phase, dead.phase) == ("running", "stopped")
    assert alive.pid == dead.pid == process.pid
    assert alive.since == dead.since


def test_other_process_with_the_pid_of_a_dead_stream_is_not_the_stream(tmp_path):
    PhaseFile(tmp_path).write("running")
    content = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**content, "started": content["started"] - 1}))
    assert read_phase(tmp_path).phase == "stopped"


@pytest.mark.parametrize("elsewhere", [{"host": "elsewhere"}, {"pid_namespace": "pid:[1]"}])
def test_phase_from_another_machine_or_container_is_believed_while_it_is_touched(tmp_path, elsewhere):
    """Its process ids mean nothing here."""
    PhaseFile(tmp_path).write("running")
    content = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**content, "pid": 1 << 30, **elsewhere}))
    assert read_phase(tmp_path).phase == "running"
    minute_ago = time.time() - 61
    os.utime(tmp_path / FILE, (minute_ago, minute_ago))
    assert read_phase(tmp_path).phase == "stopped"


def test_age_of_the_phase_of_a_process_that_runs_here_has_no_effect(tmp_path):
    PhaseFile(tmp_path).write("running")
    os.utime(tmp_path / FILE, (0, 0))
    assert read_phase(tmp_path).phase == "running"


def test_stream_touches_its_phase(tmp_path, monkeypatch):
    monkeypatch.setattr(phase_module, "_TOUCH_S", 0.01)
    with phase_of_stream(tmp_path):
        os.utime(tmp_path / FILE, (0, 0))
        deadline = time.monotonic() + 60
        while (tmp_path / FILE).stat().st_mtime == 0:
            assert time.monotonic() < deadline, "the phase was not touched"
            time.sleep(0.01)
        assert read_phase(tmp_path).phase == "starting"


_UNKNOWN = '{"phase": "asleep", "pid": 1, "since": 1, "host": "", "pid_namespace": "", "started": 1}'


@pytest.mark.parametrize("text", ["", "{}", "[1]", _UNKNOWN])
def test_damaged_file_is_no_phase(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert read_phase(tmp_path) is None


def test_readers_of_the_phase_do_not_load_spark():
    run_python("import sys, tidings.stream.phase; assert not {'pyspark', 'numba', 'pyarrow'} & set(sys.modules)")
