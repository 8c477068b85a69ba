"""Migration: a plan that differs for some matchers, and new shards for just these matchers.

Cells and terms move only from one of these matchers to another, so all that they need is in one of their shards; all
other shards stay as they are. Files of the old shards are not touched: a running batch keeps using them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidings.index.builder import UnpublishedVersion
from tidings.index.compile import GrowingVocabulary
from tidings.index.decompile import decompile
from tidings.index.reader import Index
from tidings.index.spatial_shards import shard_by_region
from tidings.index.writer import IndexWriter
from tidings.plan.space import SpatialPlan
from tidings.query.conjunctions import concatenate


def prepare_migration(index: Index, plan: SpatialPlan, matchers: Collection[int]) -> UnpublishedVersion:
    """Prepare a version in which the subscriptions of these matchers are placed by this plan."""
    record = index.manifest.plan
    assert record is not None
    assert record.spatial_file
    assert not record.previous_file, "only one plan may be replaced at a time"
    writer = IndexWriter(index.folder, replace(index.manifest, plan=replace(record, version=record.version + 1)))
    writer.write_plan(plan)
    vocabulary = GrowingVocabulary(index.vocabulary, index.manifest.terms)
    views = [view for matcher in sorted(matchers) for view in index.open_shard(matcher)]
    shards = [() if number in matchers else shard for number, shard in enumerate(index.manifest.shards)]
    if views:
        conjunctions, ids = concatenate([(decompile(view.segment, view.removed), view.segment.ids) for view in views])
        shared_ids = pa.chunked_array([v.segment.ids.filter(pa.array(v.is_shared_by_plan.astype(bool))) for v in views])
        was_shared = pc.is_in(ids, value_set=shared_ids.combine_chunks()).to_numpy(zero_copy_only=False)
        for part in shard_by_region(conjunctions, plan, vocabulary.text_of, was_shared.astype(np.uint8)):
            if part.number in matchers:
                shards[part.number] = (writer.write_segment(part, ids.take(pa.array(part.subscriptions))),)
                writer.update(shared=writer.manifest.shared or bool(part.is_shared.any()))
    writer.update(shards=tuple(shards))
    return UnpublishedVersion(writer, vocabulary)
