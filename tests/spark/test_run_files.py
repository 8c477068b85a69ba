"""The temporary directory and the log of a run of Spark are private, and those of dead runs are deleted."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tidings.errors import InputError
from tidings.spark import run_files
from tidings.spark.run_files import FOLDER, current_run_files, place_run_files

_HOLD = """
import sys
from pathlib import Path
from tidings.spark.run_files import place_run_files
files = place_run_files(Path(sys.argv[1]))
(files.temporary / "spark-data").mkdir()
print(files.temporary, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def no_run_files(monkeypatch):
    """This process has no files yet; it gets its own back after the test."""
    monkeypatch.setattr(run_files, "_current", None)


@pytest.fixture
def temporary(monkeypatch, tmp_path) -> Path:
    """The shared temporary directory."""
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def hold_run(state: Path) -> subprocess.Popen:
    """Start a process that has a run in this state."""
    return subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_are_in_the_state_and_private(tmp_path):
    files = place_run_files(tmp_path)
    os.close(files.open_log())
    assert files.temporary.parent == tmp_path / FOLDER == files.log.parent
    assert (mode(files.temporary), mode(files.temporary.parent), mode(files.log)) == (0o700, 0o700, 0o600)
    assert current_run_files() is files is place_run_files(tmp_path / "other")


def test_next_run_deletes_the_directory_of_a_killed_run_but_not_of_a_live_one(tmp_path):
    with hold_run(tmp_path) as killed, hold_run(tmp_path) as alive:
        dead_folder, live_folder = Path(killed.stdout.readline().strip()), Path(alive.stdout.readline().strip())
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (dead_folder / "spark-data").is_dir()
        place_run_files(tmp_path)
        assert not dead_folder.exists()
        assert (live_folder / "spark-data").is_dir()
        alive.communicate("\n")
    assert not live_folder.exists(), "a run that ends deletes its directory"


def test_log_is_never_written_through_a_planted_link(tmp_path):
    files = place_run_files(tmp_path)
    target = tmp_path / "victim"
    target.write_text("precious")
    files.log.symlink_to(target)
    with pytest.raises(InputError, match="log cannot be written"):
        files.open_log()
    assert target.read_text() == "precious"


def test_without_a_state_the_files_are_in_a_directory_of_the_user(temporary):
    files = current_run_files()
    assert files.log.parent == temporary / f"tidings-{os.geteuid()}"
    assert mode(files.log.parent) == 0o700


@pytest.mark.parametrize("plant", ["link", "open directory", "file"])
def test_planted_directory_of_the_user_is_not_used(temporary, tmp_path, plant):
    planted = temporary / f"tidings-{os.geteuid()}"
    if plant == "link":
        (tmp_path / "elsewhere").mkdir()
        planted.symlink_to(tmp_path / "elsewhere")
    elif plant == "file":
        planted.touch()
    else:
        planted.mkdir()
        planted.chmod(0o777)
    files = current_run_files()
    assert files.log.parent != planted
    assert mode(files.log.parent) == 0o700
    assert not any(planted.iterdir() if planted.is_dir() else ())


@pytest.mark.parametrize(
    ("text", "stays"),
    [
        ("WARN slow\n", False),
        ("12:00 ERROR lost\n", True),
        ("Error: Could not create the Java Virtual Machine.\n", True),
    ],
)
def test_log_stays_only_with_an_error(tmp_path, text, stays):
    files = place_run_files(tmp_path)
    files.log.write_text(text)
    files.delete()
    assert (files.log.exists(), files.temporary.exists()) == (stays, False)


def test_old_logs_are_deleted(tmp_path):
    folder = tmp_path / FOLDER
    folder.mkdir()
    for name, age_s in (("spark-1.log", 8 * 86_400), ("spark-2.log", 60)):
        (folder / name).write_text("ERROR")
        modified_at = (folder / name).stat().st_mtime - age_s
        os.utime(folder / name, (modified_at, modified_at))
    place_run_files(tmp_path)
    assert sorted(path.name for path in folder.glob("*.log")) == ["spark-2.log"]


def test_old_log_of_a_live_run_stays(tmp_path):
    with hold_run(tmp_path) as alive:
        alive.stdout.readline()
        log = tmp_path / FOLDER / f"spark-{alive.pid}.log"
        log.touch()
        os.utime(log, (0, 0))
        place_run_files(tmp_path)
        assert log.exists()
        alive.communicate("\n")
