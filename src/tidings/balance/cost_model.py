"""What each matcher receives and holds under a spatial plan, for a sample of posts and subscriptions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.balance.workload import Workload
from tidings.plan.grid_overlap import cell_ranges, count_covering
from tidings.plan.space import SpatialPlan
from tidings.ragged import sorted_unique, take_rows

Counts = NDArray[np.int64]


def count_posts_and_conjunctions(plan: SpatialPlan, workload: Workload) -> tuple[Counts, Counts]:
    """Return for each matcher the number of posts it receives and of conjunctions it holds."""
    post, term = list_post_terms(workload)
    routed = route_terms(plan, workload, post, term)
    return np.bincount(routed.copies(post) & 0xFFFF, minlength=plan.matchers), routed.conjunctions


@dataclass(frozen=True, slots=True)
class RoutedTerms:
    """The (post, term) pairs whose term is an anchor in the area of the post, and what each matcher holds."""

    pairs: NDArray[np.intp]  # their rows among all (post, term) pairs
    matcher: Counts  # of each of them
    conjunctions: Counts  # held by each matcher
    held_anchors: Counts  # matcher << 32 | anchor of everything that is held, ascending

    def copies(self, post: Counts) -> Counts:
        """Return post << 16 | matcher of all posts that are sent; `post` is the post of each pair."""
        return sorted_unique(post[self.pairs] << 16 | self.matcher)


def route_terms(plan: SpatialPlan, workload: Workload, post: Counts, term: Counts) -> RoutedTerms:
    """Route posts by their terms, as the plan assigns them."""
    row_of, matchers = plan.matchers_of(workload.terms)
    area, row = plan.areas_of(workload.boxes, np.arange(len(workload.anchors)))
    free = workload.regionless
    area = np.concatenate([area, np.full(len(free), plan.unlocated_area)])
    row = np.concatenate([row, free])
    anchors = workload.anchors[row].astype(np.int64)
    holder = matchers[row_of[area], anchors].astype(np.int64)
    held = sorted_unique(row << 16 | holder) & 0xFFFF
    post_area = find_post_areas(plan, workload)[post]
    pairs = np.flatnonzero(is_in_sorted(post_area << 32 | term, sorted_unique(area << 32 | anchors)))
    matcher = matchers[row_of[post_area[pairs]], term[pairs]].astype(np.int64)
    held_anchors = sorted_unique(holder << 32 | anchors)
    return RoutedTerms(pairs, matcher, np.bincount(held, minlength=plan.matchers), held_anchors)


def list_post_terms(workload: Workload) -> tuple[Counts, Counts]:
    """Return the distinct (post, term) pairs in this order; every post also has term 0 ("no term")."""
    posts = np.arange(len(workload.positions))
    bounds = workload.analyzed.bounds.astype(np.int64)
    terms, starts = take_rows(workload.analyzed.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    post = np.repeat(posts, np.diff(starts).astype(np.int64))
    pairs = sorted_unique(np.concatenate([post << 32 | terms, posts << 32]))
    return pairs >> 32, pairs & 0xFFFFFFFF


def find_post_areas(plan: SpatialPlan, workload: Workload) -> Counts:
    """Return the area of each post."""
    located = workload.located
    lon, lat = workload.positions[located].T
    areas = np.full(len(workload.positions), plan.unlocated_area, np.int64)
    areas[located] = plan.area_of_cell[plan.lines.row(lat) * plan.lines.columns + plan.lines.column(lon)]
    return areas


def is_in_sorted(values: Counts, keys: Counts) -> NDArray[np.bool_]:
    """Return for each value whether it is among the ascending keys."""
    if not len(keys):
        return np.zeros(len(values), bool)
    return np.asarray(keys[np.minimum(np.searchsorted(keys, values), len(keys) - 1)] == values)


def compute_cell_products(plan: SpatialPlan, workload: Workload) -> NDArray[np.float64]:
    """Return the load of each cell by definition 3: its posts times the conjunctions that touch it."""
    lon, lat = workload.positions[workload.located].T
    cells = plan.lines.row(lat) * plan.lines.columns + plan.lines.column(lon)
    posts = np.bincount(cells, minlength=len(plan.area_of_cell))
    conjunctions = count_covering(cell_ranges(plan.lines, workload.boxes), plan.lines.columns, plan.lines.rows)
    return posts.astype(np.float64) * conjunctions.astype(np.float64)
