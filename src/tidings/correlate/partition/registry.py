"""From the tag sets of a window to a plan: what each partitioner hands over, and how the merger unites it.

The merger is another partitioner: it gets partitions instead of tag sets. Only disjoint sets come to it unmerged, so
that those which share a tag between partitioners become one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidings.correlate.partition import disjoint_sets, set_cover, split_components
from tidings.correlate.partition.plan import TagPlan
from tidings.correlate.partition.subset_counts import Subsets
from tidings.correlate.partition.tagsets import TagSets
from tidings.errors import InputError

ALGORITHMS = ("ds+scl", "ds", *set_cover.RULES)
DEFAULT = "ds+scl"
EVEN_LOADS_FIRST = ("scl",)  # whose single additions look at loads; those of the others at communication


def checked_algorithm(name: str) -> str:
    if name not in ALGORITHMS:
        raise InputError(f"There is no algorithm {name!r}; choose one of: {', '.join(ALGORITHMS)}.")
    return name


def partition(sets: TagSets, partitions: int, algorithm: str, seed: int = 0) -> TagSets:
    """What one partitioner makes of its share: sets of tags that must stay together, with their loads as weights."""
    numbered, names = sets.numbered()
    if algorithm == "ds+scl":
        found = split_components.pieces(numbered, partitions)
    elif algorithm == "ds":
        of_tag, _, loads = disjoint_sets.components(numbered)
        found = disjoint_sets.disjoint_sets(of_tag, loads)
    else:
        found = _as_sets(*set_cover.cover(numbered, _loads(numbered), partitions, algorithm, seed))
    return TagSets(names[found.tags], found.starts, found.weights)


def merge(
    parts: Sequence[TagSets],
    partitions: int,
    algorithm: str,
    seed: int = 0,
    evenness: float = split_components.EVENNESS,
) -> TagPlan:
    """The plan that the merger makes of what all partitioners handed over; `evenness` is what `ds+scl` strives for."""
    numbered, names = TagSets.together(list(parts)).numbered()
    if algorithm == "ds+scl":
        owners = split_components.split_and_pack(numbered, partitions, evenness)
    elif algorithm == "ds":
        of_tag, _, loads = disjoint_sets.components(numbered)
        packed = disjoint_sets.packed(loads, np.zeros(partitions, np.int64)).astype(np.uint64)
        owners = np.uint64(1) << packed[of_tag]
    else:
        owners, _ = set_cover.cover(numbered, numbered.weights, partitions, algorithm, seed)
    return TagPlan(partitions, names, owners)


def learn(
    sets: TagSets,
    partitions: int,
    algorithm: str,
    partitioners: int = 1,
    seed: int = 0,
    evenness: float = split_components.EVENNESS,
) -> TagPlan:
    """Partitioners and merger, one after another in this process."""
    parts = [partition(share, partitions, algorithm, seed) for share in sets.shares(partitioners)]
    return merge(parts, partitions, algorithm, seed, evenness)


def _loads(sets: TagSets) -> NDArray[np.int64]:
    """For each row, how many posts have any of its tags."""
    subsets = Subsets()
    subsets.add(sets.tags, sets.starts, sets.weights)
    return subsets.unions(sets.tags, sets.starts)


def _as_sets(owners: NDArray[np.uint64], carried: NDArray[np.int64]) -> TagSets:
    """Partitions as sets of tags; those that got none are left out."""
    members = [np.flatnonzero((owners >> np.uint64(number)) & np.uint64(1)) for number in range(len(carried))]
    used = [number for number, tags in enumerate(members) if len(tags)]
    starts = np.cumsum([0, *(len(members[number]) for number in used)]).astype(np.uint64)
    tags = np.concatenate([np.zeros(0, np.intp), *(members[number] for number in used)]).astype(np.uint32)
    return TagSets(tags, starts, carried[used])
