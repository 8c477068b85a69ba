"""The archive of Spark's classes is used only if it is whole, private, and of this Java and Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from tidings.spark.class_archive import FOLDER_VARIABLE, archive_key, archive_options, find_archive, recorded_archive
from tidings.spark.java import require_java
from tidings.stream import train_archive


@pytest.fixture
def homes(tmp_path) -> tuple[str, str]:
    """The homes of a Java and a Spark."""
    java, spark = tmp_path / "java", tmp_path / "spark"
    java.mkdir()
    (spark / "jars").mkdir(parents=True)
    (java / "release").write_text('JAVA_VERSION="17.0.1"')
    (spark / "jars" / "core.jar").write_bytes(b"classes")
    return str(java), str(spark)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "archives"))
    folder = tmp_path / "archives"
    folder.mkdir(mode=0o700)
    return folder


def write(folder: Path, key: str, content: bytes = b"archive") -> Path:
    archive = folder / f"spark-{key}-{zlib.crc32(content):08x}.jsa"
    archive.write_bytes(content)
    archive.chmod(0o600)
    return archive


def test_valid_archive_is_mapped_and_its_absence_changes_nothing(homes, folder):
    assert archive_options(*homes) == []
    archive = write(folder, archive_key(*homes))
    assert archive_options(*homes)[0] == f"-XX:SharedArchiveFile={archive}"


@pytest.mark.parametrize("damage", [b"archivE", b"arch", b""])
def test_damaged_archive_is_deleted_and_not_used(homes, folder, damage):
    archive = write(folder, archive_key(*homes))
    archive.write_bytes(damage)
    assert archive_options(*homes) == []
    assert not archive.exists()


def test_archive_that_others_can_write_is_not_used(homes, folder):
    write(folder, archive_key(*homes)).chmod(0o666)
    assert archive_options(*homes) == []
    write(folder, archive_key(*homes))
    folder.chmod(0o777)
    assert archive_options(*homes) == []


def test_valid_archive_is_not_written_again(folder, monkeypatch):
    require_java()
    archive = write(folder, train_archive._key())
    monkeypatch.setattr(train_archive, "_run_small_stream", lambda folder: pytest.fail("a stream started"))
    assert train_archive.train_archive() == archive


def test_linked_archive_is_not_used(homes, folder, tmp_path):
    archive = write(folder, archive_key(*homes))
    archive.rename(tmp_path / "elsewhere")
    archive.symlink_to(tmp_path / "elsewhere")
    assert archive_options(*homes) == []


def test_other_java_or_spark_needs_another_archive(homes):
    java, spark = homes
    key = archive_key(java, spark)
    Path(java, "release").write_text('JAVA_VERSION="17.0.2"')
    other_java = archive_key(java, spark)
    os.utime(Path(spark, "jars", "core.jar"), (1, 1))
    assert len({key, other_java, archive_key(java, spark)}) == 3


def test_empty_variable_switches_archives_off(homes, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, "")
    assert archive_options(*homes) == []


def test_recorded_archive_is_valid_afterwards_and_private(homes, folder):
    key = archive_key(*homes)
    with recorded_archive(folder, key):
        option = archive_options(*homes)[0]
        Path(option.partition("=")[2]).write_bytes(b"classes")
    found = find_archive(folder, key)
    assert found is not None
    assert found.stat().st_mode & 0o777 == 0o600
    assert list(folder.iterdir()) == [found]


def test_next_recording_deletes_what_a_killed_one_left(homes, folder):
    old, new = folder / ".spark-1-1.partial", folder / ".spark-1-2.partial"
    for partial in (old, new):
        partial.touch()
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    with recorded_archive(folder, "1"):
        Path(os.environ["TIDINGS_RECORD_CLASSES"]).write_bytes(b"classes")
    assert (old.exists(), new.exists()) == (False, True)


def test_failed_recording_leaves_nothing(homes, folder):
    with pytest.raises(FileNotFoundError), recorded_archive(folder, archive_key(*homes)):
        pass  # the JVM wrote no file
    assert not list(folder.iterdir())


def test_a_stream_that_stops_does_not_wait_for_its_training(monkeypatch):
    started, popen = [], subprocess.Popen

    def start(command, **options):
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
        started.append(popen([sys.executable, "-c", code], stdout=subprocess.PIPE))
        started[0].stdout.readline()
        return started[0]

    monkeypatch.delenv(train_archive.TRAINING_VARIABLE, raising=False)
    monkeypatch.setattr(train_archive, "_DELAY_S", 0.0)
    monkeypatch.setattr(train_archive, "_STOP_S", 0.1)
    monkeypatch.setattr(train_archive, "is_archive_missing", lambda: True)
    monkeypatch.setattr(subprocess, "Popen", start)
    with train_archive.archive_training():
        while not started:
            time.sleep(0.01)
    assert started[0].returncode == -signal.SIGKILL
