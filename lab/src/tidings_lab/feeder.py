"""Write posts into a directory at a constant rate, as files that are renamed into place."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings_lab.datasets import Posts

MARKER = "zyxwmarker"  # a word that no other post contains


class Feeder(threading.Thread):
    """Writes a file every `interval_s` seconds. The first `marked` posts of a file (None: all) contain `MARKER`.

    Posts get new ids and repeat when all are used. `time` is when a post was written.
    """

    def __init__(self, source: Path, posts: Posts, rate: int, interval_s: float, marked: int | None = None) -> None:
        super().__init__(name="feeder", daemon=True)
        self._source, self._table, self._every_s = source, posts.table, interval_s
        self._size = min(max(1, int(rate * interval_s)), len(posts))
        self._marked = self._size if marked is None else min(marked, self._size)
        self._halt = threading.Event()
        self.files = self.posts_written = self.marked_written = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        start, first = time.monotonic(), self.files
        try:
            while not self._halt.is_set():
                self.write_file()
                self._halt.wait(max(0.0, start + (self.files - first) * self._every_s - time.monotonic()))
        except Exception as error:
            self.failure = error

    def write_file(self) -> None:
        begin = self.files * self._size % max(1, len(self._table) - self._size)
        texts = self._table.column("text").slice(begin, self._size).to_pylist()
        texts[: self._marked] = [f"{text} {MARKER}" for text in texts[: self._marked]]
        ids = np.arange(len(texts), dtype=np.int64) + self.files * self._size
        now = pa.array([repr(time.time())] * len(texts))
        partial = self._source / f".{self.files:06}"
        pq.write_table(pa.table({"id": ids, "text": texts, "time": now}), partial)
        partial.rename(self._source / f"{self.files:06}.parquet")
        self.files += 1
        self.posts_written += len(texts)
        self.marked_written += self._marked

    def stop(self) -> None:
        self._halt.set()
        self.join()
