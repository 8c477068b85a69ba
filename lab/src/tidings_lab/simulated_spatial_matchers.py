"""So many workers of a space plan in one process: each gets what the dispatcher gives it, and is timed on its own.

As `fleet.py` does for plans of words. Updates count too, at the paper's pace: one for five posts, half of them
insertions, which a worker compiles, half deletions, which it looks up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.spatial_fit import Located, learn_space
from tidings.index.builder import create_index
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.index.id_lookup import find_ids
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index, LiveSegment
from tidings.index.segment import build_segment
from tidings.index.sharding import Share
from tidings.index.spatial_shards import share_by_area, space_plan
from tidings.matching.segment_matcher import FlatMatcher
from tidings.plan.load_model import OBJECTS_AN_UPDATE
from tidings.plan.space import SpacePlan
from tidings.routing.router import Routed
from tidings.routing.spatial_router import AreaRouter
from tidings.routing.stats import Noted, all_of
from tidings.text.analyzer import Received

BATCH = 20_000  # posts that are routed and matched together


@dataclass(frozen=True, slots=True)
class Batch:
    """Some posts as they were received, and where they are."""

    received: Received
    where: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SpaceWork:
    """Processor seconds of every worker (a row a round), of the dispatcher (a round each), and what they were given."""

    posts: int
    updates: int
    sent: NDArray[np.int64]
    hits: NDArray[np.int64]
    matching: NDArray[np.float64]
    updating: NDArray[np.float64]
    routing: NDArray[np.float64]

    def described(self) -> dict[str, Any]:
        """`throughput` counts posts and updates, and is what all take together while the slowest is busy.

        Of each worker the quickest round counts: others were disturbed.
        """
        matching, routing = self.matching.min(axis=0), float(self.routing.min())
        own = matching + self.updating.min(axis=0)
        slowest, total = float(own.max()), float(own.sum())
        return {
            "throughput": (self.posts + self.updates) / slowest if slowest else 0.0,
            "spread": float(self.sent.sum()) / self.posts,
            "time_imbalance": slowest * len(own) / total if total else 1.0,
            "work_ns": 1e9 * total / self.posts,
            "updating_ns": 1e9 * (total - float(matching.sum())) / self.posts,
            "routing_ns": 1e9 * routing / self.posts,
            "latency_ms": 1e3 * BATCH / self.posts * (routing + float(matching.max())),
            "hits": int(self.hits.sum()),
        }


class Shift:
    """What a fleet is given of some posts and new subscriptions, and the times it takes, round by round."""

    def __init__(self, fleet: SpaceFleet, batches: list[Batch], new: pa.Table | None = None) -> None:
        self._fleet, self._batches = fleet, batches
        self._posts = sum(len(batch.received) for batch in batches)
        self._updates = 0 if new is None else self._posts // OBJECTS_AN_UPDATE
        self._coming = fleet.coming(None if new is None else new.slice(0, self._updates // 2))
        self._routed = [fleet.router.route(batch.received, batch.where) for batch in batches]
        self._rounds: list[tuple[float, NDArray[np.float64], NDArray[np.float64]]] = []
        self._hits = np.zeros(fleet.router.matchers, np.int64)
        self._turn()  # makes room

    def turn(self) -> None:
        """One round more: route, match, update."""
        start = time.thread_time()
        for batch in self._batches:
            self._fleet.router.route(batch.received, batch.where)
        routing = time.thread_time() - start
        self._rounds.append((routing, self._turn(), self._fleet.update(self._coming)))

    def _turn(self) -> NDArray[np.float64]:
        seconds = np.zeros(self._fleet.router.matchers)
        self._hits[:] = 0
        for batch, routed in zip(self._batches, self._routed, strict=True):
            self._fleet.match_shares(batch, routed, seconds, self._hits)
        return seconds

    def work(self) -> SpaceWork:
        """What all rounds tell."""
        sent = np.zeros(self._fleet.router.matchers, np.int64)
        for routed in self._routed:
            for share in routed.shares:
                sent[share.matcher] += len(share.posts)
        routing, matching, updating = (np.array(some) for some in zip(*self._rounds, strict=True))
        return SpaceWork(self._posts, self._updates, sent, self._hits, matching, updating, routing)


def side_by_side(shifts: Sequence[Shift], rounds: int) -> list[SpaceWork]:
    """Contenders take turns, so that whatever disturbs the machine for a while disturbs all; every other round in the
    opposite order."""
    for number in range(rounds):
        for shift in shifts if number % 2 else shifts[::-1]:
            shift.turn()
    return [shift.work() for shift in shifts]


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

    def noted(self, batches: list[Batch]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What a dispatcher counts of these posts: cells, and the posts sent of each."""
        found = all_of(Noted.of(self.router.route(batch.received, batch.where)) for batch in batches)
        return found.cells, found.by_cell

    def match(self, batch: Batch) -> None:
        """Route and match a batch, one worker after the other."""
        nothing = np.zeros(self.router.matchers), np.zeros(self.router.matchers, np.int64)
        self.match_shares(batch, self.router.route(batch.received, batch.where), *nothing)

    def match_shares(self, batch: Batch, routed: Routed, seconds: NDArray[np.float64], hits: NDArray[np.int64]) -> None:
        """Add what each worker takes and finds."""
        for share in routed.shares:
            bounds = np.ascontiguousarray(np.column_stack([share.starts[:-1], share.starts[1:]]))
            received, where = Received(share.terms, bounds), batch.where[share.posts]
            start = time.thread_time()
            for _, matcher in self._shard(share.matcher):
                hits[share.matcher] += len(matcher.match(received, where))
            seconds[share.matcher] += time.thread_time() - start

    def coming(self, new: pa.Table | None) -> list[tuple[Share, pa.Array]]:
        """New subscriptions as they are shared out, with their ids."""
        if new is None or not len(new):
            return []
        vocabulary = GrowingVocabulary(self.index.vocabulary, self.index.manifest.terms)
        compiled = compile_subscriptions(new, vocabulary)
        ids = new.column("id").combine_chunks().take(pa.array(compiled.rows))
        shares = share_by_area(compiled.conjunctions.by_owner(), self.plan, vocabulary.text_of)
        return [(share, ids.take(pa.array(share.subscriptions))) for share in shares]

    def update(self, coming: Sequence[tuple[Share, pa.Array]]) -> NDArray[np.float64]:
        """The seconds each worker takes to compile its share of what comes, and to look up as many that go."""
        seconds = np.zeros(self.router.matchers)
        for share, ids in coming:
            start = time.thread_time()
            build_segment(share.conjunctions, ids)
            for live, _ in self._shard(share.number):
                find_ids(ids, live.segment.ids, live.segment.id_hash, live.segment.id_place)
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
