"""Correlating in a stream, on one page: parse → disseminate → calculate → reports, with state in Spark's state store.

There is one disseminator and a calculator for each partition, as stateful operators. What each must remember is a few
blobs a slide, so that few of them cross the socket to the state store. Spark restores the state of the last batch that
was done, so a batch that is run again starts from where it started first.
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
from tidings.correlate.settings import LiveSettings, Settings
from tidings.correlate.state_pages import Page, Place
from tidings.correlate.streaming_calculator import LiveCalculator
from tidings.correlate.streaming_router import LiveDissemination, Told
from tidings.spark import correlate_stages as stages
from tidings.spark.correlate import with_times

REPORTED = "calculator int, names binary, blob binary"
FIGURES = -1  # in place of a calculator: the row tells how it goes
_TOLD = "calculator int, part int, plan int, until bigint, names binary, blob binary"
_PLACE, _PAGE = "slide bigint, number int", "names_bytes int, names binary, blob_bytes int, blob binary"
_COUNTED = ("rows", "unreadable", "untimed", "capped")
_PACKED = pa.Codec("zstd", compression_level=1)
_STATE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",  # the only one such operators work with
    # What changed in a batch is written, and everything only now and then.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # windows end when later posts come, not by the clock
}


def own_session(spark: SparkSession, settings: Settings) -> SparkSession:
    """A session with settings of its own, so that those of the matching stay as they are."""
    own = spark.newSession()
    for name, value in _STATE_SETTINGS.items():
        own.conf.set(name, value)
    tasks = min(settings.partitions, max(1, spark.sparkContext.defaultParallelism))
    own.conf.set("spark.sql.shuffle.partitions", str(tasks))  # kept in the checkpoint from then on
    return own


def live_reports(posts: DataFrame, asked: LiveSettings) -> DataFrame:
    """The reports of calculators, packed, of all windows that end with a batch; and a row that tells how it goes."""
    parsed = with_times(posts).mapInArrow(stages.parse(asked.tracked_words), stages.PARSED)
    timed = parsed.withColumn("clock", F.unix_micros(F.current_timestamp())).withColumn("one", F.lit(0))
    told = timed.groupBy("one").transformWithStateInPandas(
        Disseminate(asked.settings, asked.lateness_us), _TOLD, "Append", "None"
    )
    return told.groupBy("calculator").transformWithStateInPandas(Calculate(asked.settings), REPORTED, "Append", "None")


class StateShelf:
    """Pages in Spark's state store."""

    def __init__(self, state: MapState) -> None:
        self._state = state

    def read(self) -> Iterable[tuple[Place, Page]]:
        return [(Place(*place), _unpacked(*page)) for place, page in self._state.iterator()]

    def put(self, place: Place, page: Page) -> None:
        self._state.updateValue(place, _packed(page))

    def remove(self, place: Place) -> None:
        self._state.removeKey(place)


def _packed(page: Page) -> tuple[int, bytes, int, bytes]:
    """Small: what is read from the state store comes at some ten megabytes a second."""
    names, packed = (_PACKED.compress(part, asbytes=True) for part in page)
    return len(page.names), names, len(page.blob), packed


def _unpacked(names_bytes: int, names: bytes, blob_bytes: int, packed: bytes) -> Page:
    return Page(
        _PACKED.decompress(bytes(names), names_bytes, asbytes=True),
        _PACKED.decompress(bytes(packed), blob_bytes, asbytes=True),
    )


class _Remembering(StatefulProcessor):
    """Keeps a small text, and pages on shelves."""

    _kept: ValueState

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._kept = handle.getValueState("kept", "kept string")

    def before(self) -> str | None:
        found = self._kept.get()
        return None if found is None else str(found[0])

    def keep(self, kept: str) -> None:
        self._kept.update((kept,))


class Disseminate(_Remembering):
    """parsed → notifications by calculator, with the slide until which windows are complete; how it goes."""

    def __init__(self, settings: Settings, lateness_us: int) -> None:
        self._settings, self._lateness_us = settings, lateness_us

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._posts, self._owners = (handle.getMapState(name, _PLACE, _PAGE) for name in ("posts", "owners"))

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        batch = pd.concat(list(rows)).sort_values("batch")
        shelves = StateShelf(self._posts), StateShelf(self._owners)
        live = LiveDissemination(self._settings, self._lateness_us, *shelves, self.before())
        live.count(**{name: int(batch[name].sum()) for name in _COUNTED})
        pages = zip(batch["names"], batch["blob"], strict=True)
        arrived = [wire.unpack_posts(bytes(names), wire.buffer(bytes(packed))) for names, packed in pages]
        part = -1
        for part, told in enumerate(live.take(arrived, int(batch["clock"].max()))):
            yield _told_row(told.calculator, part, told.plan, live.until, told.page)
        for number in live.active:
            yield _told_row(number, part + 1, -1, live.until, Page(b"", b""))
        yield _told_row(FIGURES, part + 1, -1, live.until, Page(b"", json.dumps(live.figures()).encode()))
        self.keep(live.kept())


def _told_row(calculator: int, part: int, plan: int, until: int, page: Page) -> pd.DataFrame:
    names = ("calculator", "part", "plan", "until", "names", "blob")
    return pd.DataFrame([(calculator, part, plan, until, *page)], columns=list(names))


class Calculate(_Remembering):
    """notifications to a calculator → its reports of the windows that are complete."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        self._slides = handle.getMapState("slides", _PLACE, _PAGE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        number, batch = int(key[0]), pd.concat(list(rows)).sort_values("part")
        if number == FIGURES:
            yield batch[["calculator", "names", "blob"]]
            return
        live = LiveCalculator(self._settings, number, StateShelf(self._slides), self.before())
        told = [Told(one.calculator, one.plan, Page(bytes(one.names), bytes(one.blob)))
                for one in batch.itertuples() if one.plan >= 0]  # fmt: skip
        reports = live.take(told, int(batch["until"].max()))
        self.keep(live.kept())
        if reports is not None:
            yield pd.DataFrame([(number, *reports)], columns=["calculator", "names", "blob"])
