"""Run the global rebalancing step: learn a plan from recent posts and prepare it if it pays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidings.balance.rebalance.global_policy import GlobalSettings, is_better
from tidings.balance.spatial_fit import PostSample, build_workload
from tidings.balance.work_model import WorkModel, WorkSample
from tidings.index.builder import FitPlan, UnpublishedVersion, live_conjunctions, prepare_dual_plan
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.plan.space import SpatialPlan


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """The load of the busiest matcher under the current and the new plan; a version if the new plan pays."""

    load: float
    new_load: float
    prepared: UnpublishedVersion | None

    def __str__(self) -> str:
        share = self.new_load / max(self.load, 1e-9)
        return f"with a plan learned from recent posts, the busiest matcher has {share:.0%} of its load"


def evaluate_new_plan(index: Index, fit: FitPlan, recent: PostSample, settings: GlobalSettings) -> PlanEvaluation:
    """Compare the busiest matchers of both plans: the slowest matcher limits the throughput."""
    assert index.manifest.plan is not None
    conjunctions, terms = live_conjunctions(index), index.vocabulary.terms()
    if conjunctions is None:
        return PlanEvaluation(0.0, 0.0, None)
    sample = WorkSample.build(build_workload(terms, conjunctions, recent))
    old, new = cached_spatial_plan(index.folder / index.manifest.plan.spatial_file), fit(terms, conjunctions)
    assert isinstance(new, SpatialPlan)
    load, new_load = (float(np.max(sample.estimate_ns(plan, WorkModel()))) for plan in (old, new))
    return PlanEvaluation(
        load, new_load, prepare_dual_plan(index, new) if is_better(load, new_load, settings) else None
    )


def count_by_plan(index: Index) -> tuple[int, int]:
    """Return the numbers of live subscriptions placed by the previous and by the current plan, copies included."""
    records = [record for shard in index.manifest.shards for record in shard]
    old = sum(record.subscriptions - record.removed_count for record in records if record.by_previous_plan)
    return old, sum(record.subscriptions - record.removed_count for record in records) - old


def estimate_old_bytes(index: Index) -> int:
    """Return the size of the live subscriptions placed by the previous plan, by their share of their segments."""
    records = [r for shard in index.manifest.shards for r in shard if r.by_previous_plan and r.subscriptions]
    live_share = {record.folder: 1 - record.removed_count / record.subscriptions for record in records}
    sizes = ((name.split("/")[0], record.size_bytes) for name, record in index.manifest.files.items())
    return round(sum(size * live_share.get(folder, 0.0) for folder, size in sizes))
