"""Learn which matchers are responsible for the terms of posts without a position.

Such posts match only subscriptions without a region, and these are held by all matchers that are responsible for their
anchor in any area. As in `salb+`, terms are assigned in descending order of load, to the matcher with the least extra
work, where exceeding the mean load counts as extra work. A matcher that holds the subscriptions already needs no
further copy of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.balance.work_model import WorkSample
from tidings.plan.load_model import WorkModel
from tidings.plan.space import Area, SpatialPlan

_OVERLOAD_WEIGHT = 4.0  # as in `salb+`


class _TermLoads(NamedTuple):
    """Anchors of subscriptions without a region: their posts without a position, their work there, and a copy's."""

    terms: NDArray[np.int64]
    posts: list[NDArray[np.int64]]
    frequency: NDArray[np.int64]
    work: NDArray[np.float64]
    copy: NDArray[np.float64]


def learn_unlocated_area(sample: WorkSample, plan: SpatialPlan, model: WorkModel) -> Area:
    """Return the last area of a plan. Until then, the plan may have any area in its place."""
    is_holder, loads = _find_holders(sample, plan), _measure_loads(sample, model)
    base = _estimate_located_ns(sample, plan, model)
    chosen = _assign_terms(loads, is_holder, base, len(sample.workload.positions), model)
    is_needed = (loads.frequency > 0) | ~is_holder[:, loads.terms].all(axis=0)  # others can be hashed
    texts, pairs = sample.workload.terms, zip(loads.terms[is_needed].tolist(), chosen[is_needed].tolist(), strict=True)
    return Area(tuple(range(plan.matchers)), {texts[term - 1]: matcher for term, matcher in pairs})


def _find_holders(sample: WorkSample, plan: SpatialPlan) -> NDArray[np.bool_]:
    """Return by matcher and term whether the matcher is responsible for the term in any area with positions."""
    row_of, matchers = plan.matchers_of(sample.workload.terms)
    rows = np.unique(row_of[np.unique(plan.area_of_cell)])
    is_holder = np.zeros((plan.matchers, len(sample.workload.terms) + 1), bool)
    columns = np.arange(is_holder.shape[1])
    for row in rows.tolist():
        is_holder[matchers[row], columns] = True
    return is_holder


def _estimate_located_ns(sample: WorkSample, plan: SpatialPlan, model: WorkModel) -> NDArray[np.float64]:
    """Return the time of each matcher without the posts that have no position."""
    work = sample.workload
    located = sample.select_posts(work.located)
    if not len(work.located):
        return np.zeros(plan.matchers)
    posts, lookups, hits, held = located.count_operations(plan)
    return model.load(posts, lookups, hits, held * work.updates_per_row)


def _measure_loads(sample: WorkSample, model: WorkModel) -> _TermLoads:
    work = sample.workload
    anchors = work.anchors[work.regionless].astype(np.int64)
    terms = np.unique(anchors[anchors > 0])
    is_used = np.zeros(len(work.terms) + 1, bool)
    is_used[terms] = True
    is_unlocated = np.ones(len(work.positions), bool)
    is_unlocated[work.located] = False
    pairs = np.flatnonzero(is_used[sample.term] & is_unlocated[sample.post])
    pairs = pairs[np.argsort(sample.term[pairs], kind="stable")]
    ends = np.searchsorted(sample.term[pairs], terms, side="right")
    posts = np.split(sample.post[pairs], ends[:-1]) if len(terms) else []
    size = len(work.terms) + 1
    lookups = np.bincount(sample.term[pairs], minlength=size).astype(np.float64)[terms]
    hits = np.bincount(sample.term[pairs], sample.hits[pairs], size).astype(np.float64)[terms]
    held = np.bincount(anchors, minlength=size).astype(np.float64)[terms]
    nothing = np.zeros(len(terms))
    matching = model.load(nothing, lookups, hits, nothing)
    updating = model.load(nothing, nothing, nothing, np.asarray(held * work.updates_per_row))
    return _TermLoads(terms, posts, np.array([len(rows) for rows in posts], np.int64), matching, updating)


def _assign_terms(
    loads: _TermLoads, is_holder: NDArray[np.bool_], base: NDArray[np.float64], posts: int, model: WorkModel
) -> NDArray[np.int64]:
    """Return the matcher of each term; without posts the first that holds it."""
    total, matchers = base.copy(), len(base)
    routed_to = np.zeros((posts, matchers), bool)
    chosen: NDArray[np.int64] = np.argmax(is_holder[:, loads.terms], axis=0).astype(np.int64)
    own = model.post_ns * loads.frequency + loads.work
    for number in np.argsort(-own, kind="stable")[: np.count_nonzero(loads.frequency)].tolist():
        rows, term = loads.posts[number], int(loads.terms[number])
        extra = model.post_ns * (len(rows) - routed_to[rows].sum(axis=0)) + loads.copy[number] * ~is_holder[:, term]
        after = total + extra + loads.work[number]
        mean = max(1e-9, float(total.sum() + loads.work[number]) / matchers)
        excess = np.maximum(0.0, after - mean) / mean
        cost = extra + _OVERLOAD_WEIGHT * (own[number] + loads.copy[number]) * excess
        matcher = int(np.lexsort((total, cost))[0])
        chosen[number], total[matcher] = matcher, after[matcher]
        routed_to[rows, matcher] = True
    return chosen
