"""`tidings plan learn` and `tidings plan show` for word plans."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.cli.plan_space import SampleSpec
from tidings.cli.progress import Progress
from tidings.cli.values import require_file
from tidings.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

    from tidings.balance.plan_evaluation import PlanEvaluation
    from tidings.balance.spatial_fit import PostSample
    from tidings.plan.space import SpatialPlan
    from tidings.plan.words import LearnedPlan

_ROUNDED = ("spread", "imbalance", "cov", "gini", "throughput")


def learn_word_plan(
    algorithm: str, matchers: int, split: bool, spec: SampleSpec, progress: Progress
) -> tuple[LearnedPlan, dict[str, Any]]:
    """Return the plan and its summary. With subscriptions it is the plan that `match` and `run` would learn."""
    from tidings.balance.salb_work_aware import fit_texts
    from tidings.index.builder import compile_for_plan
    from tidings.plan.words import LearnedPlan
    from tidings.text.term_statistics import TermStatistics

    table, posts = read_subscription_table(spec), read_posts(spec, progress)
    progress.note(f"learning from {len(posts[0]):,} posts", None)
    start = time.perf_counter()
    terms, conjunctions = None, None
    if table is not None:
        terms, conjunctions = compile_for_plan(table, lambda: TermStatistics.of(posts[0]))
    plan = fit_texts(algorithm, posts[0], terms, conjunctions, matchers, split, spec.seed)
    seconds = round(time.perf_counter() - start, 3)
    assert isinstance(plan, LearnedPlan)
    if not len(plan.vocabulary):
        raise InputError(f"{spec.posts}: no post has a usable term, so there is nothing to learn.")
    return plan, {**describe_word_plan(plan), **_measure(plan, table, posts, progress), "seconds": seconds}


def measure_word_plan_on(plan: LearnedPlan, spec: SampleSpec, progress: Progress) -> dict[str, Any]:
    """Return how a plan distributes posts."""
    return _measure(plan, read_subscription_table(spec), read_posts(spec, progress), progress)


def describe_word_plan(plan: LearnedPlan) -> dict[str, Any]:
    """Return what the plan itself contains."""
    return {
        "algorithm": plan.algorithm,
        "matchers": plan.matchers,
        "terms": len(plan.vocabulary),
        "split_terms": int((plan.splits.counts > 1).sum()),
        "learned_from": plan.posts,
    }


def read_subscription_table(spec: SampleSpec) -> pa.Table | None:
    from tidings.ingest.subscription_files import read_subscriptions

    if spec.subscriptions is None:
        return None
    require_file(spec.subscriptions, "--subscriptions")
    return read_subscriptions(spec.subscriptions).table


def read_posts(spec: SampleSpec, progress: Progress) -> PostSample:
    """Return a random sample of the posts."""
    from tidings.ingest.post_files import find_post_files

    post_files = find_post_files(spec.posts)
    progress.note("starting Spark", None)
    from tidings.batch.match_files import sample_posts

    posts = sample_posts(post_files, spec.sample, spec.seed, Path(spec.posts), progress.note)
    progress.note(f"analyzing {len(posts[0]):,} posts", None)
    return posts


def predict_work(plan: LearnedPlan | SpatialPlan, table: pa.Table, posts: PostSample) -> dict[str, Any]:
    """Route posts with an index of the subscriptions; return what each matcher holds and does, and its time."""
    from tidings.balance.plan_evaluation import evaluate_plan

    return summarize_work(evaluate_plan(plan, table, posts))


def summarize_work(found: PlanEvaluation) -> dict[str, Any]:
    metrics, seconds = found.metrics(), found.predict_seconds()
    busiest = max(1e-12, float(seconds.max(initial=0.0)))
    return {
        "posts": metrics.posts,
        **{name: round(getattr(metrics, name), 4) for name in _ROUNDED},
        "time_imbalance": round(busiest * len(seconds) / max(1e-12, float(seconds.sum())), 4),
        "predicted_posts_per_second": round(found.posts / busiest),
        "loads": found.received.tolist(),
        "subscriptions": found.subscriptions.tolist(),
        "matches": found.matches.tolist(),
        "predicted_ms": [round(1000 * value, 3) for value in seconds.tolist()],
    }


def _measure(plan: LearnedPlan, table: pa.Table | None, posts: PostSample, progress: Progress) -> dict[str, Any]:
    """Without subscriptions, every term of a post routes it."""
    from tidings.balance.corpus import Corpus
    from tidings.balance.word_plan_metrics import measure_word_plan

    if table is not None:
        progress.note(f"routing and matching {len(posts[0]):,} posts", None)
        return predict_work(plan, table, posts)
    corpus = Corpus.from_texts(posts[0])
    if not corpus.terms:
        raise InputError("--posts: no post has a usable term, so there is nothing to measure.")
    measured = measure_word_plan(corpus, plan.splits_of(corpus.terms), plan.matchers)
    rounded = {name: round(getattr(measured, name), 4) for name in _ROUNDED}
    return {"posts": measured.posts, **rounded, "loads": list(measured.loads)}
