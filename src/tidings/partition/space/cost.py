"""What a plan would cost: the load of each worker, by definition 1, for a sample of posts and subscriptions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings.csr import distinct, take_rows
from tidings.partition.space.load import LoadModel
from tidings.partition.space.plan import SpacePlan
from tidings.partition.space.touch import covered, rectangles
from tidings.partition.space.workload import Workload

Counts = NDArray[np.int64]


def loads_of(plan: SpacePlan, workload: Workload, model: LoadModel | None = None) -> NDArray[np.float64]:
    """The load of every worker."""
    posts, held = sent_and_held(plan, workload)
    model = model or plan.model
    return np.array([model.load(o, q) for o, q in zip(posts.tolist(), held.tolist(), strict=True)])


def sent_and_held(plan: SpacePlan, workload: Workload) -> tuple[Counts, Counts]:
    """(how many posts each worker is sent, how many conjunctions it holds)."""
    row_of, workers = plan.workers_of(workload.terms)
    area, row = plan.areas_of(workload.boxes, np.arange(len(workload.anchors)))
    anchors = workload.anchors[row].astype(np.int64)
    owner = workers[row_of[area], anchors].astype(np.int64)
    held = distinct(row << 16 | owner) & 0xFFFF
    sent = _sent(plan, workload, distinct(area << 32 | anchors), row_of, workers)
    return np.bincount(sent, minlength=plan.workers), np.bincount(held, minlength=plan.workers)


def _sent(plan: SpacePlan, workload: Workload, keys: Counts, row_of: Counts, workers: NDArray[np.uint16]) -> Counts:
    """The worker of each sending of a post: for its words that lead to something in its area, and for no word."""
    posts = workload.located
    lon, lat = workload.positions[posts].T
    area = plan.area_of_cell[plan.lines.row(lat) * plan.lines.columns + plan.lines.column(lon)].astype(np.int64)
    bounds = workload.received.bounds[posts].astype(np.int64)
    words, starts = take_rows(workload.received.terms, bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    post = np.repeat(np.arange(len(posts)), np.diff(starts).astype(np.int64))
    post, words = np.concatenate([post, np.arange(len(posts))]), np.append(words, np.zeros(len(posts), words.dtype))
    wanted = area[post] << 32 | words.astype(np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    leads = np.flatnonzero(keys[place] == wanted) if len(keys) else np.zeros(0, np.intp)
    owner = workers[row_of[area[post[leads]]], words[leads]].astype(np.int64)
    return distinct(post[leads] << 16 | owner) & 0xFFFF


def cell_products(plan: SpacePlan, workload: Workload) -> NDArray[np.float64]:
    """Of each cell the posts in it times the conjunctions that touch it: its load by definition 3."""
    count = len(plan.area_of_cell)
    lon, lat = workload.positions[workload.located].T
    posts = np.bincount(plan.lines.row(lat) * plan.lines.columns + plan.lines.column(lon), minlength=count)
    touched = rectangles(plan.lines, workload.boxes)
    asked = covered(touched, plan.lines.columns, plan.lines.rows)
    return posts.astype(np.float64) * asked.astype(np.float64)
