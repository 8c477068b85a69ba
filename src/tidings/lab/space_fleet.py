"""So many workers of a space plan in one process: each gets what the dispatcher gives it, and is timed on its own.

As `fleet.py` does for plans of words. Updates count too, at the paper's pace: one for five posts, half of them
insertions, which a worker compiles, half deletions, which it looks up.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.index.area import share_by_area, space_plan
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.ids import find_ids
from tidings.index.index import Index, LiveSegment
from tidings.index.manifest import PlanRecord
from tidings.index.publish import create_index
from tidings.index.segment import build_segment
from tidings.match.matcher import FlatMatcher
from tidings.partition.space.load import OBJECTS_AN_UPDATE
from tidings.partition.space.plan import SpacePlan
from tidings.partition.space.wanted import Located, learn_space
from tidings.receive.receiver import Received
from tidings.route.area import AreaRouter
from tidings.route.noted import Noted, all_of
from tidings.route.router import Routed

BATCH = 5_000  # posts that are routed and matched together


@dataclass(frozen=True, slots=True)
class Batch:
    """Some posts as they were received, and where they are."""

    received: Received
    where: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SpaceWork:
    """Processor seconds of every worker (a row a repetition), of the dispatcher, and what they were given."""

    posts: int
    updates: int
    sent: NDArray[np.int64]
    hits: int
    matching: NDArray[np.float64]
    updating: NDArray[np.float64]
    routing: float

    def described(self) -> dict[str, Any]:
        """`throughput` counts posts and updates, and is what all take together while the slowest is busy."""
        own = self.matching.min(axis=0) + self.updating
        slowest, total = float(own.max()), float(own.sum())
        return {
            "throughput": (self.posts + self.updates) / slowest if slowest else 0.0,
            "spread": float(self.sent.sum()) / self.posts,
            "time_imbalance": slowest * len(own) / total if total else 1.0,
            "work_ns": 1e9 * total / self.posts,
            "routing_ns": 1e9 * self.routing / self.posts,
            "latency_ms": 1e3 * BATCH / self.posts * (self.routing + float(self.matching.min(axis=0).max())),
            "hits": self.hits,
        }


class SpaceFleet:
    """An index shared out by a space plan, the dispatcher before it, the matchers behind."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.router = AreaRouter(index)
        self._held: dict[int, list[tuple[LiveSegment, FlatMatcher]]] = {}

    @classmethod
    def learned(cls, folder: Path, subscriptions: pa.Table, name: str, workers: int, sample: Located) -> SpaceFleet:
        learn = learn_space(name, workers, lambda: sample)
        return cls(create_index(folder, subscriptions, PlanRecord(name, workers, 7), learn)[0])

    @property
    def plan(self) -> SpacePlan:
        assert self.index.manifest.plan is not None
        return space_plan(self.index.folder / self.index.manifest.plan.space)

    def memory(self) -> dict[str, int]:
        """Bytes of the dispatcher, and of the worker that needs most."""
        shards = [self.index.shard(number) for number in range(self.router.matchers)]
        largest = max(sum(live.segment.size_bytes for live in shard) for shard in shards)
        return {"dispatcher_bytes": self.router.size_bytes, "worker_bytes": largest}

    def receive(self, posts: pa.Table) -> list[Batch]:
        receiver, found = self.index.receiver(), []
        for at in range(0, len(posts), BATCH):
            some = posts.slice(at, BATCH)
            where = np.column_stack([np.asarray(some.column(name), np.float64) for name in ("lon", "lat")])
            received = receiver.receive(some.column("text").combine_chunks())
            kept = Received(received.terms.copy(), received.bounds.copy(), received.refused)
            found.append(Batch(kept, where))
        return found

    def work(self, batches: list[Batch], new: pa.Table | None, repetitions: int) -> SpaceWork:
        """Posts by the batch; of the new subscriptions as many as belong to so many posts come, and as many go."""
        posts = sum(len(batch.received) for batch in batches)
        updates = 0 if new is None else posts // OBJECTS_AN_UPDATE
        start = time.thread_time()
        routed = [self.router.route(batch.received, batch.where) for batch in batches]
        routing = time.thread_time() - start
        sent = np.zeros(self.router.matchers, np.int64)
        matching = np.zeros((repetitions + 1, self.router.matchers))
        hits = 0
        for turn in range(repetitions + 1):  # the first makes room
            hits = 0
            for batch, one in zip(batches, routed, strict=True):
                hits += self._match(batch, one, matching[turn])
        for one in routed:
            for share in one.shares:
                sent[share.matcher] += len(share.posts)
        updating = self._update(None if new is None else new.slice(0, updates // 2))
        return SpaceWork(posts, updates, sent, hits, matching[1:], updating, routing)

    def noted(self, batches: list[Batch]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What a dispatcher counts of these posts: cells, and the posts sent of each."""
        found = all_of(Noted.of(self.router.route(batch.received, batch.where)) for batch in batches)
        return found.cells, found.by_cell

    def match(self, batch: Batch) -> int:
        """Route and match a batch, one worker after the other; how many hits."""
        routed = self.router.route(batch.received, batch.where)
        return self._match(batch, routed, np.zeros(self.router.matchers))

    def _match(self, batch: Batch, routed: Routed, seconds: NDArray[np.float64]) -> int:
        hits = 0
        for share in routed.shares:
            bounds = np.ascontiguousarray(np.column_stack([share.starts[:-1], share.starts[1:]]))
            received, where = Received(share.terms, bounds), batch.where[share.posts]
            start = time.thread_time()
            for _, matcher in self._shard(share.matcher):
                hits += len(matcher.match(received, where))
            seconds[share.matcher] += time.thread_time() - start
        return hits

    def _update(self, new: pa.Table | None) -> NDArray[np.float64]:
        """The seconds each worker takes to compile its share of what comes, and to look up as many that go."""
        seconds = np.zeros(self.router.matchers)
        if new is None or not len(new):
            return seconds
        vocabulary = GrowingVocabulary(self.index.vocabulary, self.index.manifest.terms)
        compiled = compile_subscriptions(new, vocabulary)
        ids = new.column("id").combine_chunks().take(pa.array(compiled.rows))
        for share in share_by_area(compiled.conjunctions.by_owner(), self.plan, vocabulary.text_of):
            own = ids.take(pa.array(share.subscriptions))
            start = time.thread_time()
            build_segment(share.conjunctions, own)
            for live, _ in self._shard(share.number):
                find_ids(own, live.segment.ids, live.segment.id_hash, live.segment.id_place)
            seconds[share.number] += time.thread_time() - start
        return seconds

    def _shard(self, number: int) -> list[tuple[LiveSegment, FlatMatcher]]:
        if number not in self._held:
            terms = self.index.manifest.terms
            live = self.index.shard(number)
            self._held[number] = [(one, FlatMatcher(one.segment, terms, one.removed)) for one in live]
        return self._held[number]


def renumbered(subscriptions: pa.Table, first: int) -> pa.Table:
    """The same subscriptions with ids from `first` on."""
    ids = pa.array(np.arange(first, first + len(subscriptions)))
    return subscriptions.set_column(subscriptions.column_names.index("id"), "id", ids)
