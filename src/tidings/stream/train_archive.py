"""Write the class archive of Spark, see `tidings.spark.class_archive`: run a small stream and record what it loads.

``python -m tidings.stream.train_archive`` does it now unless there is one, for example in an image. A stream that has
run for a while without an archive starts it once, at the lowest priority.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.core.context import SparkContext
from pyspark.find_spark_home import _find_spark_home

from tidings.log import Event
from tidings.spark.class_archive import archive_folder, archive_key, find_archive, recorded_archive
from tidings.spark.java import require_java
from tidings.spark.run_files import current_run_files
from tidings.store import open_store
from tidings.stream.options import StreamOptions

TRAINING_VARIABLE = "TIDINGS_TRAIN_CLASS_ARCHIVE"  # "off": streams start no training
LOG = logging.getLogger("tidings.stream")
_DELAY_S = 60.0  # a stream that has just started needs the cores
_STOP_S = 2.0
_NICENESS = 19
_POSTS = 50
_JVM_EXIT_TIMEOUT_S = 300.0


@contextmanager
def archive_training() -> Iterator[None]:
    """Train an archive in a process of its own if there is none after a minute; it ends with this block."""
    done = threading.Event()
    thread = threading.Thread(target=_train_when_due, args=(done,), daemon=True, name="tidings-archive")
    if os.environ.get(TRAINING_VARIABLE) != "off":
        thread.start()
    try:
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()


def _train_when_due(done: threading.Event) -> None:
    if done.wait(_DELAY_S) or not is_archive_missing():
        return
    LOG.debug(Event("class archive training started"))
    with subprocess.Popen(
        [sys.executable, "-m", __spec__.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as training:
        while training.poll() is None and not done.wait(1.0):
            pass
        training.terminate()
        with suppress(subprocess.TimeoutExpired):
            training.wait(_STOP_S)
        training.kill()  # writing the archive takes long, and the stream must not wait for it
    LOG.debug(Event("class archive training ended", exit_code=training.returncode))


def is_archive_missing() -> bool:
    """Return whether an archive could be written and there is none."""
    folder = archive_folder()
    return folder is not None and find_archive(folder, _key()) is None


def train_archive() -> Path | None:
    """Return the archive; if there is none, run a stream over some posts, and let its JVM write it.

    Returns None if archives are switched off.
    """
    require_java()
    folder = archive_folder()
    if folder is None:
        return None
    if (archive := find_archive(folder, _key())) is not None:
        return archive
    run = current_run_files().temporary  # the next run deletes it if this process is killed
    with recorded_archive(folder, _key()), tempfile.TemporaryDirectory(prefix="training-", dir=run) as name:
        _run_small_stream(Path(name))
        _end_jvm()
    return find_archive(folder, _key())


def _key() -> str:
    return archive_key(os.environ.get("JAVA_HOME", ""), _find_spark_home())


def _run_small_stream(folder: Path) -> None:
    from tidings.stream.app import run_stream

    posts, state = folder / "posts", folder / "state"
    posts.mkdir()
    rows = ({"id": number, "text": f"storm number {number}", "time": "2026-01-01T00:00:00"} for number in range(_POSTS))
    (posts / "posts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with open_store(state) as store:
        store.subscriptions.add("storm")
    run_stream(StreamOptions(str(posts), str(state), state, master="local[2]", once=True))


def _end_jvm() -> None:
    """Let the JVM exit, which writes the archive."""
    gateway = SparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    process.stdin.close()
    process.wait(_JVM_EXIT_TIMEOUT_S)


if __name__ == "__main__":
    os.nice(_NICENESS)
    archive = train_archive()
    sys.stdout.write(f"{archive}\n")
    sys.exit(0 if archive is not None else 1)
