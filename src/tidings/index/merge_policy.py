"""Keeping the number of segments logarithmic: the newest small ones become one as soon as they weigh half the next.

The base segment of a shard is left alone: that is `merge_index`, worth its cost only when much has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tidings.index.decompile import decompile
from tidings.index.manifest import SegmentRecord
from tidings.index.reader import Index, LiveSegment
from tidings.index.sharding import Share, needed_words, phrase_words
from tidings.index.spatial_shards import AreaLeads, space_plan
from tidings.index.writer import Draft
from tidings.query.anchors import Leads
from tidings.query.conjunctions import Conjunctions, joined
from tidings.text.vocabulary import Vocabulary


def fold_index(index: Index) -> Index:
    """The next version with its newest segments and layers of terms folded; the same one if nothing is to be folded."""
    manifest = index.manifest
    new = [[record for record in shard if not record.is_old] for shard in manifest.shards]
    segments = [_tail([record.subscriptions for record in records]) for records in new]
    layers = [index.layer(name) for name in manifest.layers]
    terms = _tail([len(layer) for layer in layers])
    if max([0, *segments]) < 2 and terms < 2:
        return index
    draft = Draft(index.folder, replace(manifest, version=index.version + 1))
    shards = [_folded(index, draft, number, count) for number, count in enumerate(segments)]
    draft.update(shards=tuple(shards))
    if terms > 1:
        draft.update(layers=(*manifest.layers[:-terms], _joined_layer(draft, layers[-terms:])))
    return draft.publish()


def _tail(sizes: Sequence[int]) -> int:
    """How many at the end weigh together more than half of the one before them; the first is never among them."""
    count = min(1, len(sizes) - 1)
    while 0 < count < len(sizes) - 1 and sizes[-count - 1] < 2 * sum(sizes[-count:]):
        count += 1
    return count


def _folded(index: Index, draft: Draft, number: int, count: int) -> tuple[SegmentRecord, ...]:
    """The segments of a shard with the last `count` as one; none of it when all their subscriptions are gone."""
    records = index.manifest.shards[number]
    if count < 2:
        return records
    live = [index.live(record) for record in records[-count:]]
    conjunctions, ids = joined([(decompile(one.segment, one.removed), one.segment.ids) for one in live])
    if not len(ids):
        return records[:-count]
    shared = np.concatenate([one.shared[_present(one)] for one in live])
    routed = index.manifest.plan is not None
    split = np.unique(np.concatenate([one.split for one in live]))
    leads = Leads.of(conjunctions, split) if routed else None
    words = needed_words(conjunctions) if routed else np.zeros(0, np.uint32)
    needed = (words, phrase_words(conjunctions), split)
    areas = _areas(index, conjunctions)
    share = Share(number, conjunctions, np.arange(len(ids)), leads, *needed, shared, areas)
    return (*records[:-count], draft.save_segment(share, ids))


def _areas(index: Index, conjunctions: Conjunctions) -> AreaLeads | None:
    plan = index.manifest.plan
    return AreaLeads.of(conjunctions, space_plan(index.folder / plan.space)) if plan and plan.space else None


def _present(one: LiveSegment) -> NDArray[np.intp]:
    """The subscriptions still there, in the order in which `joined` lists them."""
    return np.flatnonzero(one.removed == 0) if len(one.removed) else np.arange(len(one.segment))


def _joined_layer(draft: Draft, layers: Sequence[Vocabulary]) -> str:
    """One layer with the same numbers."""
    return draft.save_layer([term for layer in layers for term in layer.terms()], layers[0].first)
