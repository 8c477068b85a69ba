"""Measure the constants of the load model and the work model: `python -m tidings_lab.calibrate_work_model TWEETS`.

Load model, in CPU time: c2 is the cost of a post without subscriptions near it, c1 the additional cost per
subscription, c3 the cost to compile a subscription into a delta segment, c4 the cost to find one to remove.
Work model: the constants that fit the times of all workers of several plans with the least relative error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidings.balance.spatial_fit import build_workload
from tidings.balance.work_model import WorkModel, WorkSample
from tidings.index.builder import create_index
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.decompile import decompile
from tidings.index.id_lookup import find_ids
from tidings.index.segment import build_segment
from tidings.matching.segment_matcher import SegmentMatcher
from tidings.plan.load_model import LoadModel
from tidings.query.conjunctions import Conjunctions
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.located_posts import as_located
from tidings_lab.simulated_spatial_matchers import MeasuredRun, SimulatedSpatialCluster, measure_in_turns, renumber
from tidings_lab.spatial_workload import QUERY_SETS, Tweets, draw_subscriptions

_REPEATS = 5
_BATCH = 5_000
_PLANS = ("kdtree", "grid", "kdt", "metric")


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


def calibrate_work(tweets: pa.Table, subscriptions: int = 100_000, posts: int = 40_000, seed: int = 1) -> WorkModel:
    """Fit the work model on workers of spatial plans and of a plan by terms, on all query sets."""
    known, unseen = tweets.slice(0, posts), tweets.slice(posts, posts)
    drawn_from, counted, times = Tweets.of(known), [], []
    for query_set in QUERY_SETS:
        drawn = draw_subscriptions(query_set, subscriptions, drawn_from, seed)
        new = renumber(draw_subscriptions(query_set, posts // 10, drawn_from, seed + 1), subscriptions)
        vocabulary = GrowingVocabulary()
        compiled = compile_subscriptions(drawn, vocabulary)
        sample = WorkSample.build(build_workload(vocabulary.added.terms(), compiled.conjunctions, as_located(unseen)))
        with TemporaryDirectory() as folder:
            clusters = [SimulatedSpatialCluster.learn(Path(folder) / n, drawn, n, 8, as_located(known)) for n in _PLANS]
            runs = [MeasuredRun(cluster, cluster.analyze(unseen), new) for cluster in clusters]
            for cluster, work in zip(clusters, measure_in_turns(runs, _REPEATS), strict=True):
                counted.append(
                    sample.count_operations(cluster.plan) * [[1], [1], [1], [posts / 10 / len(sample.workload.anchors)]]
                )
                times.append([work.matching.min(axis=0), work.updating.min(axis=0)])
    counts, (matching, updating) = np.concatenate(counted, axis=1), np.concatenate(times, axis=1)
    return WorkModel(*_fit_ns(counts[:3], matching), *_fit_ns(counts[3:], updating))


def _fit_ns(counts: np.ndarray, seconds: np.ndarray) -> list[float]:
    """Return the nanoseconds per count that fit the times with the least relative error."""
    solution = np.linalg.lstsq((counts / seconds).T, np.ones(len(seconds)), rcond=None)[0]
    return [float(1e9 * value) for value in solution]


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


if __name__ == "__main__":
    table = pq.read_table(sys.argv[1], columns=["text", "lat", "lon"])
    shuffled = table.take(pa.array(np.random.default_rng(1).permutation(len(table))[:100_000]))
    print(json.dumps({"load": calibrate(table).to_dict(), "work": asdict(calibrate_work(shuffled))}))
