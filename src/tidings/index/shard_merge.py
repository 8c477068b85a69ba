"""Merge the segments of single shards, without renumbering terms: what a migration leaves behind."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from tidings.index.builder import UnpublishedVersion
from tidings.index.compile import GrowingVocabulary
from tidings.index.decompile import decompile
from tidings.index.manifest import SegmentRecord
from tidings.index.merge_policy import merge_segments
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.index.sharding import ShardInput
from tidings.index.writer import IndexWriter


def list_divided_shards(index: Index) -> list[int]:
    """Return the shards that have several segments of the current plan."""
    return [number for number, shard in enumerate(index.manifest.shards) if len(_current(shard)) > 1]


def prepare_shard_merge(index: Index, numbers: Collection[int]) -> UnpublishedVersion:
    """Prepare a version in which each of these shards of a spatial plan has one segment without tombstones.

    Segments of a previous plan stay as they are.
    """
    plan = index.manifest.plan
    assert plan is not None
    assert plan.spatial_file
    writer = IndexWriter(index.folder, replace(index.manifest))
    shards = list(index.manifest.shards)
    for number in numbers:
        views = [index.open_segment(record) for record in _current(shards[number])]
        nothing = decompile(views[0].segment, np.ones(len(views[0].segment), np.uint8))
        no_rows = np.zeros(0, np.uint8)
        empty, ids = ShardInput.of(number, nothing, no_rows), views[0].segment.ids[:0]
        merged, ids = merge_segments(views, empty, ids, True, cached_spatial_plan(index.folder / plan.spatial_file))
        kept = tuple(record for record in shards[number] if record.by_previous_plan)
        shards[number] = (*kept, writer.write_segment(merged, ids)) if len(ids) else kept
    writer.update(shards=tuple(shards))
    return UnpublishedVersion(writer, GrowingVocabulary(index.vocabulary, index.manifest.terms))


def _current(records: Collection[SegmentRecord]) -> list[SegmentRecord]:
    return [record for record in records if not record.by_previous_plan]
