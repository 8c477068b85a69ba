"""The phase of the stream as clients see it: a process that has not reported yet is starting, a dead one stopped."""

from __future__ import annotations

import subprocess
import sys

from tidings.stream.phase import PhaseFile
from tidings.web.stream_phase import phase_reader

REPORT = "import sys, pathlib, tidings.stream.phase as p; p.PhaseFile(pathlib.Path(sys.argv[1])).write('running')"


def test_a_stream_that_has_not_reported_is_starting_while_its_process_lives(tmp_path):
    alive = [True]
    read = phase_reader(tmp_path, lambda: alive[0])
    assert read() == "starting"
    alive[0] = False
    assert read() == "stopped"
    file = PhaseFile(tmp_path)
    for phase in ("starting", "running", "stopping", "stopped"):
        file.write(phase)
        assert read() == phase


def test_a_stream_that_was_killed_is_stopped_until_it_is_started_again(tmp_path):
    subprocess.run([sys.executable, "-c", REPORT, str(tmp_path)], check=True)
    assert phase_reader(tmp_path, lambda: False)() == "stopped"
    assert phase_reader(tmp_path, lambda: True)() == "starting"


def test_a_server_without_a_stream_knows_one_in_the_same_directory(tmp_path):
    read = phase_reader(tmp_path, None)
    assert read() == "external"
    PhaseFile(tmp_path).write("running")
    assert read() == "running"
    PhaseFile(tmp_path).write("stopped")
    assert read() == "external"
