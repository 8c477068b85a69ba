"""Stages that Spark runs in Python workers. Each only adapts: Arrow batch → arrays → pure function → Arrow batch."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.matching.dedup import MatchDeduplicator
from tidings.routing.stats import RoutingStats
from tidings.routing.wire import pack, unpack
from tidings.spark.accumulators import RoutingOptions
from tidings.spark.arrow_blobs import ArrowBatches, Stage, blob_batch, first_batch_number, iter_blobs
from tidings.spark.spill import SPILLED_ROWS, open_task_file
from tidings.spark.worker_state import IndexRef, LoadedIndex, open_index
from tidings.text.searchable import join_searchable

ROUTED_SCHEMA = "matcher int, batch bigint, sent int, blob binary"  # the posts of one batch for one matcher
HITS_SCHEMA = "batch bigint, sent int, blob binary"  # the hits of one matcher in one batch
_SEND_ALL = RoutingOptions()
_BATCH_MATCHES = 1 << 15  # fits into the cache of a core


def match_replicated(ref: IndexRef) -> Stage:
    """posts → matches, with the whole index (replicated mode)."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index = open_index(ref)
        for batch in batches:
            analyzed, positions = index.analyze(batch)
            for hits in index.match(0, analyzed, positions):
                yield from _list_matches(hits.ids, batch.column("id"), hits.hits.counts)
        index.end_task()

    return stage


def match_to_rows(ref: IndexRef) -> Stage:
    """posts with all fields → matched ones with the list of their `subscriptions`; rejected ones with none."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index = open_index(ref)
        for batch in batches:
            yield from _split_batches(with_subscription_lists(batch, *_match_batch(index, batch)))
        index.end_task()

    return stage


def match_to_files(ref: IndexRef, folder: str) -> Stage:
    """Like `match_to_rows`, but write matched posts to a file and emit one row with their number."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index, file = open_index(ref), open_task_file(folder)
        for batch in batches:
            ids, counts, rejected = _match_batch(index, batch)
            rows = with_subscription_lists(batch, ids, counts, rejected[:0])
            file.write(rows.append_column("reason", pa.nulls(rows.num_rows, pa.string())))
            rejected_rows = with_subscription_lists(batch, ids[:0], np.zeros_like(counts), rejected)
            if rejected_rows.num_rows:
                yield rejected_rows.append_column(SPILLED_ROWS, pa.nulls(rejected_rows.num_rows, pa.int64()))
        file.close()
        if file.rows:
            nulls = (pa.nulls(1, kind) for kind in rejected_rows.schema.types)
            yield pa.record_batch([*nulls, pa.array([file.rows])], [*rejected_rows.schema.names, SPILLED_ROWS])
        index.end_task()

    return stage


def _match_batch(index: LoadedIndex, batch: pa.RecordBatch) -> tuple[pa.Array, NDArray[np.uint32], NDArray[np.intp]]:
    """Return the subscription ids in the order of the posts, the matches per post, and the rejected rows."""
    analyzed, positions = index.analyze(batch)
    segments = index.match(0, analyzed, positions)
    if len(segments) == 1:
        return segments[0].ids, segments[0].hits.counts, analyzed.rejected
    ids = pa.concat_arrays([pa.array([], index.index.id_type), *(segment.ids for segment in segments)])
    posts = np.concatenate([np.zeros(0, np.uint32), *(segment.hits.posts for segment in segments)])
    counts = np.bincount(posts, minlength=batch.num_rows).astype(np.uint32)
    return ids.take(pa.array(np.argsort(posts, kind="stable"))), counts, analyzed.rejected


def with_subscription_lists(
    batch: pa.RecordBatch, ids: pa.Array, counts: NDArray[np.uint32], rejected: NDArray[np.intp]
) -> pa.RecordBatch:
    """Select matched posts, each with the list of its subscriptions, and rejected posts with an empty list."""
    is_kept = counts > 0
    is_kept[rejected] = True
    starts = np.concatenate([[0], np.cumsum(counts[is_kept])]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(starts), ids)
    rows = batch if is_kept.all() else batch.filter(pa.array(is_kept))
    return pa.record_batch([*rows.columns, lists], [*rows.schema.names, "subscriptions"])


def _split_batches(rows: pa.RecordBatch) -> ArrowBatches:
    """Split rows with lists of `subscriptions` into batches that fit into the cache of a core."""
    offsets = rows.column("subscriptions").offsets.to_numpy()
    cuts = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], _BATCH_MATCHES))
    for start, end in itertools.pairwise(np.unique([0, *cuts, rows.num_rows]).tolist()):
        yield rows.slice(start, end - start)


def route(ref: IndexRef, routed_schema: pa.Schema, routing: RoutingOptions = _SEND_ALL) -> Stage:
    """posts → routed posts: one row per batch and matcher that can match any of them."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index, stats = open_index(ref), []
        for number, batch in enumerate(batches, first_batch_number()):
            analyzed, positions = index.analyze(batch)
            routed = index.router.route(analyzed, positions, routing.shed)
            if routing.report is not None:
                stats.append(RoutingStats.from_routed(routed, *_sample_posts(batch, positions, routing.sample_texts)))
            shares = routed.batches
            blobs = [pack(share, batch.column("id"), positions, routed_schema) for share in shares]
            matchers = pa.array([share.matcher for share in shares], pa.int32())
            yield blob_batch(blobs, matcher=matchers, **_labels([number] * len(shares), len(shares)))
        routing.report_stats(stats)
        index.end_task()

    return stage


def _sample_posts(
    batch: pa.RecordBatch, positions: NDArray[np.float64], count: int
) -> tuple[pa.Array, NDArray[np.float64]]:
    """Return the searchable texts and the positions of random posts, `count` of 10,000.

    The seed depends on the posts, so that a batch that is repeated has the same sample.
    """
    first_texts = batch.column("text").slice(0, 5).cast(pa.binary()).to_pylist()  # may be invalid UTF-8
    rng = np.random.default_rng(zlib.crc32(b"".join(text or b"" for text in first_texts)))
    drawn = min(batch.num_rows, int(batch.num_rows * count / 10_000 + rng.random()))
    rows = np.sort(rng.choice(batch.num_rows, drawn, replace=False))
    return join_searchable(batch.take(pa.array(rows))).cast(pa.large_string()), positions[rows]


def match_shard(ref: IndexRef, routed_schema: pa.Schema) -> Stage:
    """routed posts → matches, if no subscription is on several matchers."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index = open_index(ref)
        for matcher, _, _, blob in iter_blobs(batches):
            posts = unpack(blob, routed_schema)
            for hits in index.match(matcher, posts.analyzed, posts.positions):
                yield from _list_matches(hits.ids, posts.ids, hits.hits.counts)

    return stage


def match_shard_for_dedup(ref: IndexRef, routed_schema: pa.Schema, hits_schema: pa.Schema) -> Stage:
    """routed posts → packed hits, if duplicates must be removed afterwards."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index = open_index(ref)
        for matcher, number, sent, blob in iter_blobs(batches):
            posts = unpack(blob, routed_schema)
            tables = []
            for hits in index.match(matcher, posts.analyzed, posts.positions):
                columns = [posts.posts.take(hits.posts), posts.ids.take(hits.posts), hits.ids, hits.is_shared]
                tables.append(pa.record_batch(columns, schema=hits_schema))
            table = pa.Table.from_batches(tables, hits_schema).combine_chunks()
            batch = table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], hits_schema)
            yield blob_batch([batch.serialize()], **_labels([number], sent))

    return stage


def remove_duplicates(hits_schema: pa.Schema) -> Stage:
    """packed hits → matches, each once."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        deduplicator = MatchDeduplicator()
        for number, sent, blob in iter_blobs(batches):
            yield from _list_table_matches(deduplicator.add(number, sent, pa.ipc.read_record_batch(blob, hits_schema)))
        yield from _list_table_matches(deduplicator.flush())

    return stage


def _list_table_matches(tables: Iterable[pa.Table]) -> ArrowBatches:
    for table in tables:
        for batch in table.to_batches():
            counts = np.ones(batch.num_rows, np.uint32)
            yield from _list_matches(batch.column("subscription_id"), batch.column("post_id"), counts)


def _list_matches(subscription_ids: pa.Array, post_ids: pa.Array, counts: NDArray[np.uint32]) -> ArrowBatches:
    """Build rows for the JVM: a post id and the list of its subscriptions, `counts` per post.

    A post with more than `_BATCH_MATCHES` matches gets several rows.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    cuts = np.union1d((ends - counts)[counts > 0], np.arange(0, len(subscription_ids), _BATCH_MATCHES))
    lists = pa.ListArray.from_arrays(
        pa.array(np.append(cuts, len(subscription_ids)).astype(np.int32)), subscription_ids
    )
    posts = pa.array(np.searchsorted(ends, cuts, "right"))
    yield from _split_batches(pa.record_batch([post_ids.take(posts), lists], ["post_id", "subscriptions"]))


def _labels(numbers: list[int], sent: int) -> dict[str, pa.Array]:
    return {"batch": pa.array(numbers, pa.int64()), "sent": pa.array([sent] * len(numbers), pa.int32())}
