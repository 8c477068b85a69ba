"""Correlating beside the matching: a second query on the same posts, with a checkpoint and failures of its own.

Whatever becomes of it, the matching goes on: it shares nothing with it but the machine.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidings.correlate.settings import LiveSettings
from tidings.correlate.state_pages import Page
from tidings.correlate.windows import Windows, keep_settings
from tidings.errors import TidingsError
from tidings.failpoints import failpoint
from tidings.spark.correlate_live import FIGURES, live_reports, own_session
from tidings.spark.error_translation import in_words
from tidings.stream.metrics.correlations import FOLDER, CorrelationFigures, changed, load_correlations
from tidings.stream.options import Say, StreamRequest

_EVERY_MS = 5_000  # windows are minutes and more: a batch every few seconds leaves the machine to the matching
_POLL_S = 0.2
_FINISH_S = 6.0  # a batch that takes longer when the stream stops is given up, and run again at the next start
_POOL = "correlations"
_ATTEMPTS = 5
_TOO_BUSY = "Python worker failed to connect back"  # Spark gives one ten seconds to start, whatever else runs


@contextmanager
def correlated(
    request: StreamRequest,
    asked: LiveSettings,
    posts: Callable[[SparkSession], DataFrame],
    spark: SparkSession,
    stop: threading.Event,
    say: Say,
) -> Iterator[None]:
    """Running as long as the context lasts; with `once`, until all that is there is taken."""
    beside = _Beside(request, asked, say)
    ended = threading.Event()
    thread = threading.Thread(
        target=beside.run, args=(posts, spark, stop, ended), name="tidings-correlate", daemon=True
    )
    thread.start()
    try:
        yield
        if request.once:
            while thread.is_alive() and not stop.is_set():
                thread.join(_POLL_S)
    finally:
        ended.set()
        thread.join(2 * _FINISH_S)


class _Beside:
    """The query, from its start to its end."""

    def __init__(self, request: StreamRequest, asked: LiveSettings, say: Say) -> None:
        self._request, self._asked, self._say = request, asked, say
        self._folder = request.folder / FOLDER
        self._sink = Sink.at(self._folder, asked)

    def run(self, posts: Callable[[SparkSession], DataFrame], spark: SparkSession, *ends: threading.Event) -> None:
        """To its end. A worker that did not start in time is no failure yet: the query goes on where it was."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._run(posts, spark, *ends)
            except Exception as error:
                if any(end.is_set() for end in ends):
                    return
                if left and self._sink.failure is None and _TOO_BUSY in str(error):
                    self._say("correlating goes on again: this machine was too busy to start a Python worker in time.")
                    continue
                self._failed(self._sink.failure or error)
            return

    def _run(self, posts: Callable[[SparkSession], DataFrame], spark: SparkSession, *ends: threading.Event) -> None:
        query = self._begun(posts, spark)
        while query.isActive and not any(end.is_set() for end in ends):
            ends[0].wait(_POLL_S)
        _finish(query)
        if (error := query.exception()) is not None and not any(end.is_set() for end in ends):
            raise error
        self._sink.tell(state="stopped")

    def _begun(self, posts: Callable[[SparkSession], DataFrame], spark: SparkSession) -> StreamingQuery:
        checkpoint, settings = self._folder / "checkpoint", self._asked.settings
        if not (checkpoint / "metadata").exists():
            self._sink.windows.clear()  # without its checkpoint everything is read anew
        self._folder.mkdir(parents=True, exist_ok=True)
        keep_settings(self._folder, settings)
        own = own_session(spark, settings)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        reports = live_reports(posts(own), self._asked)
        writer = reports.writeStream.foreachBatch(self._sink).outputMode("append").queryName("tidings correlations")
        placed = writer.option("checkpointLocation", os.path.abspath(checkpoint))
        every_ms = max(int(self._request.trigger.split()[0]), min(_EVERY_MS, settings.slide_us // 1000))
        timed = (
            placed.trigger(availableNow=True)
            if self._request.once
            else placed.trigger(processingTime=f"{every_ms} milliseconds")
        )
        self._sink.tell(state="running", failure="")
        return timed.start()

    def _failed(self, error: Exception) -> None:
        known = error if isinstance(error, TidingsError) else in_words(error, self._folder)
        said = str(known or (str(error).strip() or type(error).__name__).splitlines()[0][:500]).rstrip(".")
        told = (
            f"correlating has ended, the matching goes on: {said}. To begin anew, remove {self._folder} and run again"
        )
        with suppress(OSError):
            self._sink.tell(state="failed", failure=told)
        self._say(f"{told}.")


def _finish(query: StreamingQuery) -> None:
    """Let the batch end that runs, for a while; what is given up is run again at the next start."""
    until = time.monotonic() + _FINISH_S
    while time.monotonic() < until and query.isActive and query.status["isTriggerActive"]:
        time.sleep(_POLL_S)
    query.stop()


@dataclass
class Sink:
    """What Spark calls for every batch: the tracker, the windows on disk, the figures."""

    folder: Path
    windows: Windows
    figures: CorrelationFigures
    failure: Exception | None = None  # what ended a batch; on its way through Spark it becomes a text

    @classmethod
    def at(cls, folder: Path, asked: LiveSettings) -> Sink:
        settings = asked.settings
        new = CorrelationFigures(settings.window_us, settings.slide_us, settings.algorithm, settings.partitions)
        windows = Windows(folder / "windows", settings, asked.kept_windows)
        return cls(folder, windows, load_correlations(folder) or new)

    def __call__(self, reports: DataFrame, batch: int) -> None:
        try:
            self._take(reports, batch)
        except Exception as error:
            self.failure = error
            raise

    def _take(self, reports: DataFrame, batch: int) -> None:
        start = time.monotonic()
        failpoint("before correlating", batch)
        rows = reports.toArrow().to_pylist()  # once: every look would run the batch again
        failpoint("before tracking", batch)
        told: dict[str, Any] = next((json.loads(row["blob"]) for row in rows if row["calculator"] == FIGURES), {})
        pages = [Page(row["names"], row["blob"]) for row in rows if row["calculator"] != FIGURES]
        count, last_us = self.windows.write(batch, pages)
        failpoint("after tracking", batch)
        is_new = batch > self.figures.batch
        self.tell(
            **told,
            batch=batch,
            batch_seconds=time.monotonic() - start,
            coefficients=self.figures.coefficients + (count if is_new else 0),
            **({} if last_us is None else {"window_end_us": last_us}),
        )

    def tell(self, **changes: object) -> None:
        self.figures = changed(self.folder, self.figures, **changes)
