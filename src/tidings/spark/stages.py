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
from tidings.routing.router import MatcherBatch, split_off_local
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
    join_blobs,
    read_stream,
    split_blob,
    write_stream,
)
from tidings.spark.results import BATCH_MATCHES, MatchedBatch, OpenWriter, RowWriter, split_batches, write_all
from tidings.spark.worker_state import IndexRef, LoadedIndex, open_index
from tidings.text.analyzer import AnalyzedBatch
from tidings.text.searchable import join_searchable

# `task` is the partition of the next stage, `sent` the number of blobs of the batch that are merged. 0 labels blobs of
# posts that only one matcher gets, with all their fields: their results are written where they are matched.
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


def match_and_write(ref: IndexRef, open_writer: OpenWriter, routing: RoutingOptions = _SEND_ALL) -> Stage:
    """posts with all fields → results, with the whole index (replicated mode)."""

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index, stats = open_index(ref), list[RoutingStats]()
        sampled = _sample_batches(batches, routing, stats)
        yield from write_all(open_writer(), (_match_batch(index, batch) for batch in sampled))
        if stats:
            routing.report_stats(stats)
        index.end_task()

    return stage


def _match_batch(index: LoadedIndex, batch: pa.RecordBatch) -> MatchedBatch:
    analyzed, positions = index.analyze(batch)
    return MatchedBatch(batch, *_match(index, 0, analyzed, positions), analyzed.rejected)


def _match(
    index: LoadedIndex, shard: int, analyzed: AnalyzedBatch, positions: NDArray[np.float64]
) -> tuple[pa.Array, NDArray[np.uint32]]:
    """Return the ids of the matched subscriptions in the order of the posts, and the number per post."""
    segments = index.match(shard, analyzed, positions)
    if len(segments) == 1:
        return segments[0].ids, segments[0].hits.counts
    ids = pa.concat_arrays([pa.array([], index.index.id_type), *(segment.ids for segment in segments)])
    posts = np.concatenate([np.zeros(0, np.uint32), *(segment.hits.posts for segment in segments)])
    return group_by_post(posts, ids, len(analyzed))


def route(
    ref: IndexRef, schema: pa.Schema, tasks: int, routing: RoutingOptions = _SEND_ALL, columns: Sequence[str] = ()
) -> Stage:
    """posts → routed posts: one blob per batch and matcher that can match any of them.

    With `columns`, further blobs have these columns of the posts that were routed or rejected, each post once.
    """

    def stage(batches: ArrowBatches) -> ArrowBatches:
        index, stats = open_index(ref), []
        for number, batch in enumerate(batches, first_batch_number()):
            analyzed, positions = index.analyze(batch)
            routed = index.router.route(analyzed, positions, routing.shed)
            if routing.report is not None:
                stats.append(RoutingStats.from_routed(routed, *_sample_posts(batch, positions, routing.sample_texts)))
            local, shares = split_off_local(routed.batches, batch.num_rows) if columns else ([], routed.batches)
            blobs = [_pack_local(share, batch, positions, schema, columns) for share in local]
            labels = [(share.matcher % tasks, share.matcher, number, 0) for share in local]
            merged = _pack_merged(shares, batch, analyzed.rejected, positions, schema, columns)
            labels += [(matcher % tasks, matcher, number, len(merged)) for matcher, _ in merged]
            yield _label_blobs([*blobs, *(blob for _, blob in merged)], labels)
        routing.report_stats(stats)
        index.end_task()

    return stage


def _pack_local(
    share: MatcherBatch,
    batch: pa.RecordBatch,
    positions: NDArray[np.float64],
    schema: pa.Schema,
    columns: Sequence[str],
) -> pa.Buffer:
    """Return posts that only one matcher gets: their columns, and what it matches."""
    posts = write_stream(batch.select(columns).take(pa.array(share.posts)))
    return join_blobs(posts, pack(share, batch.column("id"), positions, schema))


def _pack_merged(
    shares: Sequence[MatcherBatch],
    batch: pa.RecordBatch,
    rejected: NDArray[np.intp],
    positions: NDArray[np.float64],
    schema: pa.Schema,
    columns: Sequence[str],
) -> list[tuple[int, pa.Buffer]]:
    """Return the blob of each matcher and, with `columns`, that of the posts themselves."""
    blobs = []
    if columns:
        rows, shares = _keep_used_posts(shares, rejected, batch.num_rows)
        batch, positions = _mark_rejected(batch.select(columns), rejected, rows), positions[rows]
        blobs = [(NO_MATCHER, write_stream(batch))] if len(rows) else []
    return blobs + [(share.matcher, pack(share, batch.column("id"), positions, schema)) for share in shares]


def _keep_used_posts(
    shares: Sequence[MatcherBatch], rejected: NDArray[np.intp], posts: int
) -> tuple[NDArray[np.intp], list[MatcherBatch]]:
    """Return the rows of posts that were routed or rejected, and the shares with these posts numbered from 0."""
    is_used = np.zeros(posts, bool)
    is_used[rejected] = True
    for share in shares:
        is_used[share.posts] = True
    row_of = np.cumsum(is_used, dtype=np.uint32) - np.uint32(1)
    return np.flatnonzero(is_used), [replace(share, posts=row_of[share.posts]) for share in shares]


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


def match_shards_to_blobs(
    ref: IndexRef, schema: pa.Schema, hits_schema: pa.Schema, tasks: int, open_writer: OpenWriter
) -> Stage:
    """routed posts → packed hits, to be merged per batch; the blobs of posts pass unchanged.

    Results of posts that only one matcher gets are written here; what the writer yields passes the merge in blobs.
    """

    def stage(batches: ArrowBatches) -> ArrowBatches:
        for rows in group_by_size(answers(batches), lambda row: row[-1].size, _BATCH_BYTES):
            yield _label_blobs([blob for *_, blob in rows], [(n % tasks, m, n, sent) for m, n, sent, _ in rows])

    def answers(batches: ArrowBatches) -> Iterator[tuple[int, int, int, pa.Buffer]]:
        index, writer, number = open_index(ref), open_writer(), 0
        for _, matcher, number, sent, blob in iter_blobs(batches):
            if sent == 0:
                posts, routed = split_blob(blob)
                for rows in writer.write(_match_local(index, matcher, read_stream(posts), unpack(routed, schema))):
                    yield matcher, number, 0, write_stream(rows)
            elif matcher == NO_MATCHER:
                yield matcher, number, sent, blob
            else:
                yield matcher, number, sent, _pack_hits(index, matcher, unpack(blob, schema), hits_schema)
        for rows in writer.finish():
            yield NO_MATCHER, number, 0, write_stream(rows)

    return stage


def _match_local(index: LoadedIndex, matcher: int, posts: pa.RecordBatch, routed: RoutedPosts) -> MatchedBatch:
    ids, counts = _match(index, matcher, routed.analyzed, routed.positions)
    return MatchedBatch(posts, ids, counts, np.zeros(0, np.intp))


def _pack_hits(index: LoadedIndex, matcher: int, posts: RoutedPosts, schema: pa.Schema) -> pa.Buffer:
    parts = [
        pa.record_batch([posts.posts.take(hits.posts), hits.ids, hits.is_shared], schema=schema)
        for hits in index.match(matcher, posts.analyzed, posts.positions)
    ]
    return pa.concat_batches(parts or [pa.RecordBatch.from_pylist([], schema)]).serialize()


def merge_and_write(hits_schema: pa.Schema, open_writer: OpenWriter) -> Stage:
    """packed hits and the blobs of posts → results; results that are written already pass."""
    id_type = hits_schema.field("subscription_id").type

    def stage(batches: ArrowBatches) -> ArrowBatches:
        writer = open_writer()
        for blobs in _iter_complete_batches(batches):
            if isinstance(blobs, pa.Buffer):
                yield read_stream(blobs)
            else:
                yield from writer.write(_merge(blobs, hits_schema, id_type))
        yield from writer.finish()

    return stage


def _merge(blobs: dict[int, pa.Buffer], hits_schema: pa.Schema, id_type: pa.DataType) -> MatchedBatch:
    posts = read_stream(blobs.pop(NO_MATCHER))
    ids, counts = merge_hits([pa.ipc.read_record_batch(blob, hits_schema) for blob in blobs.values()], posts.num_rows)
    is_rejected = posts.column(_IS_REJECTED).to_numpy(zero_copy_only=False)
    return MatchedBatch(posts.drop_columns([_IS_REJECTED]), ids.cast(id_type), counts, np.flatnonzero(is_rejected))


def _iter_complete_batches(batches: ArrowBatches) -> Iterator[dict[int, pa.Buffer] | pa.Buffer]:
    """Yield the blobs of a batch by matcher as soon as all have come, in whatever order, or a blob of results."""
    pending: dict[int, dict[int, pa.Buffer]] = {}
    for _, matcher, number, sent, blob in iter_blobs(batches):
        if sent == 0:
            yield blob
            continue
        blobs = pending.setdefault(number, {})
        blobs[matcher] = blob
        if len(blobs) == sent:
            yield pending.pop(number)


class ListWriter(RowWriter):
    """Yields the id of each matched post and the list of its subscriptions."""

    def write(self, result: MatchedBatch) -> ArrowBatches:
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


def _label_blobs(blobs: Sequence[pa.Buffer], labels: Sequence[tuple[int, int, int, int]]) -> pa.RecordBatch:
    """Return a batch of blobs, each labelled with its task, matcher, batch and the number of blobs to merge."""
    columns = zip(*labels, strict=True) if labels else ((), (), (), ())
    names = {"task": pa.int32(), "matcher": pa.int32(), "batch": pa.int64(), "sent": pa.int32()}
    arrays = (pa.array(column, kind) for column, kind in zip(columns, names.values(), strict=True))
    return blob_batch(blobs, **dict(zip(names, arrays, strict=True)))
