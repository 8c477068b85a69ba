"""Sharing conjunctions out by a space plan: each to the workers that posts it may match will be sent to.

A conjunction with a region goes, for every area its region touches, to the worker of its rarest word there; one
without goes to all that are responsible for that word anywhere. What leads posts to it is (area, word), or the word
alone: the H2 of PS²Stream's dispatcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidings.index.sharding import Share, phrase_words
from tidings.plan.space import SpacePlan, load_space_plan
from tidings.query.anchors import lead_terms
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import boxes_of
from tidings.ragged import distinct

_NONE = np.zeros(0, np.uint32)
_WORD_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True)
class AreaLeads:
    """What leads posts to a segment: ``area << 32 | word`` (0 for no word), and words that do so in every area."""

    keys: NDArray[np.uint64]
    free: NDArray[np.uint32]

    @classmethod
    def nothing(cls) -> AreaLeads:
        return cls(np.zeros(0, np.uint64), _NONE)

    @classmethod
    def of(cls, conjunctions: Conjunctions, plan: SpacePlan) -> AreaLeads:
        leads = lead_terms(conjunctions)
        area, row = touched(conjunctions, plan)
        keys = plan.names[area].astype(np.uint64) << _WORD_BITS | leads[row]
        return cls(distinct(keys), distinct(leads[conjunctions.anchor_region < 0]))


@lru_cache(maxsize=4)  # files of an index never change
def space_plan(path: Path) -> SpacePlan:
    """The space plan an index was made with."""
    return load_space_plan(path)


def touched(conjunctions: Conjunctions, plan: SpacePlan) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(area, conjunction) for all areas that the regions of conjunctions touch."""
    rows = np.flatnonzero(conjunctions.anchor_region >= 0)
    boxes, which = boxes_of(conjunctions.regions, conjunctions.anchor_region[rows])
    return plan.areas_of(boxes, rows[which])


def share_by_area(
    conjunctions: Conjunctions,
    plan: SpacePlan,
    text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]],
    was_shared: NDArray[np.uint8] | None = None,
) -> Iterator[Share]:
    """The share of every worker that gets anything. Conjunctions of one owner must stand together.

    `was_shared` is given where owners may have conjunctions with other workers that are not told here: whether several
    workers could find each owner before. Those stay, and whoever is in company now joins them.
    """
    placed = _placed(conjunctions, plan, text_of)
    is_shared = _found_twice(conjunctions, placed, was_shared)
    for number in np.unique(placed.worker).tolist():
        part = conjunctions.select(distinct(placed.row[placed.worker == number])).compacted()
        owners, local = np.unique(part.owner, return_inverse=True)
        mine = replace(part, owner=local.astype(np.uint32))
        needed = (None, _NONE, phrase_words(part), _NONE)
        areas = AreaLeads.of(part, plan)
        yield Share(number, mine, owners.astype(np.int64), *needed, is_shared[owners], areas)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Conjunction and worker, side by side, and whether a post that leads there may go to other workers too."""

    row: NDArray[np.int64]
    worker: NDArray[np.int64]
    in_company: NDArray[np.bool_]


def _placed(
    conjunctions: Conjunctions, plan: SpacePlan, text_of: Callable[[NDArray[np.uint32]], Sequence[bytes]]
) -> _Placed:
    leads = lead_terms(conjunctions)
    used = np.unique(leads[leads > 0])
    column = np.where(leads > 0, np.searchsorted(used, leads) + 1, 0)
    row_of, workers = plan.workers_of(text_of(used))
    area, row = touched(conjunctions, plan)
    free = np.flatnonzero(conjunctions.anchor_region < 0)
    everywhere = workers[:, column[free]].ravel().astype(np.int64)
    is_shared = np.array([one.is_shared for one in plan.areas])
    rows = np.concatenate([row, np.tile(free, len(workers))])
    owner = np.concatenate([workers[row_of[area], column[row]].astype(np.int64), everywhere])
    in_company = np.concatenate([is_shared[area], np.ones(len(everywhere), bool)])
    return _Placed(rows, owner, in_company)


def _found_twice(
    conjunctions: Conjunctions, placed: _Placed, was_shared: NDArray[np.uint8] | None
) -> NDArray[np.uint8]:
    """1 for each owner that lies with several workers and in an area whose posts go to several."""
    count = int(conjunctions.owner.max()) + 1 if len(conjunctions) else 0
    owner = conjunctions.owner[placed.row].astype(np.int64)
    exposed = np.bincount(owner[placed.in_company], minlength=count) > 0
    if was_shared is not None:
        return was_shared | exposed.astype(np.uint8)
    pairs = distinct(owner << 16 | placed.worker)
    several = np.bincount(pairs >> 16, minlength=count) > 1
    return (several & exposed).astype(np.uint8)
