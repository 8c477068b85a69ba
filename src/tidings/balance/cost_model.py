"""What a plan would cost: the load of each worker, by definition 1, for a sample of posts and subscriptions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.balance.workload import Workload
from tidings.plan.grid_overlap import covered, rectangles
from tidings.plan.space import SpacePlan
from tidings.ragged import distinct, take_rows

Counts = NDArray[np.int64]


def loads_of(plan: SpacePlan, workload: Workload) -> NDArray[np.float64]:
    """The load of every worker."""
    posts, held = sent_and_held(plan, workload)
    return np.array([plan.model.load(o, q) for o, q in zip(posts.tolist(), held.tolist(), strict=True)])


def sent_and_held(plan: SpacePlan, workload: Workload) -> tuple[Counts, Counts]:
    """(how many posts each worker is sent, how many conjunctions it holds)."""
    post, word = said(workload)
    found = led(plan, workload, post, word)
    return np.bincount(found.copies(post) & 0xFFFF, minlength=plan.workers), found.held


@dataclass(frozen=True, slots=True)
class Led:
    """Which of the words that posts say lead to something in their area, to which worker each, and what each holds."""

    leads: NDArray[np.intp]
    owner: Counts
    held: Counts
    asked: Counts  # worker << 32 | anchor of all that is held, ascending

    def copies(self, post: Counts) -> Counts:
        """post << 16 | worker of all posts that are sent; `post` tells whose each word is."""
        return distinct(post[self.leads] << 16 | self.owner)


def led(plan: SpacePlan, workload: Workload, post: Counts, word: Counts) -> Led:
    """Where a plan leads located posts by words that they say."""
    row_of, workers = plan.workers_of(workload.terms)
    area, row = plan.areas_of(workload.boxes, np.arange(len(workload.anchors)))
    anchors = workload.anchors[row].astype(np.int64)
    holder = workers[row_of[area], anchors].astype(np.int64)
    held = distinct(row << 16 | holder) & 0xFFFF
    here = _post_areas(plan, workload)[post]
    leads = np.flatnonzero(is_among(here << 32 | word, distinct(area << 32 | anchors)))
    owner = workers[row_of[here[leads]], word[leads]].astype(np.int64)
    return Led(leads, owner, np.bincount(held, minlength=plan.workers), distinct(holder << 32 | anchors))


def said(workload: Workload) -> tuple[Counts, Counts]:
    """(place among the located posts, word) of all words they say, each once; each says 0, no word, too."""
    posts = workload.located
    bounds = workload.received.bounds[posts].astype(np.int64)
    words, starts = take_rows(workload.received.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    post = np.repeat(np.arange(len(posts)), np.diff(starts).astype(np.int64))
    pairs = distinct(np.concatenate([post << 32 | words, np.arange(len(posts)) << 32]))
    return pairs >> 32, pairs & 0xFFFFFFFF


def _post_areas(plan: SpacePlan, workload: Workload) -> Counts:
    """The area of each located post."""
    lon, lat = workload.positions[workload.located].T
    cells = plan.lines.row(lat) * plan.lines.columns + plan.lines.column(lon)
    return np.asarray(plan.area_of_cell[cells].astype(np.int64))


def is_among(wanted: Counts, keys: Counts) -> NDArray[np.bool_]:
    """Whether each is one of these keys, which are ascending."""
    if not len(keys):
        return np.zeros(len(wanted), bool)
    return np.asarray(keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted)


def cell_products(plan: SpacePlan, workload: Workload) -> NDArray[np.float64]:
    """Of each cell the posts in it times the conjunctions that touch it: its load by definition 3."""
    count = len(plan.area_of_cell)
    lon, lat = workload.positions[workload.located].T
    posts = np.bincount(plan.lines.row(lat) * plan.lines.columns + plan.lines.column(lon), minlength=count)
    touched = rectangles(plan.lines, workload.boxes)
    asked = covered(touched, plan.lines.columns, plan.lines.rows)
    return posts.astype(np.float64) * asked.astype(np.float64)
