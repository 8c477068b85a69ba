"""Evaluate a plan as a job would use it: place subscriptions in an index, route posts with it, match them.

The time of each matcher is predicted from what it does, by the costs that the lab measured. So the prediction is the
same on every machine, however busy it is.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.spatial_fit import PostSample
from tidings.balance.word_plan_metrics import WordPlanMetrics
from tidings.index.builder import AnyPlan, create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.segment_matcher import SegmentMatcher
from tidings.plan.load_model import WorkModel
from tidings.routing.router import MatcherBatch
from tidings.routing.spatial_router import open_router
from tidings.text.analyzer import COMPANION, AnalyzedBatch
from tidings.text.term_statistics import TermStatistics

_BATCH_POSTS = 10_000
_DEFAULT_COSTS = WorkModel()


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """What each matcher holds and does for `posts` posts. `lookups` are anchors of its subscriptions in its posts."""

    posts: int
    subscriptions: NDArray[np.int64]
    received: NDArray[np.int64]
    lookups: NDArray[np.int64]
    matches: NDArray[np.int64]

    def metrics(self) -> WordPlanMetrics:
        """Return spread and balance, by the posts of each matcher."""
        return WordPlanMetrics(self.posts, tuple(self.received.tolist()))

    def predict_seconds(self, costs: WorkModel = _DEFAULT_COSTS) -> NDArray[np.float64]:
        """Return the processor time of each matcher."""
        amounts = (self.received, self.lookups, self.matches, np.zeros(len(self.received)))
        return costs.load(*(amount.astype(np.float64) for amount in amounts)) / 1e9


def evaluate_plan(
    plan: AnyPlan, subscriptions: pa.Table, posts: PostSample, placement: str = "anchor"
) -> PlanEvaluation:
    """Build an index of the subscriptions by this plan, in a temporary directory; route the posts and match them."""
    record = PlanRecord(plan.algorithm, plan.matchers, 0, placement)
    with tempfile.TemporaryDirectory(prefix="tidings-plan-") as folder:
        fit, count_terms = (lambda terms, conjunctions: plan), (lambda: TermStatistics.of(posts[0]))
        index, _ = create_index(Path(folder) / "index", subscriptions, record, fit, count_terms)
        return evaluate_index(index, posts)


def evaluate_index(index: Index, posts: PostSample) -> PlanEvaluation:
    """Route posts with an index and match them."""
    (texts, positions), router, analyzer = posts, open_router(index), index.analyzer()
    shards = [_Shard(index, number) for number in range(len(index.manifest.shards))]
    counts = np.zeros((3, len(shards)), np.int64)
    for at in range(0, len(texts), _BATCH_POSTS):
        analyzed = analyzer.analyze(texts.slice(at, _BATCH_POSTS))
        batch_positions = np.ascontiguousarray(positions[at : at + _BATCH_POSTS])
        for batch in router.route(analyzed, batch_positions).batches:
            counts[:, batch.matcher] += shards[batch.matcher].count(batch, batch_positions)
    held = np.array([shard.subscriptions for shard in shards], np.int64)
    return PlanEvaluation(len(texts), held, *counts)


class _Shard:
    """The matchers of a shard's segments, and which terms are anchors in them."""

    def __init__(self, index: Index, number: int) -> None:
        views, terms = index.open_shard(number), index.manifest.terms
        self.subscriptions = sum(len(view.segment) for view in views)
        self._matchers = [SegmentMatcher(view.segment, terms, view.removed) for view in views]
        self._is_anchor = np.zeros(terms + 1, bool)
        for view in views:
            self._is_anchor[view.segment.anchors] = True

    def count(self, batch: MatcherBatch, positions: NDArray[np.float64]) -> tuple[int, int, int]:
        """Return the posts, the lookups and the matches of a batch."""
        bounds = np.ascontiguousarray(np.column_stack([batch.starts[:-1], batch.starts[1:]]))
        analyzed, own = AnalyzedBatch(batch.terms, bounds), np.ascontiguousarray(positions[batch.posts])
        matches = sum(len(matcher.match(analyzed, own)) for matcher in self._matchers)
        looked_up = batch.terms[batch.terms < COMPANION]
        return len(batch.posts), int(self._is_anchor[looked_up].sum()), matches
