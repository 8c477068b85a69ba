"""Run the global rebalancing step: learn a plan from recent posts and prepare it if it pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidings.balance.rebalance.global_policy import GlobalSettings
from tidings.balance.rebalance.plan_judge import PlanGain, compare_plans, split_sample
from tidings.balance.spatial_fit import PostSample, build_workload
from tidings.balance.spec import SampleSource
from tidings.index.builder import FitPlan, UnpublishedVersion, live_conjunctions
from tidings.index.dual_plan import prepare_dual_plan
from tidings.index.plan_files import cached_spatial_plan
from tidings.index.reader import Index
from tidings.plan.space import SpatialPlan


@dataclass(frozen=True, slots=True)
class PlanEvaluation:
    """What held-out posts say about a new plan that was learned from `posts`; a version if the new plan pays."""

    posts: int
    judged: PlanGain
    prepared: UnpublishedVersion | None

    def __str__(self) -> str:
        gain, error = self.judged.gain, self.judged.error
        return f"with a plan learned from recent posts, the busiest matcher has {gain:.0%} ± {error:.0%} less load"


def evaluate_new_plan(
    index: Index, refit: Callable[[SampleSource], FitPlan], recent: PostSample, settings: GlobalSettings
) -> PlanEvaluation | None:
    """Learn a plan from some of the recent posts and judge it by the others. None without subscriptions."""
    assert index.manifest.plan is not None
    conjunctions, terms = live_conjunctions(index), index.vocabulary.terms()
    if conjunctions is None:
        return None
    learned, held_out = split_sample(recent)
    old = cached_spatial_plan(index.folder / index.manifest.plan.spatial_file)
    new = refit(lambda: learned)(terms, conjunctions)
    assert isinstance(new, SpatialPlan)
    judged = compare_plans(build_workload(terms, conjunctions, held_out), old, new)
    is_worth_it = judged.is_confirmed(settings.min_gain)
    return PlanEvaluation(len(learned[0]), judged, prepare_dual_plan(index, new) if is_worth_it else None)
