"""Registry of the tag partitioners, and how the merger combines their results to a plan.

The merger is another partitioner that gets partitions instead of tag sets. It gets disjoint sets unmerged, so that
those of different partitioners that share a tag become one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.partition import disjoint_sets, set_cover, split_components
from tidings.correlate.partition.plan import TagPlan
from tidings.correlate.partition.subset_counts import SubsetCounts
from tidings.correlate.partition.tagsets import TagSets
from tidings.errors import InputError

ALGORITHMS = ("ds+scl", "ds", *set_cover.RULES)
DEFAULT_ALGORITHM = "ds+scl"
EVEN_LOADS_FIRST = ("scl",)  # their single additions minimise the load first; the others minimise communication


def check_algorithm(name: str) -> str:
    if name not in ALGORITHMS:
        raise InputError(f"algorithm {name!r}: unknown. Choose one of: {', '.join(ALGORITHMS)}.")
    return name


def partition_share(sets: TagSets, partitions: int, algorithm: str, seed: int = 0) -> TagSets:
    """Run one partitioner. Return sets of tags that must stay together, with their loads as weights."""
    numbered, original = sets.renumber()
    if algorithm == "ds+scl":
        found = split_components.split_into_pieces(numbered, partitions)
    elif algorithm == "ds":
        of_tag, _, loads = disjoint_sets.find_components(numbered)
        found = disjoint_sets.group_components(of_tag, loads)
    else:
        found = _to_tag_sets(*set_cover.cover_tags(numbered, _count_unions(numbered), partitions, algorithm, seed))
    return TagSets(original[found.tags], found.starts, found.weights)


def merge_partitions(
    parts: Sequence[TagSets],
    partitions: int,
    algorithm: str,
    seed: int = 0,
    evenness: float = split_components.EVENNESS,
) -> TagPlan:
    """Run the merger on the results of all partitioners. `evenness` is a parameter of `ds+scl`."""
    numbered, original = TagSets.concat(list(parts)).renumber()
    if algorithm == "ds+scl":
        owners = split_components.split_and_pack(numbered, partitions, evenness)
    elif algorithm == "ds":
        of_tag, _, loads = disjoint_sets.find_components(numbered)
        packed = disjoint_sets.pack_components(loads, np.zeros(partitions, np.int64)).astype(np.uint64)
        owners = np.uint64(1) << packed[of_tag]
    else:
        owners, _ = set_cover.cover_tags(numbered, numbered.weights, partitions, algorithm, seed)
    return TagPlan(partitions, original, owners)


def learn_tag_plan(
    sets: TagSets,
    partitions: int,
    algorithm: str,
    partitioners: int = 1,
    seed: int = 0,
    evenness: float = split_components.EVENNESS,
) -> TagPlan:
    """Run the partitioners and the merger one after another in this process."""
    parts = [partition_share(share, partitions, algorithm, seed) for share in sets.split_by_hash(partitioners)]
    return merge_partitions(parts, partitions, algorithm, seed, evenness)


def _count_unions(sets: TagSets) -> NDArray[np.int64]:
    """Return the number of posts with any tag of each row."""
    subsets = SubsetCounts()
    subsets.add(sets.tags, sets.starts, sets.weights)
    return subsets.unions(sets.tags, sets.starts)


def _to_tag_sets(owners: NDArray[np.uint64], carried: NDArray[np.int64]) -> TagSets:
    """Return the partitions as tag sets, without the empty ones."""
    members = [np.flatnonzero((owners >> np.uint64(number)) & np.uint64(1)) for number in range(len(carried))]
    used = [number for number, tags in enumerate(members) if len(tags)]
    starts = np.cumsum([0, *(len(members[number]) for number in used)]).astype(np.uint64)
    tags = np.concatenate([np.zeros(0, np.intp), *(members[number] for number in used)]).astype(np.uint32)
    return TagSets(tags, starts, carried[used])
