"""`tidings run` under a changing load: a process, posts at given rates, and what the stream made of them.

Every post has a number as its id and the time when it was written, so that the latency of every match is known.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidings.store import Store
from tidings.store.rows import BatchRecord
from tidings.stream.metrics.snapshot import StreamSnapshot, load_snapshot
from tidings_lab.datasets import Posts
from tidings_lab.process_tree import ProcessTree

_FILE_S = 0.25  # a file per quarter of a second
_POLL_S = 0.1
_STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Posts that were written at one rate: their ids, and when the first one was written."""

    factor: float
    rate: float
    first_id: int
    end_id: int
    started_at: float


@dataclass
class PhasedFeeder:
    """Writes posts as files that are renamed into place; posts repeat when all are used.

    `first_id` gets the first text: two feeders that set it when they begin their phases write the same texts then.
    """

    folder: Path
    posts: Posts
    written: int = 0
    files: int = 0
    first_id: int = 0

    def feed(self, factor: float, rate: float, seconds: float) -> Phase:
        """Write posts at a rate for some seconds. A file that is late is followed by the next one at once."""
        first, started_at, start = self.written, time.time(), time.monotonic()
        for number in range(max(1, round(seconds / _FILE_S))):
            time.sleep(max(0.0, start + number * _FILE_S - time.monotonic()))
            self.write_file(round(rate * (number + 1) * _FILE_S) - round(rate * number * _FILE_S))
        time.sleep(max(0.0, start + seconds - time.monotonic()))
        return Phase(factor, rate, first, self.written, started_at)

    def write_file(self, count: int) -> None:
        if count == 0:
            return
        ids = np.arange(self.written, self.written + count)
        texts = self.posts.table.column("text").take(pa.array((ids - self.first_id) % len(self.posts)))
        now = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([repr(time.time())]))
        partial = self.folder / f".{self.files:06}"
        pq.write_table(pa.table({"id": ids, "text": texts, "time": now.cast(pa.string())}), partial)
        partial.rename(self.folder / f"{self.files:06}.parquet")
        self.written += count
        self.files += 1


@dataclass
class RunningStream:
    """A `tidings run` process, observed through its state folder."""

    process: subprocess.Popen[bytes]
    state: Path
    sink: Path
    log: Path

    def __post_init__(self) -> None:
        self._tree = ProcessTree(os.getpid())

    def snapshot(self) -> StreamSnapshot | None:
        return load_snapshot(self.state)

    def posts_read(self) -> int:
        snapshot = self.snapshot()
        return 0 if snapshot is None else snapshot.posts

    def wait_until_read(self, posts: int, seconds: float) -> bool:
        """Wait until this number of posts has been read and committed; False if it takes longer."""
        end = time.monotonic() + seconds
        while self.posts_read() < posts:
            if self.process.poll() is not None:
                raise RuntimeError(f"the stream ended: {self.log.read_text('utf-8')[-2000:]}")
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_S)
        return True

    def cpu_s(self) -> float:
        """Return the CPU seconds of the stream with its JVM and its workers."""
        return sum(seconds for role, seconds in self._tree.cpu_s().items() if role.startswith("run"))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(_STOP_S)


@contextmanager
def running_stream(folder: Path, options: Sequence[str]) -> Iterator[RunningStream]:
    """Run `tidings run` on `folder/posts` with its state in `folder/state` and matches in `folder/matches`."""
    posts, state, sink, log = (folder / name for name in ("posts", "state", "matches", "log"))
    command = [sys.executable, "-m", "tidings.cli.main", "run", "--posts", str(posts), "--state", str(state)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--sink", str(sink), *options], stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield RunningStream(process, state, sink, log)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """A batch: its record in the ledger, and the post and the latency of every match."""

    record: BatchRecord
    posts: NDArray[np.int64]
    latency_s: NDArray[np.float64]


def read_outcomes(store: Store, sink: Path) -> list[BatchOutcome]:
    """Return all committed batches, oldest first."""
    files = {int(file.stem.rpartition("-")[2]): file for file in sink.glob("matches-*.parquet")}
    outcomes = []
    for record in store.batches.recent(limit=1_000_000):
        if record.finished_at is None:
            continue
        posts, written = np.zeros(0, np.int64), np.zeros(0)
        if record.batch in files:
            table = pq.read_table(files[record.batch], columns=["post_id", "time"])
            posts = table.column("post_id").to_numpy()
            written = table.column("time").cast(pa.float64()).to_numpy()
        outcomes.append(BatchOutcome(record, posts, record.finished_at - written))
    return outcomes


def sustained_rate(records: Sequence[BatchRecord], posts: int) -> float:
    """Return the posts/s of the batches that read a backlog of so many posts at once."""
    return posts / (max(one.finished_at or one.started_at for one in records) - records[0].started_at)
