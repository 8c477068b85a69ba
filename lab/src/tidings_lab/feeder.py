"""Posts put into a directory at a steady rate, as files renamed into place, whatever becomes of them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings_lab.datasets import Posts

MARKER = "zyxwmarker"  # a word that no post has by itself


class Feeder(threading.Thread):
    """Puts a file every `every_s` seconds. Posts get new ids; each file's first `marked` ones (None: all) say `MARKER`.

    `time` tells when a post was put there. When the posts are used up, they come again under other ids.
    """

    def __init__(self, source: Path, posts: Posts, rate: int, every_s: float, marked: int | None = None) -> None:
        super().__init__(name="feeder", daemon=True)
        self._source, self._table, self._every_s = source, posts.table, every_s
        self._size = min(max(1, int(rate * every_s)), len(posts))
        self._marked = self._size if marked is None else min(marked, self._size)
        self._halt = threading.Event()
        self.files = self.put_posts = self.put_marked = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        start, first = time.monotonic(), self.files
        try:
            while not self._halt.is_set():
                self.put()
                self._halt.wait(max(0.0, start + (self.files - first) * self._every_s - time.monotonic()))
        except Exception as error:
            self.failure = error

    def put(self) -> None:
        """One file."""
        begin = self.files * self._size % max(1, len(self._table) - self._size)
        texts = self._table.column("text").slice(begin, self._size).to_pylist()
        texts[: self._marked] = [f"{text} {MARKER}" for text in texts[: self._marked]]
        ids = np.arange(len(texts), dtype=np.int64) + self.files * self._size
        now = pa.array([repr(time.time())] * len(texts))
        partial = self._source / f".{self.files:06}"
        pq.write_table(pa.table({"id": ids, "text": texts, "time": now}), partial)
        partial.rename(self._source / f"{self.files:06}.parquet")
        self.files += 1
        self.put_posts += len(texts)
        self.put_marked += self._marked

    def stop(self) -> None:
        self._halt.set()
        self.join()
