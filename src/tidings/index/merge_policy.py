"""Keep the number of segments logarithmic: new subscriptions absorb the newest segments up to twice their size.

The base segment of a shard is not touched: `builder.merge_index` merges it, which pays off only after many changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.decompile import decompile
from tidings.index.reader import SegmentView
from tidings.index.sharding import ShardInput, needed_terms, phrase_terms
from tidings.index.spatial_shards import SpatialAnchors
from tidings.plan.space import SpatialPlan
from tidings.query.anchors import Anchors
from tidings.query.conjunctions import Conjunctions, concatenate


def count_to_merge(sizes: Sequence[int], added: int) -> int:
    """Return how many of the last segments to merge with `added` items; never the first, which is the base.

    A segment is merged if it is smaller than twice the sum of all that is newer.
    """
    count, newer = 0, added
    while count < len(sizes) - 1 and sizes[-count - 1] < 2 * newer:
        newer += sizes[-count - 1]
        count += 1
    return count


def merge_segments(
    views: Sequence[SegmentView], addition: ShardInput, ids: pa.Array, is_partitioned: bool, plan: SpatialPlan | None
) -> tuple[ShardInput, pa.Array]:
    """Return the input of one segment, and its ids, for these segments and an addition; removed ones are dropped."""
    parts = [(decompile(view.segment, view.removed), view.segment.ids) for view in views]
    conjunctions, merged_ids = concatenate([*parts, (addition.conjunctions, ids)])
    split_terms = np.unique(np.concatenate([*(view.split_terms for view in views), addition.split_terms]))
    by_term = is_partitioned and plan is None
    merged = ShardInput(
        number=addition.number,
        conjunctions=conjunctions,
        subscriptions=np.arange(len(merged_ids)),
        phrase_terms=phrase_terms(conjunctions),
        is_shared=np.concatenate(
            [*(view.is_shared_by_plan[_remaining_rows(view)] for view in views), addition.is_shared]
        ),
        terms=needed_terms(conjunctions) if by_term else addition.terms,
        split_terms=split_terms,
        anchors=Anchors.of(conjunctions, split_terms) if by_term else None,
        spatial_anchors=_merge_anchors(views, addition, conjunctions, plan) if plan is not None else None,
    )
    return merged, merged_ids


def _merge_anchors(
    views: Sequence[SegmentView], addition: ShardInput, conjunctions: Conjunctions, plan: SpatialPlan
) -> SpatialAnchors:
    """Return the anchors of all conjunctions, with the keys of the parts: some are for conjunctions of other shards."""
    parts = [view.spatial_anchors for view in views]
    return SpatialAnchors.of(conjunctions, plan).union([*parts, addition.spatial_anchors or SpatialAnchors.empty()])


def _remaining_rows(view: SegmentView) -> NDArray[np.intp]:
    """Return the subscriptions that are not removed, in the order in which `concatenate` lists them."""
    return np.flatnonzero(view.removed == 0) if len(view.removed) else np.arange(len(view.segment))
