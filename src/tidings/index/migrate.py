"""Migration: a plan in which some cells have other areas, and the subscriptions that move with them.

What moves is written once: as a delta segment of the matcher that receives it, and as tombstones of the matcher that
gives it away. All that stays is not touched. A running batch keeps using its version.

A subscription that moves is written with all conjunctions that the matcher needs of it, because it is live in only one
segment of a shard. One that two matchers may find from now on is written again where it was, because its segment says
that it is not shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidings.index.builder import UnpublishedVersion
from tidings.index.compile import GrowingVocabulary
from tidings.index.decompile import decompile
from tidings.index.id_lookup import find_ids
from tidings.index.plan_change import PlanChange
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index, SegmentView
from tidings.index.sharding import ShardInput
from tidings.index.spatial_shards import Placement, SpatialAnchors, place, touched_areas
from tidings.index.writer import IndexWriter
from tidings.plan.space import SpatialPlan
from tidings.query.anchors import anchor_terms
from tidings.query.conjunctions import Conjunctions, concatenate
from tidings.query.geo.geometry import bounding_boxes
from tidings.ragged import sorted_unique

_TERM_BITS = np.uint64(32)
TextOf = Callable[[NDArray[np.uint32]], Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class Migration:
    """A version with another plan, the bytes of its new files, and how many subscriptions were written to a matcher."""

    version: UnpublishedVersion
    size_bytes: int
    subscriptions: int


def prepare_migration(index: Index, plan: SpatialPlan) -> Migration:
    """Prepare a version in which the subscriptions in changed areas are placed by this plan.

    Its grid has at least the lines of the plan in use. Subscriptions of a previous plan stay where they are.
    """
    record = index.manifest.plan
    assert record is not None
    writer = IndexWriter(index.folder, replace(index.manifest, plan=replace(record, version=record.version + 1)))
    writer.write_plan(plan)
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    change = PlanChange.of(cached_spatial_plan(index.folder / record.spatial_file), plan, index.vocabulary.terms())
    moving = _find_moving(index, change, vocabulary.text_of)
    count = 0 if moving is None else _write(writer, index, moving, change)
    return Migration(UnpublishedVersion(writer, vocabulary), writer.written_bytes, count)


@dataclass(frozen=True, slots=True)
class _Moving:
    """The subscriptions that a change concerns, where they are placed, and what each matcher must write again.

    `written` are pairs of matcher << 32 | subscription, ascending. Subscriptions are rows of `ids`.
    """

    conjunctions: Conjunctions
    ids: pa.Array
    placement: Placement  # by the new plan
    is_shared: NDArray[np.uint8]
    written: NDArray[np.int64]


def _find_moving(index: Index, change: PlanChange, text_of: TextOf) -> _Moving | None:
    """Return the subscriptions in changed areas, as the matchers of these areas hold them; None without any."""
    views = [view for matcher in change.matchers for view in index.open_shard(matcher) if not view.by_previous_plan]
    found = [view.segment.ids.take(pa.array(_find_concerned(view, change))) for view in views]
    if not sum(map(len, found)):
        return None
    sought = pa.concat_arrays(found).unique()
    rows = [find_ids(sought, view.segment.ids, view.segment.id_hash, view.segment.id_row) for view in views]
    parts = [(_decompile_rows(view, some), view.segment.ids) for view, some in zip(views, rows, strict=True)]
    conjunctions, ids = concatenate(parts)
    shared_rows = [some[view.is_shared_by_plan[some] > 0] for view, some in zip(views, rows, strict=True)]
    shared = [view.segment.ids.take(pa.array(some)) for view, some in zip(views, shared_rows, strict=True)]
    was_shared = pc.is_in(ids, value_set=pa.concat_arrays(shared)).to_numpy(zero_copy_only=False)
    before, after = (place(conjunctions, plan, text_of) for plan in (change.old, change.new))
    subscription = conjunctions.subscription.astype(np.int64)
    is_shared = was_shared | after.shared_subscriptions(conjunctions.subscription, len(ids))
    written = _list_written(before, after, subscription, is_shared & ~was_shared)
    return _Moving(conjunctions, ids, after, is_shared.astype(np.uint8), written)


def _find_concerned(view: SegmentView, change: PlanChange) -> NDArray[np.int64]:
    """Return the rows of the live subscriptions with a conjunction in a changed area."""
    segment = view.segment
    is_concerned = np.zeros(len(segment.second_term), bool)
    anchors = np.repeat(segment.anchors, np.diff(segment.anchor_start).astype(np.int64))
    is_concerned[: len(anchors)] = change.is_term_changed[anchors]
    if len(segment.entry_region):
        first = len(segment.second_term) - len(segment.entry_region)
        boxes, which = bounding_boxes(segment.regions.reshape(-1, 4), segment.entry_region.astype(np.int64))
        is_concerned[first + which[change.touches(boxes)]] = True
    is_subscriber = np.repeat(is_concerned, np.diff(segment.subscriber_start).astype(np.int64))
    rows = sorted_unique(segment.subscribers[: len(is_subscriber)][is_subscriber]).astype(np.int64)
    return rows[view.removed[rows] == 0] if len(view.removed) else rows


def _decompile_rows(view: SegmentView, rows: NDArray[np.int64]) -> Conjunctions:
    is_left_out = np.ones(len(view.segment), np.uint8)
    is_left_out[rows] = 0
    return decompile(view.segment, is_left_out | view.removed if len(view.removed) else is_left_out)


def _list_written(
    before: Placement, after: Placement, subscription: NDArray[np.int64], is_newly_shared: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return matcher << 32 | subscription where a conjunction comes or goes, or the subscription becomes shared."""
    changed = np.setxor1d(before.keys, after.keys)
    pairs = (changed & 0xFFFF) << 32 | subscription[changed >> 16]
    kept = before.keys[is_newly_shared[subscription[before.keys >> 16]]]
    return sorted_unique(np.concatenate([pairs, (kept & 0xFFFF) << 32 | subscription[kept >> 16]]))


def _write(writer: IndexWriter, index: Index, moving: _Moving, change: PlanChange) -> int:
    """Write tombstones and delta segments; return the number of subscriptions in the deltas."""
    keys, count = _list_new_keys(moving.conjunctions, change), 0
    written = moving.written if len(moving.written) or not len(keys) else _list_any(moving, change)
    for matcher in np.unique(written >> 32).tolist():
        if matcher not in change.matchers:
            continue
        subscriptions = written[written >> 32 == matcher] & 0xFFFFFFFF
        writer.remove_from_shard(index, matcher, moving.ids.take(pa.array(subscriptions)))
        part = _select_part(moving, matcher, subscriptions)
        if len(part):
            anchors = SpatialAnchors.of(part, change.new)
            anchors = replace(anchors, keys=sorted_unique(np.concatenate([anchors.keys, keys])))
            shard_input = ShardInput.of(matcher, part, moving.is_shared, spatial_anchors=anchors)
            writer.append_to_shard(shard_input, moving.ids.take(pa.array(shard_input.subscriptions)))
            keys, count = keys[:0], count + len(shard_input.subscriptions)
    return count


def _list_new_keys(conjunctions: Conjunctions, change: PlanChange) -> NDArray[np.uint64]:
    """Return what routes posts in the changed areas.

    The segments that stay know the old areas only, so the keys of all their conjunctions are stored with a new one.
    """
    area, row = touched_areas(conjunctions, change.new)
    is_new = np.isin(area, change.areas)
    former_ids = change.new.former_ids[area[is_new]].astype(np.uint64)
    return sorted_unique(former_ids << _TERM_BITS | anchor_terms(conjunctions)[row[is_new]])


def _list_any(moving: _Moving, change: PlanChange) -> NDArray[np.int64]:
    """Return one subscription to write again where it is: a segment is needed that stores the keys of new areas."""
    keys = moving.placement.keys
    held = keys[np.isin(keys & 0xFFFF, change.matchers)][:1]
    return np.asarray((held & 0xFFFF) << 32 | moving.conjunctions.subscription[held >> 16].astype(np.int64))


def _select_part(moving: _Moving, matcher: int, subscriptions: NDArray[np.int64]) -> Conjunctions:
    """Return what a matcher holds of these subscriptions from now on."""
    rows = sorted_unique(moving.placement.row[moving.placement.matcher == matcher])
    is_chosen = np.isin(moving.conjunctions.subscription[rows], subscriptions)
    return moving.conjunctions.select(rows[is_chosen]).compact()
