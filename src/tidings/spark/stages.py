"""The stages as Spark runs them. Each only adapts: Arrow batch → arrays → pure function → Arrow batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.matching.dedup import Merger
from tidings.routing.stats import Noted
from tidings.routing.wire import pack, unpack
from tidings.spark.arrow_blobs import Batches, Stage, each, first_batch_number, labelled
from tidings.spark.routing_metrics import Routing
from tidings.spark.spill_file import WRITTEN, file_of_task
from tidings.spark.worker_state import IndexRef, OpenIndex, open_index
from tidings.text.searchable import searchable

ROUTED = "matcher int, batch bigint, sent int, blob binary"  # the posts of one batch for one matcher
HITS = "batch bigint, sent int, blob binary"  # what one matcher found in one batch
_SEND_ALL = Routing()
_MAX_MATCHES_OUT = 1 << 15  # what a core's cache holds


def match_whole(ref: IndexRef) -> Stage:
    """posts → matches, against the whole index: the replicated plan."""

    def stage(batches: Batches) -> Batches:
        opened = open_index(ref)
        for batch in batches:
            received, where = opened.receive(batch)
            for found in opened.match(0, received, where):
                yield from _matches(found.ids, batch.column("id"), found.hits.counts)
        opened.keep_warm()

    return stage


def match_and_keep(ref: IndexRef) -> Stage:
    """whole posts → those somebody wants, with a list of who (`subscriptions`), and the unfit ones with none."""

    def stage(batches: Batches) -> Batches:
        opened = open_index(ref)
        for batch in batches:
            yield from _cut(wanted(batch, *_found_in(opened, batch)))
        opened.keep_warm()

    return stage


def match_and_write(ref: IndexRef, folder: str) -> Stage:
    """As `match_and_keep`, but the posts somebody wants go into a file, and one row tells how many (`written`)."""

    def stage(batches: Batches) -> Batches:
        opened, file = open_index(ref), file_of_task(folder)
        for batch in batches:
            ids, counts, refused = _found_in(opened, batch)
            rows = wanted(batch, ids, counts, refused[:0])
            file.write(rows.append_column("reason", pa.nulls(rows.num_rows, pa.string())))
            unfit = wanted(batch, ids[:0], np.zeros_like(counts), refused)
            if unfit.num_rows:
                yield unfit.append_column(WRITTEN, pa.nulls(unfit.num_rows, pa.int64()))
        file.close()
        if file.rows:
            nothing = (pa.nulls(1, kind) for kind in unfit.schema.types)
            yield pa.record_batch([*nothing, pa.array([file.rows])], [*unfit.schema.names, WRITTEN])
        opened.keep_warm()

    return stage


def _found_in(opened: OpenIndex, batch: pa.RecordBatch) -> tuple[pa.Array, NDArray[np.uint32], NDArray[np.intp]]:
    """The ids that want the posts of a batch, post by post, how many want each, and the posts that are unfit."""
    received, where = opened.receive(batch)
    found = opened.match(0, received, where)
    if len(found) == 1:
        return found[0].ids, found[0].hits.counts, received.refused
    ids = pa.concat_arrays([pa.array([], opened.index.id_type), *(one.ids for one in found)])
    posts = np.concatenate([np.zeros(0, np.uint32), *(one.hits.posts for one in found)])
    counts = np.bincount(posts, minlength=batch.num_rows).astype(np.uint32)
    return ids.take(pa.array(np.argsort(posts, kind="stable"))), counts, received.refused


def wanted(
    batch: pa.RecordBatch, ids: pa.Array, counts: NDArray[np.uint32], refused: NDArray[np.intp]
) -> pa.RecordBatch:
    """The posts of a batch that were found, each with the ids it was found by, and those refused, with none."""
    is_kept = counts > 0
    is_kept[refused] = True
    starts = np.concatenate([[0], np.cumsum(counts[is_kept])]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(starts), ids)
    rows = batch if is_kept.all() else batch.filter(pa.array(is_kept))
    return pa.record_batch([*rows.columns, lists], [*rows.schema.names, "subscriptions"])


def _cut(found: pa.RecordBatch) -> Batches:
    """Rows with lists of `subscriptions`, in pieces that a core's cache holds."""
    offsets = found.column("subscriptions").offsets.to_numpy()
    cuts = np.searchsorted(offsets[:-1], np.arange(0, offsets[-1], _MAX_MATCHES_OUT))
    for start, end in itertools.pairwise(np.unique([0, *cuts, found.num_rows]).tolist()):
        yield found.slice(start, end - start)


def route(ref: IndexRef, routed: pa.Schema, routing: Routing = _SEND_ALL) -> Stage:
    """posts → routed: one row for each matcher that must see anything of a batch."""

    def stage(batches: Batches) -> Batches:
        opened, noted = open_index(ref), []
        for number, batch in enumerate(batches, first_batch_number()):
            received, where = opened.receive(batch)
            sent = opened.router.route(received, where, routing.shed)
            if routing.tell is not None:
                noted.append(Noted.of(sent, *_some_posts(batch, where, routing.texts)))
            shares = sent.shares
            blobs = [pack(share, batch.column("id"), where, routed) for share in shares]
            matchers = pa.array([share.matcher for share in shares], pa.int32())
            yield labelled(blobs, matcher=matchers, **_labels([number] * len(shares), len(shares)))
        routing.told(noted)
        opened.keep_warm()

    return stage


def _some_posts(batch: pa.RecordBatch, where: NDArray[np.float64], count: int) -> tuple[pa.Array, NDArray[np.float64]]:
    """What would be searched of so many posts, from all over a batch, and where they are."""
    rows = np.linspace(0, batch.num_rows, min(count, batch.num_rows), endpoint=False).astype(np.int64)
    return searchable(batch.take(pa.array(rows))).cast(pa.large_string()), where[rows]


def match_shard(ref: IndexRef, routed: pa.Schema) -> Stage:
    """routed → matches, when no subscription is on several matchers."""

    def stage(batches: Batches) -> Batches:
        opened = open_index(ref)
        for matcher, _, _, blob in each(batches):
            posts = unpack(blob, routed)
            for found in opened.match(matcher, posts.received, posts.positions):
                yield from _matches(found.ids, posts.ids, found.hits.counts)

    return stage


def find_in_shard(ref: IndexRef, routed: pa.Schema, hits: pa.Schema) -> Stage:
    """routed → hits, packed, when they must be merged."""

    def stage(batches: Batches) -> Batches:
        opened = open_index(ref)
        for matcher, number, sent, blob in each(batches):
            posts = unpack(blob, routed)
            tables = []
            for found in opened.match(matcher, posts.received, posts.positions):
                columns = [posts.posts.take(found.posts), posts.ids.take(found.posts), found.ids, found.shared]
                tables.append(pa.record_batch(columns, schema=hits))
            whole = pa.Table.from_batches(tables, hits).combine_chunks()
            batch = whole.to_batches()[0] if len(whole) else pa.RecordBatch.from_pylist([], hits)
            yield labelled([batch.serialize()], **_labels([number], sent))

    return stage


def merge(hits: pa.Schema) -> Stage:
    """hits → matches, every match once."""

    def stage(batches: Batches) -> Batches:
        merger = Merger()
        for number, sent, blob in each(batches):
            yield from _tables(merger.take(number, sent, pa.ipc.read_record_batch(blob, hits)))
        yield from _tables(merger.rest())

    return stage


def _tables(tables: Iterable[pa.Table]) -> Batches:
    for table in tables:
        for batch in table.to_batches():
            each = np.ones(batch.num_rows, np.uint32)
            yield from _matches(batch.column("subscription_id"), batch.column("post_id"), each)


def _matches(subscription_ids: pa.Array, post_ids: pa.Array, counts: NDArray[np.uint32]) -> Batches:
    """Matches as the JVM gets them: a row a post with the list of its subscriptions, in pieces the JVM can hold.

    `counts` says how many matches each post has. A post with very many matches is cut into several rows.
    """
    ends = np.cumsum(counts, dtype=np.int64)
    cuts = np.union1d((ends - counts)[counts > 0], np.arange(0, len(subscription_ids), _MAX_MATCHES_OUT))
    lists = pa.ListArray.from_arrays(
        pa.array(np.append(cuts, len(subscription_ids)).astype(np.int32)), subscription_ids
    )
    posts = pa.array(np.searchsorted(ends, cuts, "right"))
    yield from _cut(pa.record_batch([post_ids.take(posts), lists], ["post_id", "subscriptions"]))


def _labels(numbers: list[int], sent: int) -> dict[str, pa.Array]:
    return {"batch": pa.array(numbers, pa.int64()), "sent": pa.array([sent] * len(numbers), pa.int32())}
