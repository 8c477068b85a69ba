"""The stream: every micro-batch is matched with the subscriptions as they are then, and stored exactly once.

Before a batch runs, the ledger of the store records the index version it uses and what it sheds; a batch replayed after
a crash uses and sheds the same again. What it found is stored in one transaction, which marks the batch as done; one
that is done is not run. A large one is stored while the next is matched (`storing.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidings.errors import IndexDamaged, InputError
from tidings.failpoints import failpoint
from tidings.index.reader import Index
from tidings.routing.shed_accounting import Owed
from tidings.routing.stats import Noted
from tidings.spark import post_columns as receive
from tidings.spark.index_shipping import reference
from tidings.spark.matcher_metrics import LoadMeter
from tidings.spark.pipeline import wanted_posts
from tidings.spark.routing_metrics import RouteMeter, Routing
from tidings.store import Pin, Store
from tidings.stream.commit_queue import Begun, Result, Storing
from tidings.stream.index_updater import Follower
from tidings.stream.load_shedding import Shedder, shed_of
from tidings.stream.plan_refresh import Relearner
from tidings.stream.provenance import Lineage
from tidings.stream.rebalancer import Adjuster
from tidings.stream.sinks import Delivery
from tidings.stream.spill import LARGE_BYTES, MUCH_BYTES, Parts, gathered, held_bytes


class Stopping(Exception):
    """A batch that came after the stream was asked to stop; nothing of it was done."""


@dataclass
class Batches:
    """What Spark calls for every micro-batch. One batch at a time; `stopping` lets none begin any more."""

    store: Store
    follower: Follower
    delivery: Delivery
    stream: Callable[[], str]
    relearner: Relearner
    shedder: Shedder = field(default_factory=Shedder)
    files: Callable[[int], list[Path]] = lambda batch: []  # that a batch takes; InputError if one is gone
    storing: Storing | None = None  # None: everything at once, and held in memory before
    pin_anew: bool = False
    adjuster: Adjuster | None = None  # where there is a plan of places to adjust
    lineage: Lineage | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    running: threading.Lock = field(default_factory=threading.Lock)
    spent_ms: dict[str, float] = field(default_factory=dict)
    meter: LoadMeter = field(default_factory=LoadMeter)
    routes: RouteMeter = field(default_factory=RouteMeter)
    failure: Exception | None = None  # what ended a batch; on its way through Spark it becomes a text

    def __post_init__(self) -> None:
        self._owed = Owed(self.store.owners)
        self._storing = self.storing or Storing(self.store)

    def __call__(self, posts: DataFrame, batch: int) -> None:
        with self.running:
            if self.stopping.is_set():
                raise Stopping
            failpoint("after checkpointing", batch - 1)
            self.spent_ms = {}
            try:
                self._run(posts, batch)
            except Exception as error:
                self.failure = error
                raise
            failpoint("before checkpointing", batch)

    @property
    def storing_failure(self) -> Exception | None:
        """What went wrong with storing a batch behind the next, which may never come to hear of it."""
        return self._storing.failure

    def until_stored(self, seconds: float | None = None) -> None:
        """Wait for what is stored behind; raises what went wrong with it."""
        self._storing.wait(seconds)

    def _run(self, posts: DataFrame, batch: int) -> None:
        failpoint("before reading", batch)
        stream, start = self.stream(), time.monotonic()
        with self._timed("index"):
            pin, index = self._pinned(stream, batch)
        failpoint("after reading", batch)
        if pin.done:
            return
        failpoint("before matching", batch)
        parts, noted = self._matched(posts, index, batch, pin.shed)
        failpoint("after matching", batch)
        with self._timed("storing"):
            left = self.delivery.deliver(stream, batch, index.version, parts)
            begun = Begun(stream, batch, index.version, _plan_version(index), pin.shed)
            self._storing.store(begun, self._result(index, noted), left)
        self.shedder.measured(batch, time.monotonic() - start, noted)
        self.relearner.measured(index, noted, [load.posts + load.withheld for load in self.meter.of(batch)])
        if self.adjuster is not None:
            self.adjuster.measured(index, noted)

    def _matched(self, posts: DataFrame, index: Index, batch: int, shed: str) -> tuple[Parts, Noted]:
        """What is found; of all but small batches in files, as it may be more than this process can hold."""
        size = held_bytes(self.files(batch))
        folder = self._storing.files(batch) if size > MUCH_BYTES else None
        routing = Routing(shed_of(shed, batch), self.routes.tell, self.relearner.texts)
        self.meter.begin()
        self.routes.begin()
        with self._timed("matching"), _read_once(posts, index):
            found = wanted_posts(posts, index, reference(index), self.meter.tell, routing, folder)
            parts = gathered(found, folder, in_pieces=size > LARGE_BYTES)
        noted = self.routes.end()
        self.meter.end(batch, len(index.manifest.shards), noted.by_matcher.tolist())
        return parts, noted

    def _result(self, index: Index, noted: Noted) -> Result:
        figures = {**self._figures(), **({"withheld": noted.withheld} if noted.withheld else {})}
        by_owner = self._owed.by_owner(index, noted.leads, noted.by_lead)
        return Result(figures, dict(enumerate(noted.by_matcher.tolist())), dict(by_owner))

    def _pinned(self, stream: str, batch: int) -> tuple[Pin, Index]:
        """The versions this batch uses: those it was begun with, or the newest there are."""
        index = self._newest(batch)
        begun = Begun(stream, batch, index.version, _plan_version(index), self.shedder.decide(batch))
        pin = self._storing.begin(begun)
        if pin.done or pin.index_version == index.version:
            return pin, index
        try:
            return pin, self.follower.version(pin.index_version)
        except IndexDamaged as error:
            if self.pin_anew:
                self.store.pin_anew(stream, batch, index.version, _plan_version(index))
                return pin, index
            raise InputError(
                f"{error} Batch {batch} was begun with version {pin.index_version} of the index, which is not whole "
                "any more; run with --pin-anew to match it with the subscriptions as they are now."
            ) from error

    def _newest(self, batch: int) -> Index:
        """The index with all changes, and with a plan that was learned or adjusted meanwhile."""
        self.relearner.at_border()
        if self.adjuster is not None:
            self.adjuster.at_border()
        switches = self.follower.has_learned
        if switches:
            failpoint("before switching", batch)
        index = self.follower.refresh()
        if self.lineage is not None:
            self.lineage.note(index.manifest.position)
        if switches:
            failpoint("after switching", batch)
        self.relearner.at_version(index)
        if self.adjuster is not None:
            self.adjuster.at_version(index)
        return index

    def told(self) -> dict[str, object]:
        """What those who decide have to tell, for the figures."""
        adjusted = self.adjuster.told() if self.adjuster is not None else {}
        return {**self.shedder.told(), **self.relearner.told(), **adjusted}

    def _figures(self) -> Mapping[str, object]:
        return {name: round(value, 1) for name, value in self.spent_ms.items()}

    def _timed(self, what: str) -> _Timed:
        return _Timed(self.spent_ms, what)


def each_batch(posts: DataFrame, batches: Batches) -> DataStreamWriter:
    """Posts on their way to the batches, prepared once: to describe that to Spark again and again takes longer than a
    small batch itself."""
    return receive.whole(posts).writeStream.foreachBatch(batches)


def _plan_version(index: Index) -> int:
    return 1 if index.manifest.plan is None else index.manifest.plan.version


class _Timed:
    """Adds the milliseconds of a block to what was spent."""

    def __init__(self, spent_ms: dict[str, float], what: str) -> None:
        self._spent_ms, self._what = spent_ms, what

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._spent_ms[self._what] = (time.perf_counter() - self._start) * 1000


@contextmanager
def _read_once(posts: DataFrame, index: Index) -> Iterator[None]:
    """The partitioned plan looks at posts thrice: they are kept meanwhile, instead of read from their source again."""
    if index.manifest.plan is None:
        yield
        return
    posts.persist()
    try:
        yield
    finally:
        posts.unpersist()
