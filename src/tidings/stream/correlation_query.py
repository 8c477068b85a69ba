"""Track tag correlations in a second query on the same posts, with its own checkpoint.

An error ends this query only: the matching shares nothing with it but the machine.
"""

from __future__ import annotations

import json
import logging
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

from tidings.correlate.settings import StreamCorrelationSettings
from tidings.correlate.state_pages import StatePage
from tidings.correlate.windows import WindowFiles, save_settings
from tidings.errors import TidingsError
from tidings.failpoints import failpoint
from tidings.log import Event
from tidings.spark.correlate_live import METRICS_ROW, state_session, stream_reports
from tidings.spark.error_translation import translate
from tidings.stream.metrics.correlations import (
    FOLDER,
    CorrelationMetrics,
    load_correlation_metrics,
    update_correlation_metrics,
)
from tidings.stream.options import StreamOptions

LOG = logging.getLogger("tidings.stream")
_TRIGGER_MS = 5_000  # windows last minutes or more: a batch every few seconds leaves the machine to the matching
_POLL_S = 0.2
_FINISH_TIMEOUT_S = 6.0  # a longer batch is abandoned when the stream stops; the next start replays it
_POOL = "correlations"
_ATTEMPTS = 5
_TOO_BUSY = "Python worker failed to connect back"  # Spark waits ten seconds for a worker, however busy the machine is

OpenPosts = Callable[[SparkSession], DataFrame]


@contextmanager
def correlation_query(
    options: StreamOptions,
    settings: StreamCorrelationSettings,
    posts: OpenPosts,
    spark: SparkSession,
    stop: threading.Event,
) -> Iterator[None]:
    """Run the query in a thread. With `once`, wait at the end until the input that exists is processed."""
    query = _CorrelationQuery(options, settings)
    is_done = threading.Event()
    thread = threading.Thread(
        target=query.run, args=(posts, spark, stop, is_done), name="tidings-correlations", daemon=True
    )
    thread.start()
    try:
        yield
        if options.once:
            while thread.is_alive() and not stop.is_set():
                thread.join(_POLL_S)
    finally:
        is_done.set()
        thread.join(2 * _FINISH_TIMEOUT_S)


class _CorrelationQuery:
    """The query from its start to its end."""

    def __init__(self, options: StreamOptions, settings: StreamCorrelationSettings) -> None:
        self._options, self._settings = options, settings
        self._folder = options.work_dir / FOLDER
        self._sink = CorrelationSink.open(self._folder, settings)

    def run(self, posts: OpenPosts, spark: SparkSession, *ends: threading.Event) -> None:
        """Run to the end; start again if a Python worker did not start in time."""
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                self._run_once(posts, spark, *ends)
            except Exception as error:
                if any(end.is_set() for end in ends):
                    return
                if attempts_left and self._sink.error is None and _TOO_BUSY in str(error):
                    LOG.warning(Event("correlation query restarted", reason="no Python worker started in time"))
                    continue
                self._report_error(self._sink.error or error)
            return

    def _run_once(self, posts: OpenPosts, spark: SparkSession, *ends: threading.Event) -> None:
        query = self._start(posts, spark)
        while query.isActive and not any(end.is_set() for end in ends):
            ends[0].wait(_POLL_S)
        _finish(query)
        if (error := query.exception()) is not None and not any(end.is_set() for end in ends):
            raise error
        self._sink.update_metrics(state="stopped")

    def _start(self, posts: OpenPosts, spark: SparkSession) -> StreamingQuery:
        checkpoint, settings = self._folder / "checkpoint", self._settings.settings
        if not (checkpoint / "metadata").exists():
            self._sink.windows.clear()  # without its checkpoint the query reads all posts again
        self._folder.mkdir(parents=True, exist_ok=True)
        save_settings(self._folder, settings)
        session = state_session(spark, settings)
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", _POOL)
        reports = stream_reports(posts(session), self._settings)
        writer = reports.writeStream.foreachBatch(self._sink).outputMode("append").queryName("tidings correlations")
        writer = writer.option("checkpointLocation", os.path.abspath(checkpoint))
        trigger_ms = max(int(self._options.trigger.split()[0]), min(_TRIGGER_MS, settings.slide_us // 1000))
        if self._options.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{trigger_ms} milliseconds")
        self._sink.update_metrics(state="running", failure="")
        return writer.start()

    def _report_error(self, error: Exception) -> None:
        known = error if isinstance(error, TidingsError) else translate(error, self._folder)
        reason = str(known or (str(error).strip() or type(error).__name__).splitlines()[0][:500]).rstrip(".")
        remedy = f"remove {self._folder} and run again"
        with suppress(OSError):
            self._sink.update_metrics(state="failed", failure=f"{reason}. Matching continues; to start again, {remedy}")
        LOG.error(Event("correlation query failed", error=reason, effect="matching continues", remedy=remedy))


def _finish(query: StreamingQuery) -> None:
    """Give the running batch a few seconds to end, then stop the query."""
    deadline = time.monotonic() + _FINISH_TIMEOUT_S
    while time.monotonic() < deadline and query.isActive and query.status["isTriggerActive"]:
        time.sleep(_POLL_S)
    query.stop()


@dataclass
class CorrelationSink:
    """The function that Spark calls for every batch of reports: tracker, windows on disk, metrics."""

    folder: Path
    windows: WindowFiles
    metrics: CorrelationMetrics
    error: Exception | None = None  # of a batch: Spark only passes on its text

    @classmethod
    def open(cls, folder: Path, live: StreamCorrelationSettings) -> CorrelationSink:
        settings = live.settings
        new = CorrelationMetrics(settings.window_us, settings.slide_us, settings.algorithm, settings.partitions)
        windows = WindowFiles(folder / "windows", settings, live.max_windows)
        return cls(folder, windows, load_correlation_metrics(folder) or new)

    def __call__(self, reports: DataFrame, batch: int) -> None:
        try:
            self._write(reports, batch)
        except Exception as error:
            self.error = error
            raise

    def _write(self, reports: DataFrame, batch: int) -> None:
        started_at = time.monotonic()
        failpoint("before-correlate", batch)
        rows = reports.toArrow().to_pylist()  # once: every action would run the batch again
        failpoint("before-track", batch)
        metrics: dict[str, Any] = next(
            (json.loads(row["blob"]) for row in rows if row["calculator"] == METRICS_ROW), {}
        )
        pages = [StatePage(row["names"], row["blob"]) for row in rows if row["calculator"] != METRICS_ROW]
        count, last_us = self.windows.write(batch, pages)
        failpoint("after-track", batch)
        is_replay = batch <= self.metrics.batch
        self.update_metrics(
            **metrics,
            batch=batch,
            batch_seconds=time.monotonic() - started_at,
            coefficients=self.metrics.coefficients + (0 if is_replay else count),
            **({} if last_us is None else {"window_end_us": last_us}),
        )

    def update_metrics(self, **changes: object) -> None:
        self.metrics = update_correlation_metrics(self.folder, self.metrics, **changes)
