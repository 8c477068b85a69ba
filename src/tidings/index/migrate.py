"""Migration: a plan that differs in what some workers are responsible for, and new shards for just these workers.

Cells and words only ever go from one of these workers to another, so whatever they need is in one of their shards; all
other shards stay as they are. Files of the old shards are not touched: a batch that began with them ends with them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.index.builder import Prepared
from tidings.index.compile import GrowingVocabulary
from tidings.index.decompile import decompile
from tidings.index.reader import Index
from tidings.index.spatial_shards import share_by_area
from tidings.index.writer import Draft
from tidings.plan.space import SpacePlan
from tidings.query.conjunctions import joined


def prepare_moved(index: Index, plan: SpacePlan, workers: Collection[int]) -> Prepared:
    """The next version: the same subscriptions, and those of these workers where this plan wants them."""
    record = index.manifest.plan
    assert record is not None
    assert record.space
    assert not record.before, "one plan at a time is changed"
    draft = Draft(index.folder, replace(index.manifest, plan=replace(record, version=record.version + 1)))
    draft.save_plan(plan)
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    live = [one for worker in sorted(workers) for one in index.shard(worker)]
    shards = [() if number in workers else shard for number, shard in enumerate(index.manifest.shards)]
    if live:
        conjunctions, ids = joined([(decompile(one.segment, one.removed), one.segment.ids) for one in live])
        flagged = pa.chunked_array([one.segment.ids.filter(pa.array(one.shared.astype(bool))) for one in live])
        was_shared = pc.is_in(ids, value_set=flagged.combine_chunks()).to_numpy(zero_copy_only=False).astype(np.uint8)
        for share in share_by_area(conjunctions, plan, vocabulary.text_of, was_shared):
            if share.number in workers:
                shards[share.number] = (draft.save_segment(share, ids.take(pa.array(share.subscriptions))),)
                draft.update(shared=draft.manifest.shared or bool(share.shared.any()))
    draft.update(shards=tuple(shards))
    return Prepared(draft, vocabulary)
