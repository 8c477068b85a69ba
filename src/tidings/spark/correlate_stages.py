"""The stages of correlating as Spark runs them. Each only adapts: Arrow → arrays → pure function → Arrow."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa

from tidings.correlate import wire
from tidings.correlate.partition.registry import partition
from tidings.correlate.reference_topology import calculated
from tidings.correlate.settings import Settings
from tidings.correlate.tag_parser import Parser
from tidings.spark.arrow_blobs import Batches, Stage, each, first_batch_number, labelled

PARSED = (
    "batch bigint, rows bigint, unreadable bigint, untimed bigint, tagged bigint, capped bigint, names binary, "
    "blob binary"
)
PIECES = "partitioner int, blob binary"
Told = tuple[int, int, bytes]  # calculator, plan, notifications


def parse(tracked_words: tuple[str, ...]) -> Stage:
    """posts → parsed: one row a batch, with the tags of its posts and what is wrong with the others."""

    def stage(batches: Batches) -> Batches:
        parser = _parser(tracked_words)
        for number, batch in enumerate(batches, first_batch_number()):
            parsed = parser.parse(batch)
            names, packed = wire.pack_posts(parsed)
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
            pieces = partition(wire.unpack_sets(share), partitions, algorithm, seed)
            yield labelled([wire.pack_sets(pieces)], partitioner=pa.array([partitioner], pa.int32()))

    return stage


def calculate(settings: Settings, until: int | None) -> Callable[[list[Told]], bytes]:
    """what some calculators are told, in order → their reports of windows that end by slide `until`."""

    def stage(share: list[Told]) -> bytes:
        told = (wire.unpack_told(calculator, plan, packed) for calculator, plan, packed in share)
        packed: bytes = wire.pack_reports(calculated(told, settings, until)).to_pybytes()
        return packed

    return stage
