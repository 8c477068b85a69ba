"""What `tidings plan learn` and `plan show` do with plans of places and words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidings.cli.progress import Progress
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.balance.workload import Workload
    from tidings.plan.space import SpacePlan


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is to be looked at: posts, the subscriptions, how many posts, and by which seed they are drawn."""

    posts: str
    subscriptions: Path | None
    sample: int
    seed: int

    def workload(self, progress: Progress) -> Workload:
        """InputError where there is nothing to learn from or to measure."""
        from tidings.balance.spatial_fit import workload_of
        from tidings.index.compile import GrowingVocabulary, compile_subscriptions
        from tidings.ingest.post_files import find_posts
        from tidings.ingest.subscription_files import read_subscriptions

        if self.subscriptions is None:
            raise InputError("A plan of places is made for subscriptions; give them with --subscriptions SUBS.")
        if not self.subscriptions.exists():
            raise InputError(f"{self.subscriptions}: there is no such file.")
        found = find_posts(self.posts)
        progress.note("reading the subscriptions", None)
        vocabulary = GrowingVocabulary()
        compiled = compile_subscriptions(read_subscriptions(self.subscriptions).table, vocabulary)
        if not len(compiled.conjunctions):
            raise InputError(f"{self.subscriptions}: none of its subscriptions can be used.")
        progress.note("starting Spark", None)
        from tidings.batch.match_files import sample_files

        posts = sample_files(found, self.sample, self.seed, Path(self.posts), progress.note)
        if not len(posts[0]):
            raise InputError(f"{self.posts}: there are no posts to learn from or to measure.")
        progress.note(f"cleaning {len(posts[0]):,} posts", None)
        return workload_of(vocabulary.added.terms(), compiled.conjunctions, posts, self.seed)


def learn_space_plan(
    algorithm: str, matchers: int, drawn: Drawn, progress: Progress
) -> tuple[SpacePlan, dict[str, Any]]:
    """The plan, and what there is to say of it."""
    from tidings.balance.spatial_registry import fit_space

    workload = drawn.workload(progress)
    progress.note(f"learning from {len(workload.positions):,} posts and {len(workload.anchors):,} conjunctions", None)
    start = time.perf_counter()
    plan = fit_space(algorithm, workload, matchers)
    seconds = round(time.perf_counter() - start, 3)
    return plan, {**about(plan), **figures(plan, workload), "seconds": seconds}


def about(plan: SpacePlan) -> dict[str, Any]:
    """What a plan says of itself."""
    import numpy as np

    used = [plan.areas[number] for number in np.unique(plan.area_of_cell).tolist()]
    return {
        "algorithm": plan.algorithm,
        "matchers": plan.workers,
        "cells": len(plan.area_of_cell),
        "areas": len(used),
        "shared_areas": sum(area.is_shared for area in used),
        "words": sum(len(area.words) for area in used),
        "learned_from": plan.posts,
    }


def figures(plan: SpacePlan, workload: Workload) -> dict[str, Any]:
    """What the plan would do with these posts and subscriptions."""
    from tidings.balance.cost_model import loads_of, sent_and_held
    from tidings.balance.leaf_assignment import ratio

    sent, held = sent_and_held(plan, workload)
    loads = loads_of(plan, workload)
    posts = len(workload.positions)
    return {
        "posts": posts,
        "spread": round(float(sent.sum()) / max(1, posts), 4),
        "copies": round(float(held.sum()) / max(1, len(workload.anchors)), 4),
        "balance": round(ratio(loads), 4) if loads.min() > 0 else None,
        "throughput": round(posts / max(1, int(sent.max(initial=0))), 4),
        "loads": sent.tolist(),
        "held": held.tolist(),
    }


def draw_map(plan: SpacePlan, workload: Workload | None, out: Path) -> None:
    """Write the picture."""
    from tidings.balance.cost_model import cell_products, loads_of, sent_and_held
    from tidings.cli.plan_map import WorkerTold, plan_map

    if workload is None:
        picture = plan_map(plan)
    else:
        (sent, held), loads = sent_and_held(plan, workload), loads_of(plan, workload)
        rows = zip(sent.tolist(), held.tolist(), loads.tolist(), strict=True)
        picture = plan_map(plan, [WorkerTold(*row) for row in rows], cell_products(plan, workload))
    try:
        out.write_text(picture, "utf-8")
    except OSError as error:
        raise OutputError(f"{out}: it could not be written ({error.strerror or error}).") from error
