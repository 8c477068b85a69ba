"""The stages of correlating as Spark runs them. Each only adapts: Arrow → arrays → pure function → Arrow."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

import numpy as np
import pyarrow as pa
from pyspark import Broadcast

from tidings.correlate import blob
from tidings.correlate.calculator import Calculator
from tidings.correlate.parse import Parser
from tidings.correlate.run import calculator_of
from tidings.correlate.settings import Settings
from tidings.correlate.tracker import Reports, tracked
from tidings.partition.tags.learn import partition
from tidings.spark.blobs import Batches, Stage, each, first_batch_number, labelled

PARSED = (
    "batch bigint, rows bigint, unreadable bigint, untimed bigint, tagged bigint, capped bigint, names binary, "
    "blob binary"
)
PIECES = "partitioner int, blob binary"
REPORTED = "shard int, blob binary"
COEFFICIENTS = (
    "window_start timestamp, window_end timestamp, tags array<string>, jaccard double, support bigint, "
    "union bigint, calculator int"
)
_WINDOWS_A_BLOB = 64
_ROWS_OUT = 1 << 14


def parse(tracked_words: tuple[str, ...]) -> Stage:
    """posts → parsed: one row a batch, with the tags of its posts and what is wrong with the others."""

    def stage(batches: Batches) -> Batches:
        parser = _parser(tracked_words)
        for number, batch in enumerate(batches, first_batch_number()):
            parsed = parser.parse(batch)
            names, packed = blob.pack_posts(parsed)
            unreadable = int(batch.column("unreadable").to_numpy(zero_copy_only=False).sum())
            untimed = batch.column("time").null_count - unreadable
            counts = [number, batch.num_rows, unreadable, untimed, len(parsed.posts), parsed.capped]
            labels = dict(zip(("batch", "rows", "unreadable", "untimed", "tagged", "capped"), counts, strict=True))
            columns = {name: pa.array([value], pa.int64()) for name, value in labels.items()}
            yield labelled([packed], **columns, names=pa.array([names], pa.binary()))

    return stage


@lru_cache(maxsize=1)
def _parser(tracked_words: tuple[str, ...]) -> Parser:
    """Kept by a worker between tasks, with all spellings it has met."""
    return Parser(tracked_words)


def partition_share(partitions: int, algorithm: str, seed: int) -> Stage:
    """the share of each partitioner → what it hands over to the merger."""

    def stage(batches: Batches) -> Batches:
        for partitioner, share in each(batches):
            pieces = partition(blob.unpack_sets(share), partitions, algorithm, seed)
            yield labelled([blob.pack_sets(pieces)], partitioner=pa.array([partitioner], pa.int32()))

    return stage


def calculate(settings: Settings, shards: int) -> Stage:
    """notifications, by calculator and in order → reports, packed, by the shard of the tracker that gets them."""

    def stage(batches: Batches) -> Batches:
        calculators: dict[int, Calculator] = {}
        waiting = _Waiting(shards)
        for calculator, plan, _, packed in each(batches):
            told = blob.unpack_told(calculator, plan, packed)
            for end, counted in calculators.setdefault(calculator, calculator_of(settings)).take(told):
                yield from waiting.take(Reports.of(end, calculator, counted))
        for number, calculator in calculators.items():
            for end, counted in calculator.finish():
                yield from waiting.take(Reports.of(end, number, counted))
        yield from waiting.rest()

    return stage


class _Waiting:
    """Reports that are sent together when there are enough of them."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._reports: dict[int, list[Reports]] = defaultdict(list)

    def take(self, reports: Reports) -> Batches:
        shard = int(reports.ends[0]) % self._shards
        self._reports[shard].append(reports)
        if len(self._reports[shard]) == _WINDOWS_A_BLOB:
            yield self._sent(shard, self._reports.pop(shard))

    def rest(self) -> Batches:
        for shard, reports in self._reports.items():
            yield self._sent(shard, reports)

    def _sent(self, shard: int, reports: list[Reports]) -> pa.RecordBatch:
        return labelled([blob.pack_reports(Reports.together(reports))], shard=pa.array([shard], pa.int32()))


def track(settings: Settings, names: Broadcast[bytes]) -> Stage:
    """reports → coefficients, one for each window and set of tags, with the tags by name."""

    def stage(batches: Batches) -> Batches:
        reports = [blob.unpack_reports(packed) for _, packed in each(batches)]
        spelling = pa.array(names.value.split(b"\n"), pa.binary()).cast(pa.string())
        found = tracked(Reports.together(reports))
        for first in range(0, len(found), _ROWS_OUT):
            rows = np.arange(first, min(first + _ROWS_OUT, len(found)))
            yield blob.spelt(found.take(rows), spelling, settings.slide_us, settings.panes)

    return stage


def track_packed() -> Stage:
    """The same for an audit: packed, with the tags by number."""

    def stage(batches: Batches) -> Batches:
        reports = [blob.unpack_reports(packed) for _, packed in each(batches)]
        found = tracked(Reports.together(reports))
        yield labelled([blob.pack_reports(found)], shard=pa.array([0], pa.int32()))

    return stage
