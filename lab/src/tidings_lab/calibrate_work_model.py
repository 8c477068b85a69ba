"""Measure the constants of the load model and the work model: `python -m tidings_lab.calibrate_work_model`.

Load model, in CPU time: c2 is the cost of a post without subscriptions near it, c1 the additional cost per
subscription, c3 the cost to compile a subscription into a delta segment, c4 the cost to find one to remove.
Work model: the constants that fit the times of all workers of several plans with the least relative error; an update
takes c3 + c4, without the fixed cost of a segment, which is the same under every plan. The result is stored in
`lab/results`; a test compares it with the defaults of the models.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.spatial_fit import build_workload
from tidings.balance.work_model import WorkModel, WorkSample
from tidings.index.builder import create_index, order_by_posts
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.decompile import decompile
from tidings.index.id_lookup import find_ids
from tidings.index.segment import build_segment
from tidings.matching.segment_matcher import SegmentMatcher
from tidings.plan.load_model import LoadModel
from tidings.query.conjunctions import Conjunctions
from tidings.text.analyzer import AnalyzedBatch
from tidings.text.term_statistics import TermStatistics
from tidings_lab import results
from tidings_lab.located_posts import GEO_TWEETS, as_located, load_located
from tidings_lab.progress import Report, print_line
from tidings_lab.results import Result
from tidings_lab.simulated_spatial_matchers import MeasuredRun, SimulatedSpatialCluster, measure_in_turns
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_REPEATS = 5
_BATCH = 5_000
_QUERY_SETS = ("Q1", "Q2", "Q3")
_PLANS = ("kdtree", "grid", "kdt", "metric")
_SUBSCRIPTIONS = (50_000, 200_000)
_SEED = 1
_FIT_ROUNDS = 20


def calibrate(tweets: pa.Table, subscriptions: int = 100_000, posts: int = 20_000, seed: int = 1) -> LoadModel:
    """Fit the load model on Q1 drawn from these tweets, with `subscriptions` and a tenth of them."""
    drawn = draw_subscriptions("Q1", subscriptions, Tweets.of(tweets), seed)
    with TemporaryDirectory() as folder:
        index, _ = create_index(Path(folder) / "index", drawn)
        live = index.open_shard(0)[0].segment
        received = index.analyzer().analyze(tweets.column("text").slice(0, posts).combine_chunks())
        where = np.column_stack([np.asarray(tweets.column(name).slice(0, posts)) for name in ("lon", "lat")])
        everything = decompile(live, np.zeros(0, np.uint8))
        few = everything.select(np.flatnonzero(everything.subscription < subscriptions // 10))
        times = [_post_ns(part, live.ids, index.manifest.terms, received, where) for part in (few, everything)]
        check_ns = max(0.0, (times[1] - times[0]) / (0.9 * subscriptions))
        insert_ns = _best_ns(lambda: build_segment(everything, live.ids)) / subscriptions
        delete_ns = _best_ns(lambda: find_ids(live.ids, live.ids, live.id_hash, live.id_row)) / subscriptions
    return LoadModel(check_ns, times[0] - check_ns * subscriptions / 10, insert_ns, delete_ns)


def calibrate_work(tweets: pa.Table, subscriptions: int, posts: int = 40_000, seed: int = 1) -> WorkCounts:
    """Count and time the work of the matchers of spatial plans and of a plan by terms, on all query sets."""
    known, unseen = tweets.slice(0, posts), tweets.slice(posts, posts)
    drawn_from, counted, times = Tweets.of(known), [], []
    for query_set in _QUERY_SETS:
        drawn = draw_subscriptions(query_set, subscriptions, drawn_from, seed)
        with TemporaryDirectory() as folder:
            clusters = [SimulatedSpatialCluster.learn(Path(folder) / n, drawn, n, 8, as_located(known)) for n in _PLANS]
            sample = WorkSample.build(build_workload(*_compile(drawn, known), as_located(unseen)))
            runs = [MeasuredRun(cluster, cluster.analyze(unseen)) for cluster in clusters]
            for cluster, work in zip(clusters, measure_in_turns(runs, _REPEATS), strict=True):
                counted.append(sample.count_operations(cluster.plan)[:3])
                times.append(work.matching.min(axis=0).sum(axis=0))
    return WorkCounts(np.concatenate(counted, axis=1), 1e9 * np.concatenate(times))


def _compile(subscriptions: pa.Table, posts: pa.Table) -> tuple[Sequence[bytes], Conjunctions]:
    """Return the terms and the conjunctions of subscriptions, with the anchors that an index learns from posts."""
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscriptions, vocabulary)
    terms = vocabulary.added.terms()
    statistics = TermStatistics.of(as_located(posts)[0])
    return terms, order_by_posts(compiled.conjunctions, terms, statistics)[0]


@dataclass(frozen=True, slots=True)
class WorkCounts:
    """Posts, lookups and hits of some matchers, and the nanoseconds that matching took."""

    counts: NDArray[np.float64]
    matching: NDArray[np.float64]

    @classmethod
    def concatenate(cls, parts: Sequence[WorkCounts]) -> WorkCounts:
        return cls(*(np.concatenate(values, axis=-1) for values in zip(*map(astuple, parts), strict=True)))

    def fit(self, update_ns: float) -> WorkModel:
        post_ns, term_ns, hit_ns = fit_ns(self.counts, self.matching)
        return WorkModel(post_ns, term_ns, hit_ns, update_ns)

    def median_error(self, model: WorkModel) -> float:
        """Return the median relative error of the predicted times of a matcher."""
        costs = np.array([model.post_ns, model.term_ns, model.hit_ns])
        return float(np.median(np.abs(costs @ self.counts / self.matching - 1)))


def fit_ns(counts: NDArray[np.float64], times: NDArray[np.float64]) -> list[float]:
    """Return the costs per count with the least sum of relative errors.

    Disturbed measurements are outliers, which count less than with least squares.
    """
    shares = (counts / times).T
    weights = np.ones(len(times))
    for _ in range(_FIT_ROUNDS):
        costs = np.linalg.lstsq(shares * weights[:, None], weights, rcond=None)[0]
        weights = 1 / np.sqrt(np.maximum(1e-3, np.abs(shares @ costs - 1)))
    return [max(0.0, float(cost)) for cost in costs]


def _post_ns(part: Conjunctions, ids: pa.Array, terms: int, received: AnalyzedBatch, where: np.ndarray) -> float:
    matcher = SegmentMatcher(build_segment(part, ids), terms)

    def run() -> None:
        for at in range(0, len(received), _BATCH):
            matcher.match(AnalyzedBatch(received.terms, received.bounds[at : at + _BATCH]), where[at : at + _BATCH])

    return _best_ns(run) / len(received)


def _best_ns(work: Callable[[], object]) -> float:
    """Return the nanoseconds of the fastest repetition."""
    taken = []
    for _ in range(_REPEATS):
        start = time.process_time_ns()
        work()
        taken.append(time.process_time_ns() - start)
    return float(min(taken))


def calibrate_all(tweets: pa.Table, report: Report = print_line) -> Result:
    """Fit both models; the result has the work model of every part of the data, to show how much the fit varies."""
    start, parameters = time.perf_counter(), {"subscriptions": list(_SUBSCRIPTIONS), "repetitions": _REPEATS}
    result = results.new_result("benchmark", "work-model", "full", "calibrate_work_model", _SEED, parameters)
    parts: dict[str, WorkCounts] = {}
    load_model = calibrate(tweets)
    update_ns = load_model.insert_ns + load_model.delete_ns
    for subscriptions in _SUBSCRIPTIONS:
        parts[f"{subscriptions}"] = calibrate_work(tweets, subscriptions, seed=_SEED)
        report(f"{subscriptions:,} subscriptions: {parts[f'{subscriptions}'].fit(update_ns)}")
    together = WorkCounts.concatenate(list(parts.values()))
    model = together.fit(update_ns)
    report(f"together: {model}, median error {together.median_error(model):.1%}")
    return result | {
        "seconds": round(time.perf_counter() - start, 1),
        "data": {"posts": len(tweets), "source": GEO_TWEETS},
        "measured": {
            "work_model": asdict(model),
            "median_error": together.median_error(model),
            "fits": {name: asdict(counts.fit(update_ns)) for name, counts in parts.items()},
            "load_model": load_model.to_dict(),
        },
    }


if __name__ == "__main__":
    print(results.save_result(calibrate_all(load_located(80_000, _SEED)), results.RESULTS))
