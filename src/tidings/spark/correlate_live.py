"""Correlate tags in a stream: parse → route → calculate → reports, with state in Spark's state store.

There is one tag router, and one calculator per partition, as stateful operators. The state of each is a few blobs per
slide, so that few values cross the socket to the state store. Spark restores the state of the last finished batch, so
a repeated batch starts from the same state.

The names of states and of their columns, and the column `one`, are in the checkpoints of users: do not rename them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
    ValueState,
)

from tidings.correlate import wire
from tidings.correlate.settings import CorrelationSettings, StreamCorrelationSettings
from tidings.correlate.state_pages import PageKey, StatePage
from tidings.correlate.streaming_calculator import StreamingCalculator
from tidings.correlate.streaming_router import PackedNotifications, StreamingTagRouter
from tidings.spark import correlate_stages as stages
from tidings.spark.correlate import select_parser_columns

REPORT_SCHEMA = "calculator int, names binary, blob binary"
METRICS_ROW = -1  # as number of a calculator: the row has metrics
_NOTIFICATION_SCHEMA = "calculator int, part int, plan int, until bigint, names binary, blob binary"
_PAGE_KEY_SCHEMA, _PAGE_SCHEMA = (
    "slide bigint, number int",
    "names_bytes int, names binary, blob_bytes int, blob binary",
)
_COUNT_COLUMNS = ("rows", "unreadable", "untimed", "capped")
_CODEC = pa.Codec("zstd", compression_level=1)
_STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",  # the only one that supports these operators
    # Write only the changes of a batch, and a full snapshot from time to time.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # later posts close windows, not the clock
}


def state_session(spark: SparkSession, settings: CorrelationSettings) -> SparkSession:
    """Return a session with its own settings, so that those of matching do not change."""
    session = spark.newSession()
    for name, value in _STATE_SETTINGS.items():
        session.conf.set(name, value)
    tasks = min(settings.partitions, max(1, spark.sparkContext.defaultParallelism))
    session.conf.set("spark.sql.shuffle.partitions", str(tasks))  # the checkpoint fixes it
    return session


def stream_reports(posts: DataFrame, options: StreamCorrelationSettings) -> DataFrame:
    """Return the packed reports of all windows that a batch closes, and one row with metrics."""
    parsed = select_parser_columns(posts).mapInArrow(stages.parse(options.tracked_words), stages.PARSED_SCHEMA)
    timed = parsed.withColumn("clock", F.unix_micros(F.current_timestamp())).withColumn("one", F.lit(0))
    notifications = timed.groupBy("one").transformWithStateInPandas(
        TagRouterProcessor(options.settings, options.lateness_us), _NOTIFICATION_SCHEMA, "Append", "None"
    )
    return notifications.groupBy("calculator").transformWithStateInPandas(
        CalculatorProcessor(options.settings), REPORT_SCHEMA, "Append", "None"
    )


class SparkStatePages:
    """Pages of state in Spark's state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def read(self) -> Iterable[tuple[PageKey, StatePage]]:
        return [(PageKey(*key), _decompress(*page)) for key, page in self._state.iterator()]

    def put(self, key: PageKey, page: StatePage) -> None:
        self._state.updateValue(key, _compress(page))

    def remove(self, key: PageKey) -> None:
        self._state.removeKey(key)


def _compress(page: StatePage) -> tuple[int, bytes, int, bytes]:
    """Compress a page: the state store delivers only about 10 MB/s."""
    names, packed = (_CODEC.compress(part, asbytes=True) for part in page)
    return len(page.names), names, len(page.blob), packed


def _decompress(names_bytes: int, names: bytes, blob_bytes: int, packed: bytes) -> StatePage:
    return StatePage(
        _CODEC.decompress(bytes(names), names_bytes, asbytes=True),
        _CODEC.decompress(bytes(packed), blob_bytes, asbytes=True),
    )


class _StatefulStage(StatefulProcessor):
    """A processor with a small JSON state and pages of state."""

    _summary: ValueState

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._summary = handle.getValueState("kept", "kept string")

    def load_summary(self) -> str | None:
        value = self._summary.get()
        return None if value is None else str(value[0])

    def save_summary(self, summary: str) -> None:
        self._summary.update((summary,))


class TagRouterProcessor(_StatefulStage):
    """parsed posts → notifications per calculator, with the last slide of complete windows; and metrics."""

    def __init__(self, settings: CorrelationSettings, lateness_us: int) -> None:
        self._settings, self._lateness_us = settings, lateness_us

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._posts, self._owners = (
            handle.getMapState(name, _PAGE_KEY_SCHEMA, _PAGE_SCHEMA) for name in ("posts", "owners")
        )

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        batch = pd.concat(list(rows)).sort_values("batch")
        pages = SparkStatePages(self._posts), SparkStatePages(self._owners)
        live = StreamingTagRouter(self._settings, self._lateness_us, *pages, self.load_summary())
        live.add_counts(**{name: int(batch[name].sum()) for name in _COUNT_COLUMNS})
        packed_posts = zip(batch["names"], batch["blob"], strict=True)
        arrived = [wire.unpack_posts(bytes(names), pa.py_buffer(bytes(packed))) for names, packed in packed_posts]
        part = -1
        for part, notification in enumerate(live.route(arrived, int(batch["clock"].max()))):
            yield _notification_row(notification.calculator, part, notification.plan, live.until, notification.page)
        for number in live.active:
            yield _notification_row(number, part + 1, -1, live.until, StatePage(b"", b""))
        yield _notification_row(
            METRICS_ROW, part + 1, -1, live.until, StatePage(b"", json.dumps(live.metrics()).encode())
        )
        self.save_summary(live.dump_state())


def _notification_row(calculator: int, part: int, plan: int, until: int, page: StatePage) -> pd.DataFrame:
    names = ("calculator", "part", "plan", "until", "names", "blob")
    return pd.DataFrame([(calculator, part, plan, until, *page)], columns=list(names))


class CalculatorProcessor(_StatefulStage):
    """notifications of a calculator → its reports of complete windows."""

    def __init__(self, settings: CorrelationSettings) -> None:
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._slides = handle.getMapState("slides", _PAGE_KEY_SCHEMA, _PAGE_SCHEMA)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        number, batch = int(key[0]), pd.concat(list(rows)).sort_values("part")
        if number == METRICS_ROW:
            yield batch[["calculator", "names", "blob"]]
            return
        live = StreamingCalculator(self._settings, number, SparkStatePages(self._slides), self.load_summary())
        notifications = [
            PackedNotifications(row.calculator, row.plan, StatePage(bytes(row.names), bytes(row.blob)))
            for row in batch.itertuples()
            if row.plan >= 0
        ]
        reports = live.process(notifications, int(batch["until"].max()))
        self.save_summary(live.dump_state())
        if reports is not None:
            yield pd.DataFrame([(number, *reports)], columns=["calculator", "names", "blob"])
