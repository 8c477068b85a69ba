"""Refresh the word plan of a running stream: fit it in the background on recent posts, switch between two batches.

A word plan is only replaced if recent posts that the new plan was not learned from confirm that it is better.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tidings.atomic_io import write_atomically
from tidings.balance.plan_comparison import MIN_GAIN, PlanComparison, learn_and_compare
from tidings.balance.refresh_policy import PlanHistory, RefreshPolicy, RefreshReason
from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import PlanSpec, SampleSource
from tidings.index.builder import AnyPlan, UnpublishedVersion, prepare_new_plan
from tidings.index.manifest import PlanRecord
from tidings.index.plan_files import load_word_plan
from tidings.index.reader import Index
from tidings.log import Event
from tidings.plan.words import HashPlan, WordPlan
from tidings.query.conjunctions import Conjunctions
from tidings.routing.stats import RoutingStats
from tidings.store import Store
from tidings.stream.index_updater import IndexUpdater
from tidings.text.term_statistics import TermStatistics

LOG = logging.getLogger("tidings.stream")
_MIN_SAMPLED = 200  # of 10,000 posts
_SAMPLED_PER_BATCH, _FIRST_SAMPLED_PER_BATCH = 2_000, 20_000  # once there are enough posts to learn from, and before
_RETRY_S, _MAX_RETRY_S = 60.0, 3_600.0
_POLL_S = 0.05
_DEFAULT_POLICY = RefreshPolicy()


class _PlanKept(Exception):
    """Raised while a version is built: the new plan is not better."""


class PlanRefresher:
    """Decides before every batch whether to fit a new plan. Idle if the index is replicated (`spec` is None).

    `state_file` keeps the history of the plan for the next start.
    """

    def __init__(
        self,
        updater: IndexUpdater,
        store: Store,
        spec: PlanSpec | None = None,
        policy: RefreshPolicy = _DEFAULT_POLICY,
        state_file: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._updater, self._store, self._state_file, self._clock = updater, store, state_file, clock
        self._labels = plan_labels(spec)
        self._spec = spec
        is_spatial = spec is not None and spec.is_spatial  # see `rebalancer`
        self._policy = replace(policy, interval_s=None, factor=None) if is_spatial else policy
        self.recent = updater.terms.recent
        self._batch_posts = _FIRST_SAMPLED_PER_BATCH  # of the last batch
        self._request, self._retry_at = 0, 0.0  # the user request that the running build serves
        self._kept_plans, self._resize_at = 0, 0.0  # in a row, and when a resize may start
        self._comparison: PlanComparison | None = None  # of the running build, made in its thread
        self._last_comparison: dict[str, object] = {}
        self.history = self._load_history(updater.index)

    @property
    def sample_texts(self) -> int:
        """How many of 10,000 posts to sample from the next batch: more until there are enough to learn from."""
        if self._spec is None:
            return self._updater.terms.sample_rate(self._updater.index)
        is_enough = self.recent.count >= self._policy.min_posts
        wanted = _SAMPLED_PER_BATCH if is_enough else _FIRST_SAMPLED_PER_BATCH
        return min(10_000, max(_MIN_SAMPLED, 10_000 * wanted // max(1, self._batch_posts)))

    def learn_first_plan(self, sample: SampleSource, stop: threading.Event) -> None:
        """Fit a plan before the first batch, if none was learned and there are enough posts, and wait for it."""
        if self._spec is None or self.history.is_learned or not self._updater.index.manifest.subscriptions:
            return
        self.recent.add(sample())
        is_enough = self.recent.count >= self._policy.min_posts
        if is_enough and not stop.is_set() and self._start(RefreshReason.first):
            while not self._updater.build_is_ready and not stop.wait(_POLL_S):
                pass

    def before_batch(self) -> None:
        """Start a refresh if there is a reason, or change the number of matchers if it was requested."""
        if self._start_resize():
            return
        request = self._store.plan_refresh.pending_requests()
        if self._spec is None:
            if request:
                LOG.warning(Event("plan refresh ignored", reason="the execution mode is replicated"))
                self._store.plan_refresh.complete(request)
            return
        must_wait = self._clock() < self._retry_at and not (request and self._kept_plans)
        if self._updater.is_building_plan or must_wait:
            return
        reason = self.history.reason_to_refresh(self._policy, self._clock(), request > 0, self.recent.count)
        if reason is not None and self._updater.index.manifest.subscriptions and self._start(reason):
            self._request = request

    def on_index_version(self, index: Index) -> None:
        """Note the version that the next batch uses: it may have a new plan, or a refresh may have failed."""
        error = self._updater.plan_error
        if error is not None:
            self._updater.plan_error = self._comparison = None
            self._retry_at = self._clock() + _RETRY_S
            LOG.warning(Event("plan refresh failed", error=error, plan_version=self.history.version))
        plan = index.manifest.plan
        if plan is not None and plan.version != self.history.version:
            self.history = PlanHistory(plan.version, is_learned(plan), self._clock())
            self._end_refresh(is_replaced=True)
            self._take_matchers(plan.matchers)
            LOG.info(Event("plan switched", plan_version=plan.version, index_version=index.version))
        elif self._comparison is not None and not self._updater.is_building_plan:
            self._end_refresh(is_replaced=False)

    def after_batch(self, index: Index, stats: RoutingStats, loads: Sequence[int]) -> None:
        """Learn from a batch; `loads` are the posts per matcher, including shed posts.

        The loads of a batch that was replayed with an older plan are ignored.
        """
        self.recent.add((stats.sample_texts, stats.sample_positions))
        self._batch_posts = stats.posts
        plan = index.manifest.plan
        if stats.posts and plan is not None and plan.version == self.history.version:
            before, self.history = self.history, self.history.add_batch(stats.posts, loads)
            if before.first_value != self.history.first_value:
                self._save_history()

    def status(self) -> dict[str, object]:
        """Return metrics about the plan."""
        return {
            **self._labels,
            "plan_version": self.history.version,
            "plan_value": self.history.value,
            "plan_value_when_learned": self.history.first_value,
            "is_building_plan": self._updater.is_building_plan,
            "wanted_matchers": self._wanted_matchers(),
            "last_plan_comparison": self._last_comparison,
        }

    def _wanted_matchers(self) -> int | None:
        """Return the requested number of matchers if the index has another one."""
        wanted, plan = self._store.plan_refresh.wanted_matchers(), self._updater.index.manifest.plan
        return wanted if wanted is not None and plan is not None and wanted != plan.matchers else None

    def _start_resize(self) -> bool:
        """Start to build the index for another number of matchers; return False if that is not to be done now."""
        wanted, spec, index = self._wanted_matchers(), self._spec, self._updater.index
        if wanted is None or spec is None or self._updater.is_building_plan or self._clock() < self._resize_at:
            return False
        if spec.plan is not None:
            cause = f"the plan file is for {spec.matchers} matchers"
            LOG.warning(Event("resize ignored", matchers=wanted, reason=cause))
            self._store.plan_refresh.request_matchers(spec.matchers)
            return False
        plan = index.manifest.plan
        if not index.manifest.subscriptions or (plan is not None and plan.previous_file):
            return False  # later: nothing to place, or two plans are in use
        posts = self.recent.posts()
        is_started = self._updater.start_build(partial(self._prepare_resize, replace(spec, matchers=wanted), posts))
        if is_started:
            self._resize_at = self._clock() + _RETRY_S  # if it fails
            LOG.info(Event("resize started", matchers=wanted, before=len(index.manifest.shards), posts=len(posts[0])))
        return is_started

    def _prepare_resize(self, spec: PlanSpec, posts: PostSample, index: Index) -> UnpublishedVersion:
        """Prepare a version for another number of matchers. Terms are hashed until there are posts to learn from."""
        is_enough = len(posts[0]) >= self._policy.min_posts

        def fit(terms: Sequence[bytes], conjunctions: Conjunctions) -> AnyPlan:
            if not is_enough:
                return HashPlan(spec.matchers)
            return spec.refit(lambda: posts)(terms, conjunctions)

        return prepare_new_plan(index, fit, TermStatistics.of(posts[0]) if is_enough else None)

    def _take_matchers(self, matchers: int) -> None:
        """Learn later plans for the number of matchers of the index."""
        if self._spec is not None and matchers != self._spec.matchers:
            LOG.info(Event("resized", matchers=matchers, before=self._spec.matchers))
            self._spec = replace(self._spec, matchers=matchers)
            self._resize_at = 0.0

    def _start(self, reason: RefreshReason) -> bool:
        assert self._spec is not None
        posts = self.recent.posts()
        self._comparison = None
        is_started = self._updater.start_build(partial(self._prepare, self._spec, posts))
        if is_started:
            count, partitioner = len(posts[0]), self._spec.partitioner
            LOG.info(Event("plan refresh started", partitioner=partitioner, posts=count, reason=str(reason)))
        return is_started

    def _prepare(self, spec: PlanSpec, posts: PostSample, index: Index) -> UnpublishedVersion | None:
        """Prepare a version with a new plan; None if it is not better. Runs in the thread of the build."""
        statistics = TermStatistics.of(posts[0])
        old = load_word_plan(index.folder, index.manifest.plan)
        if spec.is_spatial or old is None:
            return prepare_new_plan(index, spec.refit(lambda: posts), statistics)
        min_gain = MIN_GAIN if self.history.is_learned else 1.0

        def fit(terms: Sequence[bytes], conjunctions: Conjunctions) -> WordPlan:
            plan, self._comparison = learn_and_compare(spec.partitioner, posts[0], terms, conjunctions, old)
            if not self._comparison.confirms(min_gain):
                raise _PlanKept
            return plan

        try:
            return prepare_new_plan(index, fit, statistics)
        except _PlanKept:
            return None

    def _end_refresh(self, is_replaced: bool) -> None:
        """Note that a refresh has ended, with another plan or with the same one."""
        if self._request:
            self._store.plan_refresh.complete(self._request)
            self._request = 0
        now, comparison = self._clock(), self._comparison
        self._comparison = None
        if comparison is not None:
            self._last_comparison = {**comparison.to_dict(), "is_replaced": is_replaced, "at": now}
        self._kept_plans = 0 if is_replaced else self._kept_plans + 1
        if not is_replaced:
            LOG.info(Event("plan kept", plan_version=self.history.version, **self._last_comparison))
            self.history = self.history.keep_plan(now)
            self._retry_at = now + min(_MAX_RETRY_S, _RETRY_S * 2 ** (self._kept_plans - 1))
        self._save_history()

    def _load_history(self, index: Index) -> PlanHistory:
        """Return what was saved about the current plan; a new history otherwise."""
        plan = index.manifest.plan
        if plan is None:
            return PlanHistory(1, False, self._clock())
        if self._state_file is None:
            return PlanHistory(plan.version, is_learned(plan), self._clock())
        try:
            content = json.loads(self._state_file.read_text("utf-8"))
            since, first_value = float(content["since"]), content["value_at_first"]
            if content["version"] == plan.version:
                return PlanHistory(plan.version, is_learned(plan), since, first_value and float(first_value))
        except (OSError, ValueError, KeyError, TypeError):  # missing or damaged: the schedule starts again
            pass
        return PlanHistory(plan.version, is_learned(plan), self._clock())

    def _save_history(self) -> None:
        if self._state_file is None:
            return
        history = self.history
        content = {"version": history.version, "since": history.since, "value_at_first": history.first_value}
        write_atomically(self._state_file, json.dumps(content))


def is_learned(plan: PlanRecord) -> bool:
    """Return whether a plan was learned or given; terms are hashed until then."""
    return bool(plan.word_file or plan.spatial_file)


def plan_labels(spec: PlanSpec | None) -> dict[str, object]:
    """Return the labels of a plan for status and metrics."""
    if spec is None:
        return {"execution_mode": "replicated"}
    labels: dict[str, object] = {"execution_mode": "partitioned", "partitioner": spec.partitioner}
    return labels | ({"partitioned_by": "regions and words"} if spec.is_spatial else {"placement": spec.placement})
