"""The local rebalancing step of a running stream (PS²Stream, section V-A).

A check compares the measured time of the matchers, which costs next to nothing. Only if it differs too much, a thread
looks at cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tidings.balance.rebalance.local_policy import LocalSettings, is_worth_rebalancing
from tidings.balance.rebalance.local_step import prepare_rebalancing
from tidings.balance.rebalance.measured_load import LoadWindow, MeasuredLoad
from tidings.balance.rebalance.options import RebalanceOptions
from tidings.balance.recent_sample import RecentPosts
from tidings.balance.refresh_policy import MIN_POSTS
from tidings.balance.spatial_fit import PostSample
from tidings.index.builder import UnpublishedVersion
from tidings.index.reader import Index
from tidings.index.shard_merge import list_divided_shards, prepare_shard_merge
from tidings.matching.load import MatcherLoad
from tidings.routing.stats import RoutingStats
from tidings.stream.global_rebalancer import PrepareStep, StepResult

BuildVersion = Callable[[Index], UnpublishedVersion]
PAUSE_S = 10.0  # between two steps
MAX_PAUSE_S = 600.0  # between steps that do not help
_RECENT_POSTS = 20_000  # that show what cells match: more would describe the past
_MIN_IMPROVEMENT = 0.05  # of the imbalance by a step; otherwise the pause is doubled


class LocalRebalancer:
    """Compares the time of the matchers over windows of at least `MIN_POSTS` posts."""

    def __init__(self, options: RebalanceOptions, recent: RecentPosts) -> None:
        self._options, self._recent = options, recent
        sigma = options.factor or float("inf")
        self._settings = LocalSettings(sigma, options.min_gain, selector=options.cell_selection)
        self._window = LoadWindow(MIN_POSTS)
        self._pause_s, self._next_at = PAUSE_S, 0.0
        self._imbalance: float | None = None  # when the last step started
        self._checks = 0
        self._divided: frozenset[int] = frozenset()  # matchers between which the last step moved cells

    def add_batch(self, stats: RoutingStats, loads: Sequence[MatcherLoad], log_position: int) -> None:
        """Add what a batch measured."""
        self._window.add(stats, loads, log_position)

    def forget(self) -> None:
        """Forget what was measured, because the plan has changed."""
        self._window = LoadWindow(MIN_POSTS)

    def next_step(self, now: float) -> MeasuredLoad | None:
        """Return the loads of the last window if they are uneven enough for a step."""
        if self._options.factor is None or now < self._next_at or not self._window.is_complete:
            return None
        seconds = self._window.seconds
        if max(seconds, default=0.0) < self._options.min_busy_s:
            return None  # too short to tell
        self._checks += 1
        if is_worth_rebalancing(seconds, self._settings):
            return self._window.measured()
        self._pause_s, self._imbalance = PAUSE_S, None
        self._next_at = now + PAUSE_S
        self.forget()
        return None

    def preparation(self, measured: MeasuredLoad) -> PrepareStep:
        """Return the slow part of a step, which is run in another thread."""
        return partial(self._move_cells, measured, self._recent.posts())

    def on_start(self, measured: MeasuredLoad, now: float) -> None:
        """Note that a step has started. If the one before has hardly helped, the next one must wait longer."""
        imbalance = max(measured.seconds) * len(measured.seconds) / sum(measured.seconds)
        helped = self._imbalance is None or imbalance < (1 - _MIN_IMPROVEMENT) * self._imbalance
        self._pause_s = PAUSE_S if helped else min(2 * self._pause_s, MAX_PAUSE_S)
        self._imbalance, self._next_at = imbalance, now + self._pause_s
        self.forget()

    def next_merge(self, index: Index) -> BuildVersion | None:
        """Return how to merge the shards of a finished step: an additional segment takes time for every post."""
        if not self._divided:
            return None
        numbers = [number for number in list_divided_shards(index) if number in self._divided]
        if not numbers:
            self._divided = frozenset()
        return partial(prepare_shard_merge, numbers=numbers) if numbers else None

    def on_merge(self) -> None:
        """Note that the merge has started; what was measured before does not count."""
        self._divided = frozenset()
        self.forget()

    def status(self) -> dict[str, object]:
        """Return metrics about the local step."""
        return {"rebalance_checks": self._checks}

    def _move_cells(self, measured: MeasuredLoad, recent: PostSample, index: Index) -> StepResult:
        """Run in the thread of the build."""
        texts, positions = recent
        newest = (texts.slice(max(0, len(texts) - _RECENT_POSTS)), positions[-_RECENT_POSTS:])
        step = prepare_rebalancing(index, measured, newest, self._settings)
        if step is None:
            return StepResult()
        self._divided = frozenset(number for pair in step.pairs for number in pair)
        return StepResult(step.prepared, str(step), step.size_bytes, step.to_dict())
