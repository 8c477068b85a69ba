"""Stages of correlating that Spark runs in Python workers. Each only adapts: Arrow → arrays → pure function → Arrow."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from tidings.correlate import wire
from tidings.correlate.partition.registry import partition_share
from tidings.correlate.reference_topology import run_calculators
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_parser import TagParser
from tidings.spark.arrow_blobs import ArrowBatches, Stage, blob_batch, first_batch_number, iter_blobs

PARSED_SCHEMA = (
    "batch bigint, rows bigint, unreadable bigint, untimed bigint, tagged bigint, capped bigint, names binary, "
    "blob binary"
)
PIECES_SCHEMA = "partitioner int, blob binary"
PackedNotification = tuple[int, int, bytes]  # calculator, plan, notifications


def parse(tracked_words: tuple[str, ...]) -> Stage:
    """posts → one row per batch: the tags of its posts, and the numbers of posts left out by reason."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        parser = _get_parser(tracked_words)
        for number, batch in enumerate(batches, first_batch_number()):
            parsed = parser.parse(batch)
            names, packed = wire.pack_posts(parsed)
            unreadable = int(batch.column("unreadable").to_numpy(zero_copy_only=False).sum())
            untimed = batch.column("time").null_count - unreadable
            counts = [number, batch.num_rows, unreadable, untimed, len(parsed.posts), parsed.capped]
            labels = dict(zip(("batch", "rows", "unreadable", "untimed", "tagged", "capped"), counts, strict=True))
            columns = {name: pa.array([value], pa.int64()) for name, value in labels.items()}
            yield blob_batch([packed], **columns, names=pa.array([names], pa.binary()))

    return stage


@lru_cache(maxsize=1)
def _get_parser(tracked_words: tuple[str, ...]) -> TagParser:
    """Return the parser of this worker. It is reused by all tasks, with its cache of spellings."""
    return TagParser(tracked_words)


def partition_sample(partitions: int, algorithm: str, seed: int) -> Stage:
    """sample of each partitioner → the partitions that it sends to the merger."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        for partitioner, sample in iter_blobs(batches):
            pieces = partition_share(wire.unpack_sets(sample), partitions, algorithm, seed)
            yield blob_batch([wire.pack_sets(pieces)], partitioner=pa.array([partitioner], pa.int32()))

    return stage


def calculate(settings: CorrelationSettings, until: int | None) -> Callable[[list[PackedNotification]], bytes]:
    """notifications of some calculators, in order → their reports of windows that end by slide `until`."""

    def stage(share: list[PackedNotification]) -> bytes:
        notifications = (wire.unpack_notifications(calculator, plan, packed) for calculator, plan, packed in share)
        packed: bytes = wire.pack_reports(run_calculators(notifications, settings, until)).to_pybytes()
        return packed

    return stage
