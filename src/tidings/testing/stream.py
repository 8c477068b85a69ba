"""Run a stream in this process on an existing Spark session, so that a crash and a restart need no new JVM.

    harness = StreamHarness(spark, posts=tmp_path / "in", state=tmp_path / "state")
    harness.crash("before-commit", batch=1)
    harness.run()

The code is that of `tidings run`, with a real checkpoint, store and file source. A crash is an exception at a failpoint
(`tidings.failpoints`): transactions are rolled back and nothing is cleaned up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidings.errors import TidingsError
from tidings.failpoints import arm
from tidings.stream import commit_queue
from tidings.stream.app import open_state, run_on_session
from tidings.stream.metrics.snapshot import StreamSnapshot, load_snapshot
from tidings.stream.options import StreamOptions
from tidings.stream.session import STREAM_SETTINGS
from tidings.stream.sinks import MatchSink

_TIMEOUT_S = 300.0
_POLL_S = 0.02


class StreamHarness:
    """A stream that runs as often as you like. By default every file is one batch."""

    def __init__(
        self,
        spark: SparkSession,
        posts: Path,
        state: Path | str,
        work_dir: Path | None = None,
        match_sink: MatchSink | None = None,
        **options: Any,
    ) -> None:
        """`state` is a directory or a postgresql:// URL, which needs a `work_dir`; see StreamOptions for `options`.

        `match_sink` receives the matches instead of the sink of the options.
        """
        self._spark, self._match_sink = spark.newSession(), match_sink
        for name, value in STREAM_SETTINGS.items():
            self._spark.conf.set(name, value)
        defaults = {"max_posts_per_batch": 1, "trigger": "100 milliseconds"}
        self.options = StreamOptions(str(posts), str(state), work_dir or Path(state), **{**defaults, **options})

    def run(self, **changes: Any) -> StreamSnapshot:
        """Match the input that exists; return the metrics. `changes` replace options."""
        options = replace(self.options, once=True, **changes)
        self._run(options, threading.Event())
        return self.snapshot

    def crash(self, failpoint: str, batch: int | None = None, **changes: Any) -> None:
        """Run until a failpoint of a batch (None: of any batch) raises. Raises AssertionError if none does."""
        with arm(failpoint, batch) as point:
            try:
                self.run(**changes)
            except TidingsError:
                if not point.is_reached:
                    raise
                return
        raise AssertionError(f"{failpoint}: the stream ended without an error")

    @contextmanager
    def running_stream(self) -> Iterator[RunningStream]:
        """Run in a thread until the block ends; then stop the stream and raise its error."""
        stream = RunningStream(self)
        try:
            yield stream
        finally:
            stream.stop()

    @property
    def snapshot(self) -> StreamSnapshot:
        """The metrics of the last run."""
        snapshot = load_snapshot(self.options.work_dir)
        assert snapshot is not None, "the stream has not run yet"
        return snapshot

    def _run(self, options: StreamOptions, stop: threading.Event) -> None:
        with open_state(options) as state:
            run_on_session(options, replace(state, sink=self._match_sink), self._spark, stop)


class RunningStream:
    """A stream that runs in a thread."""

    def __init__(self, harness: StreamHarness) -> None:
        self._harness = harness
        self._stop = threading.Event()
        self._started_at = time.time()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tidings-test-stream", daemon=True)
        self._thread.start()

    def wait_for(self, condition: Callable[[StreamSnapshot], bool], timeout_s: float = _TIMEOUT_S) -> StreamSnapshot:
        """Wait until the metrics of this run meet a condition, and return them."""
        deadline = time.monotonic() + timeout_s
        while (snapshot := self._snapshot()) is None or not condition(snapshot):
            assert self._thread.is_alive(), f"the stream ended early: {self._error}"
            assert time.monotonic() < deadline, f"condition not met within {timeout_s} s; last metrics: {snapshot}"
            time.sleep(_POLL_S)
        return snapshot

    def wait_for_posts(self, count: int) -> StreamSnapshot:
        """Wait until this run has read a number of posts."""
        return self.wait_for(lambda snapshot: snapshot.posts >= count)

    def stop(self) -> None:
        """Finish the batch and stop; raise the error of the stream."""
        self._stop.set()
        self._thread.join(_TIMEOUT_S)
        if self._error is not None:
            raise self._error

    def _snapshot(self) -> StreamSnapshot | None:
        snapshot = load_snapshot(self._harness.options.work_dir)
        return snapshot if snapshot is not None and snapshot.started_at >= self._started_at else None

    def _run(self) -> None:
        try:
            self._harness._run(self._harness.options, self._stop)
        except BaseException as error:
            self._error = error


@contextmanager
def background_commits() -> Iterator[None]:
    """Spill every batch and commit it in the background, however small it is."""
    rows, commit_queue.ASYNC_COMMIT_ROWS = commit_queue.ASYNC_COMMIT_ROWS, 0
    try:
        yield
    finally:
        commit_queue.ASYNC_COMMIT_ROWS = rows
