"""`tidings plan learn` and `tidings plan show` for spatial plans."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.progress import Progress
from tidings.cli.values import require_file
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.balance.kdt_hybrid import HybridSettings
    from tidings.balance.workload import Workload
    from tidings.plan.space import SpatialPlan


_TREE_ALGORITHMS = ("hybrid", "kdt")


def _tree_option(name: str, text: str) -> Any:
    return typer.Option(f"--{name}", metavar="X", help=text, show_default=False)


SigmaOption = Annotated[
    float | None, _tree_option("sigma", "Maximum ratio of the largest to the smallest load (kdt-tree, default 1.2).")
]
DeltaOption = Annotated[
    float | None,
    _tree_option("delta", "Similarity below which areas are split by terms only (kdt-tree, default 0.6)."),
]
EpsilonOption = Annotated[
    float | None, _tree_option("epsilon", "Differences of similarity that do not count (kdt-tree, default 0.02).")
]
ThetaOption = Annotated[
    int | None, _tree_option("theta", "Maximum number of areas per matcher (kdt-tree, default 16).")
]


def parse_tree_settings(algorithm: str, given: Mapping[str, float | None]) -> HybridSettings:
    """Return the settings of algorithm 1. Raises InputError if one is out of range or `algorithm` does not use them."""
    from tidings.balance.kdt_hybrid import HybridSettings

    set_options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if set_options and algorithm not in _TREE_ALGORITHMS:
        name = next(iter(set_options))
        raise InputError(f"--{name}: {algorithm} has no such parameter. Use it with {' or '.join(_TREE_ALGORITHMS)}.")
    try:
        return HybridSettings(**set_options)
    except InputError as error:
        raise InputError(f"--{error}") from error


@dataclass(frozen=True, slots=True)
class SampleSpec:
    """Which posts to sample and which subscriptions to use."""

    posts: str
    subscriptions: Path | None
    sample: int
    seed: int

    def read_workload(self, progress: Progress) -> Workload:
        """Read posts and subscriptions. Raises InputError if one of them is empty."""
        from tidings.balance.spatial_fit import build_workload
        from tidings.index.builder import order_by_posts
        from tidings.index.compile import GrowingVocabulary, compile_subscriptions
        from tidings.ingest.post_files import find_post_files
        from tidings.ingest.subscription_files import read_subscriptions
        from tidings.text.term_statistics import TermStatistics

        if self.subscriptions is None:
            raise InputError("A spatial plan needs subscriptions. Give them with --subscriptions SUBS.")
        require_file(self.subscriptions, "--subscriptions")
        post_files = find_post_files(self.posts)
        progress.note("reading the subscriptions", None)
        vocabulary = GrowingVocabulary()
        compiled = compile_subscriptions(read_subscriptions(self.subscriptions).table, vocabulary)
        if not len(compiled.conjunctions):
            raise InputError(f"{self.subscriptions}: all subscriptions are rejected.")
        progress.note("starting Spark", None)
        from tidings.batch.match_files import sample_posts

        posts = sample_posts(post_files, self.sample, self.seed, Path(self.posts), progress.note)
        if not len(posts[0]):
            raise InputError(f"{self.posts}: no posts.")
        progress.note(f"analyzing {len(posts[0]):,} posts", None)
        terms = vocabulary.added.terms()
        conjunctions, *_ = order_by_posts(compiled.conjunctions, terms, TermStatistics.of(posts[0]))
        return build_workload(terms, conjunctions, posts, self.seed)


def learn_spatial_plan(
    algorithm: str, matchers: int, sample: SampleSpec, settings: HybridSettings, progress: Progress
) -> tuple[SpatialPlan, dict[str, Any]]:
    """Learn a plan; return it with its summary."""
    from tidings.balance.spatial_registry import fit_spatial_plan

    workload = sample.read_workload(progress)
    progress.note(f"learning from {len(workload.positions):,} posts and {len(workload.anchors):,} conjunctions", None)
    start = time.perf_counter()
    plan = fit_spatial_plan(algorithm, workload, matchers, settings=settings)
    seconds = round(time.perf_counter() - start, 3)
    return plan, {**describe_spatial_plan(plan), **measure_spatial_plan(plan, workload), "seconds": seconds}


def describe_spatial_plan(plan: SpatialPlan) -> dict[str, Any]:
    """Return what the plan itself contains."""
    import numpy as np

    areas = [plan.areas[number] for number in np.unique(plan.area_of_cell).tolist()]
    return {
        "algorithm": plan.algorithm,
        "tree": plan.tree,
        **plan.parameters,
        "matchers": plan.matchers,
        "cells": len(plan.area_of_cell),
        "areas": len(areas),
        "shared_areas": sum(area.is_shared for area in areas),
        "terms": sum(len(area.matcher_of_term) for area in areas),
        "learned_from": plan.posts,
    }


def measure_spatial_plan(plan: SpatialPlan, workload: Workload) -> dict[str, Any]:
    """Return how the plan distributes these posts and subscriptions, and the predicted time of each matcher."""
    import numpy as np

    from tidings.balance.leaf_assignment import load_ratio
    from tidings.balance.work_model import WorkSample

    sample = WorkSample.build(workload)
    sent, _, _, held = sample.count_operations(plan)
    times_ns = sample.estimate_ns(plan, plan.model)
    posts = len(workload.positions)
    return {
        "posts": posts,
        "spread": round(float(sent.sum()) / max(1, posts), 4),
        "copies": round(float(held.sum()) / max(1, len(workload.anchors)), 4),
        "balance": round(load_ratio(times_ns), 4) if times_ns.min() > 0 else None,
        "throughput": round(posts / max(1, int(sent.max(initial=0))), 4),
        "predicted_posts_per_second": round(1e9 * posts / max(1.0, float(times_ns.max()))),
        "loads": sent.astype(int).tolist(),
        "held": np.rint(held * workload.scale).astype(int).tolist(),
        "predicted_ms": np.round(times_ns / 1e6, 3).tolist(),
    }


def draw_map(plan: SpatialPlan, workload: Workload | None, out: Path) -> None:
    """Write the plan as SVG. Raises OutputError."""
    from tidings.balance.cost_model import compute_cell_products
    from tidings.balance.work_model import WorkSample
    from tidings.cli.plan_map import MatcherStats, draw_plan

    if workload is None:
        svg = draw_plan(plan)
    else:
        sample = WorkSample.build(workload)
        sent, _, _, held = sample.count_operations(plan)
        rows = zip(sent.tolist(), held.tolist(), sample.estimate_ns(plan, plan.model).tolist(), strict=True)
        stats = [MatcherStats(int(posts), int(subscriptions), load) for posts, subscriptions, load in rows]
        svg = draw_plan(plan, stats, compute_cell_products(plan, workload))
    try:
        out.write_text(svg, "utf-8")
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error}).") from error
