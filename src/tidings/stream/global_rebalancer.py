"""The global rebalancing step of a running stream (PS²Stream, section V-B).

It keeps a sample of recent posts and the time of the last evaluation in the work directory, so that a restart neither
delays nor repeats an evaluation.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from tidings.atomic_io import write_atomically
from tidings.balance.post_reservoir import PostReservoir
from tidings.balance.rebalance.global_policy import (
    EvaluatePlan,
    GlobalState,
    GlobalStep,
    next_step,
)
from tidings.balance.rebalance.global_step import evaluate_new_plan
from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import PlanSpec
from tidings.index.builder import UnpublishedVersion
from tidings.index.dual_plan import count_by_plan, prepare_slice
from tidings.index.reader import Index
from tidings.log import Event

LOG = logging.getLogger("tidings.stream")
STATE_FILE, SAMPLE_FILE = "rebalance.json", "recent-posts.parquet"
_SAVE_INTERVAL_S = 300.0


@dataclass(frozen=True, slots=True)
class StepResult:
    """What the next version changes: why, and the bytes of subscriptions that move. No version: nothing changes."""

    prepared: UnpublishedVersion | None = None
    reason: str = ""
    size_bytes: int = 0
    details: dict[str, object] = field(default_factory=dict)  # for the status


PrepareStep = Callable[[Index], StepResult]


class GlobalRebalancer:
    """Decides when to evaluate a new plan, and when the previous one ends."""

    def __init__(
        self, spec: PlanSpec, options: RebalanceOptions, state_dir: Path | None, clock: Callable[[], float]
    ) -> None:
        """`state_dir` None keeps the sample and the time in memory only."""
        self._spec, self._clock = spec, clock
        every = float("inf") if options.interval_s is None else options.interval_s
        self._settings = replace(options.global_settings, interval_s=every)
        self._state_file = None if state_dir is None else state_dir / STATE_FILE
        self._sample = PostReservoir(None if state_dir is None else state_dir / SAMPLE_FILE)
        self._evaluated_at, self._evaluation = self._load_state()
        self._evaluated_before = self._evaluated_at
        self._save_state()
        self._saved_at = clock()

    def next_step(self, index: Index, now: float) -> GlobalStep | None:
        """Return what to do now."""
        return next_step(self._state(index), now, self._settings)

    def preparation(self, step: GlobalStep) -> PrepareStep:
        """Return the slow part of a step, which is run in another thread."""
        if isinstance(step, EvaluatePlan):
            return partial(self._evaluate, self._sample.posts())
        return partial(self._move_slice, step.max_subscriptions)

    def on_start(self, step: GlobalStep, now: float) -> None:
        """Note that a step has started."""
        if isinstance(step, EvaluatePlan):
            self._evaluated_before, self._evaluated_at = self._evaluated_at, now
            self._save_state()

    def on_failure(self) -> None:
        """Note that a step failed: an evaluation is repeated before the interval is over."""
        self._evaluated_at = self._evaluated_before
        self._save_state()

    def add_posts(self, posts: PostSample, seen: int) -> None:
        """Add the posts that a batch of `seen` posts has sampled."""
        now = self._clock()
        self._sample.add(posts, seen, now)
        if not 0 <= now - self._saved_at < _SAVE_INTERVAL_S:
            self.save()

    def save(self) -> None:
        """Save the sample. The stream goes on if that fails."""
        self._saved_at = self._clock()
        with _warn_if_not_saved():
            self._sample.save()
        self._save_state()

    def status(self, index: Index) -> dict[str, object]:
        """Return metrics about the global step."""
        return {"previous_plan_share": previous_plan_share(index), "last_evaluation": self._evaluation}

    def _state(self, index: Index) -> GlobalState:
        plan, subscriptions = index.manifest.plan, index.manifest.subscriptions
        has_two_plans = plan is not None and bool(plan.previous_file)
        return GlobalState(self._evaluated_at, self._sample.count, subscriptions, has_two_plans)

    # The methods below run in the thread of the build, on the arguments they were started with.

    def _evaluate(self, recent: PostSample, index: Index) -> StepResult:
        spec = replace(self._spec, matchers=len(index.manifest.shards))  # it may have been resized
        step = evaluate_new_plan(index, spec.refit, recent, self._settings)
        if step is None:
            return StepResult()
        self._evaluation = {
            "at": self._clock(),
            "learned_posts": step.posts,
            "judged_posts": step.judged.posts,
            "load_ns_per_post": round(step.judged.load, 1),
            "new_load_ns_per_post": round(step.judged.new_load, 1),
            "gain": round(step.judged.gain, 4),
            "gain_error": round(step.judged.error, 4),
            "is_adopted": step.prepared is not None,
        }
        LOG.info(Event("new plan evaluated", **self._evaluation))
        return StepResult(step.prepared, f"{step}: new subscriptions use it")

    def _move_slice(self, max_subscriptions: int, index: Index) -> StepResult:
        moved = prepare_slice(index, max_subscriptions)
        reason = f"moved {moved.moved:,} of {index.manifest.subscriptions:,} subscriptions from the previous plan"
        return StepResult(moved.version, reason, moved.size_bytes)

    def _save_state(self) -> None:
        content = {"evaluated_at": self._evaluated_at, "evaluation": self._evaluation}
        if self._state_file is not None:
            with _warn_if_not_saved():
                write_atomically(self._state_file, json.dumps(content))

    def _load_state(self) -> tuple[float, dict[str, object]]:
        """Return when a new plan was last evaluated, and the result; now and none if unknown."""
        try:
            content = {} if self._state_file is None else json.loads(self._state_file.read_text("utf-8"))
            return float(content["evaluated_at"]), dict(content.get("evaluation", {}))
        except (OSError, ValueError, KeyError, TypeError):  # missing or damaged: the interval starts again
            return self._clock(), {}


@contextmanager
def _warn_if_not_saved() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        LOG.warning(Event("rebalancing state not saved", error=error))


def previous_plan_share(index: Index) -> float | None:
    """Return the share of subscriptions that are still placed by the previous plan; None if there is only one plan."""
    if index.manifest.plan is None or not index.manifest.plan.previous_file:
        return None
    old, new = count_by_plan(index)
    return old / max(1, old + new)
