"""Two plans at a time: new subscriptions follow the current plan, old ones move to it from the previous plan in slices.

A slice is a version like any other: tombstones for the subscriptions that move, and delta segments with them. Which
ones have moved can be read from the tombstones, so nothing else must survive a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.failpoints import failpoint
from tidings.index.builder import UnpublishedVersion
from tidings.index.compile import GrowingVocabulary
from tidings.index.decompile import decompile
from tidings.index.manifest import SegmentRecord
from tidings.index.reader import Index, SegmentView
from tidings.index.writer import IndexWriter
from tidings.plan.compact import compact
from tidings.plan.space import SpatialPlan
from tidings.query.conjunctions import Conjunctions, concatenate
from tidings.ragged import sorted_unique


@dataclass(frozen=True, slots=True)
class MovedSlice:
    """A version in which `moved` subscriptions more are placed by the current plan, and the bytes of its new files."""

    version: UnpublishedVersion
    moved: int
    size_bytes: int


def prepare_dual_plan(index: Index, plan: SpatialPlan) -> UnpublishedVersion:
    """Prepare a version in which new subscriptions follow this plan, and existing ones stay where they are."""
    record = index.manifest.plan
    assert record is not None
    assert record.spatial_file
    assert not record.previous_file, "only one plan may be replaced at a time"
    writer = IndexWriter(index.folder, replace(index.manifest, shared=True))
    new_record = replace(record, previous_file=record.spatial_file, algorithm=plan.algorithm)
    writer.update(plan=replace(new_record, version=record.version + 1))
    writer.write_plan(compact(plan))
    shards = (tuple(replace(segment, by_previous_plan=True) for segment in shard) for shard in index.manifest.shards)
    writer.update(shards=tuple(shards))
    return UnpublishedVersion(writer, GrowingVocabulary(index.vocabulary, index.manifest.terms))


def prepare_slice(index: Index, max_subscriptions: int) -> MovedSlice:
    """Prepare a version in which some old subscriptions are placed by the current plan.

    The previous plan ends with its last subscription. Its segments stay until then, even empty ones: they may have the
    routing keys of others.
    """
    writer = IndexWriter(index.folder, index.manifest)
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    views = [view for shard in range(len(index.manifest.shards)) for view in index.open_shard(shard)]
    found = _take_slice([view for view in views if view.by_previous_plan], max_subscriptions)
    if found is not None:
        conjunctions, ids = found
        writer.remove(index, [ids])
        failpoint("during-slice", index.version)
        writer.add(conjunctions, ids, vocabulary)
    _end_previous_plan(writer)
    size_bytes = sum((index.folder / name).stat().st_size for name in writer.written)
    return MovedSlice(UnpublishedVersion(writer, vocabulary), 0 if found is None else len(found[1]), size_bytes)


def count_by_plan(index: Index) -> tuple[int, int]:
    """Return the numbers of live subscriptions placed by the previous and by the current plan, copies included."""
    records = [record for shard in index.manifest.shards for record in shard]
    old = sum(record.subscriptions - record.removed_count for record in records if record.by_previous_plan)
    return old, sum(record.subscriptions - record.removed_count for record in records) - old


def _take_slice(views: Sequence[SegmentView], count: int) -> tuple[Conjunctions, pa.Array] | None:
    """Return the live subscriptions with the smallest hashes of their ids; None if there are none.

    Ids with the same hash stay together, and so do all conjunctions of a subscription, whatever shards they are in.
    """
    hashes = sorted_unique(np.concatenate([np.zeros(0, np.uint64), *(_live_hashes(view) for view in views)]))
    if not len(hashes):
        return None
    last = hashes[min(count, len(hashes)) - 1]
    return concatenate([(decompile(view.segment, _mask_above(view, last)), view.segment.ids) for view in views])


def _live_hashes(view: SegmentView) -> NDArray[np.uint64]:
    hashes = view.segment.id_hash
    return hashes[view.removed[view.segment.id_row] == 0] if len(view.removed) else hashes


def _mask_above(view: SegmentView, last: np.uint64) -> NDArray[np.uint8]:
    """Mask removed subscriptions, and those whose id has a hash above `last`."""
    mask = np.empty(len(view.segment), np.uint8)
    mask[view.segment.id_row] = view.segment.id_hash > last
    return mask | view.removed if len(view.removed) else mask


def _end_previous_plan(writer: IndexWriter) -> None:
    """Drop the previous plan and its segments if none of its subscriptions is left."""
    manifest = writer.manifest
    assert manifest.plan is not None
    if any(_is_in_use(record) for shard in manifest.shards for record in shard if record.by_previous_plan):
        return
    shards = tuple(tuple(record for record in shard if not record.by_previous_plan) for shard in manifest.shards)
    plan = replace(manifest.plan, previous_file="", version=manifest.plan.version + 1)
    writer.update(shards=shards, plan=plan)
    index = Index(writer.folder, writer.manifest)
    shared = (view.is_shared_by_plan.any() for number in range(len(shards)) for view in index.open_shard(number))
    writer.update(shared=any(shared))


def _is_in_use(record: SegmentRecord) -> bool:
    return record.removed_count < record.subscriptions
