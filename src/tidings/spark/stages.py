"""Stages that Spark runs in Python workers. Each only adapts: Arrow batch → arrays → pure function → Arrow batch.

In partitioned mode, blobs travel between the stages (`BLOB_SCHEMA`), one per batch and matcher. The posts themselves
travel once, past the matchers (`NO_MATCHER`), to the stage that merges the hits of all matchers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.matching.dedup import group_by_post, merge_hits
from tidings.routing.router import MatcherBatch, RoutedBatch
from tidings.routing.stats import RoutingStats
from tidings.routing.wire import RoutedPosts, pack, unpack
from tidings.spark.accumulators import RoutingOptions
from tidings.spark.arrow_blobs import (
    ArrowBatches,
    Stage,
    blob_batch,
    first_batch_number,
    group_by_size,
    iter_blobs,
    read_stream,
    write_stream,
)
from tidings.spark.results import BATCH_MATCHES, MatchedBatch, WriteResults, split_batches
from tidings.spark.worker_state import IndexRef, LoadedIndex, open_index
from tidings.text.searchable import join_searchable

# `task` is the partition of the next stage, `sent` the number of blobs of the batch.
BLOB_SCHEMA = "task int, matcher int, batch bigint, sent int, blob binary"
NO_MATCHER = -1
_BATCH_BYTES = 1 << 20
_SEND_ALL = RoutingOptions()
_IS_REJECTED = "_is_rejected"


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


def match_and_write(ref: IndexRef, write: WriteResults, routing: RoutingOptions = _SEND_ALL) -> Stage:
    """posts with all fields → results, with the whole index (replicated mode)."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index, stats = open_index(ref), list[RoutingStats]()
        yield from write(_match_batch(index, batch) for batch in _sample_batches(batches, routing, stats))
        if stats:
            routing.report_stats(stats)
        index.end_task()

    return stage


def _match_batch(index: LoadedIndex, batch: pa.RecordBatch) -> MatchedBatch:
    analyzed, positions = index.analyze(batch)
    segments = index.match(0, analyzed, positions)
    if len(segments) == 1:
        return MatchedBatch(batch, segments[0].ids, segments[0].hits.counts, analyzed.rejected)
    ids = pa.concat_arrays([pa.array([], index.index.id_type), *(segment.ids for segment in segments)])
    posts = np.concatenate([np.zeros(0, np.uint32), *(segment.hits.posts for segment in segments)])
    return MatchedBatch(batch, *group_by_post(posts, ids, batch.num_rows), analyzed.rejected)


def route(
    ref: IndexRef, schema: pa.Schema, tasks: int, routing: RoutingOptions = _SEND_ALL, columns: Sequence[str] = ()
) -> Stage:
    """posts → routed posts: one blob per batch and matcher that can match any of them.

    With `columns`, one more blob per batch has these columns of the posts that were routed or rejected.
    """

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index, stats = open_index(ref), []
        for number, batch in enumerate(batches, first_batch_number()):
            analyzed, positions = index.analyze(batch)
            routed = index.router.route(analyzed, positions, routing.shed)
            if routing.report is not None:
                stats.append(RoutingStats.from_routed(routed, *_sample_posts(batch, positions, routing.sample_texts)))
            shares, blobs = routed.batches, []
            if columns:
                rows, shares = _keep_used_posts(routed, analyzed.rejected, batch.num_rows)
                batch, positions = _mark_rejected(batch.select(columns), analyzed.rejected, rows), positions[rows]
                blobs = [write_stream(batch)] if len(rows) else []
            matchers = [NO_MATCHER] * len(blobs) + [share.matcher for share in shares]
            blobs += [pack(share, batch.column("id"), positions, schema) for share in shares]
            count = len(blobs)
            labels = _labels([m % tasks for m in matchers], matchers, [number] * count, [count] * count)
            yield blob_batch(blobs, **labels)
        routing.report_stats(stats)
        index.end_task()

    return stage


def _keep_used_posts(
    routed: RoutedBatch, rejected: NDArray[np.intp], posts: int
) -> tuple[NDArray[np.intp], list[MatcherBatch]]:
    """Return the rows of posts that were routed or rejected, and the shares with these posts numbered from 0."""
    is_used = np.zeros(posts, bool)
    is_used[rejected] = True
    for share in routed.batches:
        is_used[share.posts] = True
    row_of = np.cumsum(is_used, dtype=np.uint32) - np.uint32(1)
    return np.flatnonzero(is_used), [replace(share, posts=row_of[share.posts]) for share in routed.batches]


def _mark_rejected(batch: pa.RecordBatch, rejected: NDArray[np.intp], rows: NDArray[np.intp]) -> pa.RecordBatch:
    """Return these rows of a batch, with a column that marks the rejected ones."""
    taken = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
    return taken.append_column(_IS_REJECTED, pa.array(np.isin(rows, rejected)))


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


def _sample_batches(batches: ArrowBatches, routing: RoutingOptions, stats: list[RoutingStats]) -> ArrowBatches:
    """Yield the batches, and append samples of their posts to `stats`: only their texts are used."""
    for batch in batches:
        if routing.sample_texts:
            texts, positions = _sample_posts(batch, np.full((batch.num_rows, 2), np.nan), routing.sample_texts)
            stats.append(RoutingStats(sample_texts=texts, sample_positions=positions))
        yield batch


def match_shards(ref: IndexRef, schema: pa.Schema) -> Stage:
    """routed posts → matches, if no subscription is on several matchers."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        for parts in group_by_size(found(batches), lambda part: len(part[0]), BATCH_MATCHES):
            ids, post_ids, counts = zip(*parts, strict=True)
            yield from _list_matches(pa.concat_arrays(ids), pa.concat_arrays(post_ids), np.concatenate(counts))

    def found(batches: ArrowBatches) -> Iterator[tuple[pa.Array, pa.Array, NDArray[np.uint32]]]:
        index = open_index(ref)
        for _, matcher, _, _, blob in iter_blobs(batches):
            posts = unpack(blob, schema)
            for hits in index.match(matcher, posts.analyzed, posts.positions):
                yield hits.ids, posts.ids, hits.hits.counts

    return stage


def match_shards_to_blobs(ref: IndexRef, schema: pa.Schema, hits_schema: pa.Schema, tasks: int) -> Stage:
    """routed posts → packed hits, to be merged per batch; the blobs of posts pass unchanged."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        for rows in group_by_size(answers(batches), lambda row: row[-1].size, _BATCH_BYTES):
            matchers, numbers, sent, blobs = zip(*rows, strict=True)
            labels = _labels([number % tasks for number in numbers], matchers, numbers, sent)
            yield blob_batch(blobs, **labels)

    def answers(batches: ArrowBatches) -> Iterator[tuple[int, int, int, pa.Buffer]]:
        index = open_index(ref)
        for _, matcher, number, sent, blob in iter_blobs(batches):
            is_routed = matcher != NO_MATCHER
            answer = _pack_hits(index, matcher, unpack(blob, schema), hits_schema) if is_routed else blob
            yield matcher, number, sent, answer

    return stage


def _pack_hits(index: LoadedIndex, matcher: int, posts: RoutedPosts, schema: pa.Schema) -> pa.Buffer:
    parts = [
        pa.record_batch([posts.posts.take(hits.posts), hits.ids, hits.is_shared], schema=schema)
        for hits in index.match(matcher, posts.analyzed, posts.positions)
    ]
    return pa.concat_batches(parts or [pa.RecordBatch.from_pylist([], schema)]).serialize()


def merge_and_write(hits_schema: pa.Schema, write: WriteResults) -> Stage:
    """packed hits and the blobs of posts → results."""

    id_type = hits_schema.field("subscription_id").type

    def results(batches: ArrowBatches) -> Iterator[MatchedBatch]:
        for blobs in _iter_complete_batches(batches):
            posts = read_stream(blobs.pop(NO_MATCHER))
            replies = [pa.ipc.read_record_batch(blob, hits_schema) for blob in blobs.values()]
            is_rejected = posts.column(_IS_REJECTED).to_numpy(zero_copy_only=False)
            fields = posts.drop_columns([_IS_REJECTED])
            ids, counts = merge_hits(replies, posts.num_rows)
            yield MatchedBatch(fields, ids.cast(id_type), counts, np.flatnonzero(is_rejected))

    return lambda batches: write(results(batches))


def _iter_complete_batches(batches: ArrowBatches) -> Iterator[dict[int, pa.Buffer]]:
    """Yield the blobs of a batch by matcher as soon as all have come, in whatever order."""
    pending: dict[int, dict[int, pa.Buffer]] = {}
    for _, matcher, number, sent, blob in iter_blobs(batches):
        blobs = pending.setdefault(number, {})
        blobs[matcher] = blob
        if len(blobs) == sent:
            yield pending.pop(number)


def list_matches(results: Iterator[MatchedBatch]) -> ArrowBatches:
    """Yield the id of each matched post and the list of its subscriptions."""
    for result in results:
        yield from _list_matches(result.ids, result.posts.column("id"), result.counts)


def _list_matches(subscription_ids: pa.Array, post_ids: pa.Array, counts: NDArray[np.uint32]) -> ArrowBatches:
    """Build rows for the JVM: a post id and the list of its subscriptions, `counts` per post.

    A post with more than `BATCH_MATCHES` matches gets several rows.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    cuts = np.union1d((ends - counts)[counts > 0], np.arange(0, len(subscription_ids), BATCH_MATCHES))
    lists = pa.ListArray.from_arrays(
        pa.array(np.append(cuts, len(subscription_ids)).astype(np.int32)), subscription_ids
    )
    posts = pa.array(np.searchsorted(ends, cuts, "right"))
    yield from split_batches(pa.record_batch([post_ids.take(posts), lists], ["post_id", "subscriptions"]))


def _labels(
    tasks: Sequence[int], matchers: Sequence[int], numbers: Sequence[int], sent: Sequence[int]
) -> dict[str, pa.Array]:
    """Return the label columns of blobs."""
    labels = {"task": pa.array(tasks, pa.int32()), "matcher": pa.array(matchers, pa.int32())}
    return {**labels, "batch": pa.array(numbers, pa.int64()), "sent": pa.array(sent, pa.int32())}
