"""`tidings crawl`: round after round, visit what is due, store what was found, put it where the stream will see it."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from tidings.crawl.crawler import Manners
from tidings.crawl.decide import Outcome
from tidings.crawl.polite import Hosts
from tidings.receive.inbox import put
from tidings.spark.crawl import ShareOut, by_name, crawl_round
from tidings.spark.points import reached
from tidings.spark.session import session
from tidings.spark.stop import set_by_signals, stopped_afterwards
from tidings.store import DueFeed, Store, open_store

Say = Callable[[str], None]
_A_ROUND = 5_000  # feeds, at most: what is found is stored when all of them were visited
_LOOK_S = 2.0  # feeds may be added while nothing is due
_PATIENCE_S = 60.0  # that `once` has with a host that wants to be left alone
_SETTINGS = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}


@dataclass(frozen=True, slots=True)
class CrawlRequest:
    """What the command asks for."""

    where: str
    inbox: Path
    manners: Manners = field(default_factory=Manners)
    crawlers: int | None = None
    master: str | None = None
    once: bool = False
    share_out: ShareOut = by_name


@dataclass(slots=True)
class Tally:
    """What was done so far."""

    rounds: int = 0
    visits: int = 0
    articles: int = 0
    updates: int = 0
    wire_bytes: int = 0
    steps: Counter[str] = field(default_factory=Counter)

    def add(self, outcomes: list[Outcome], articles: int) -> None:
        self.rounds += 1
        self.visits += len(outcomes)
        self.articles += articles
        self.updates += sum(one.updated for one in outcomes)
        self.wire_bytes += sum(one.wire_bytes for one in outcomes)
        self.steps.update(one.step for one in outcomes)


def run_crawl(request: CrawlRequest, say: Say) -> Tally:
    """Run until told to stop (SIGINT, SIGTERM) or, with `once`, until all that is due was visited."""
    stop = threading.Event()
    with ExitStack() as stack:
        store = stack.enter_context(open_store(request.where))
        stack.enter_context(store.hold_crawler())
        send(store, request.inbox, 0)
        stack.enter_context(set_by_signals(stop))
        spark = stack.enter_context(_started(request.master))
        say(f"crawling {sum(1 for _ in store.feeds()):,} feeds; new articles go to {request.inbox}. Ctrl-C stops.")
        return _Rounds(request, store, spark, stop, say).run()


@contextmanager
def _started(master: str | None) -> Iterator[SparkSession]:
    asked = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    spark = session(master, _SETTINGS)
    with stopped_afterwards(spark):
        for number, handler in asked.items():  # Spark and `stopped_afterwards` put theirs
            signal.signal(number, handler)
        yield spark


class _Rounds:
    """The rounds of one run."""

    def __init__(
        self, request: CrawlRequest, store: Store, spark: SparkSession, stop: threading.Event, say: Say
    ) -> None:
        self._request, self._store, self._spark, self._stop, self._say = request, store, spark, stop, say
        self._hosts = Hosts(request.manners.politeness)
        self._crawlers = request.crawlers or spark.sparkContext.defaultParallelism
        self._tally = Tally()
        self._last_due_at = time.time()  # `once` takes what was due when it began

    def run(self) -> Tally:
        while not self._stop.is_set():
            now = time.time()
            due = self._store.due_feeds(min(now, self._last_due_at) if self._request.once else now, 4 * _A_ROUND)
            chosen = self._hosts.chosen(due, now)[:_A_ROUND]
            if chosen:
                self._round(chosen)
            elif self._request.once and not self._worth_waiting(due, now):
                break
            else:
                self._stop.wait(min(_LOOK_S, self._idle_s(due, now)))
        return self._tally

    def _worth_waiting(self, due: list[DueFeed], now: float) -> bool:
        free_at = self._hosts.free_at(due)
        return free_at is not None and free_at < now + _PATIENCE_S

    def _idle_s(self, due: list[DueFeed], now: float) -> float:
        """Until a host may be asked again, or the next feed is due."""
        at = self._hosts.free_at(due) if due else self._store.next_due_at()
        return _LOOK_S if at is None else max(0.01, at - now)

    def _round(self, chosen: list[DueFeed]) -> None:
        request, start = self._request, time.monotonic()
        known = self._store.known_articles([one.id for one in chosen])
        outcomes = crawl_round(self._spark, chosen, known, request.manners, self._crawlers, request.share_out)
        asked = {one.id: one.url for one in chosen}
        for one in outcomes:
            self._hosts.asked(asked[one.visited.feed], time.time(), one.wait_s)
        number = self._tally.rounds
        reached("before storing articles", number)
        articles = self._store.visited([one.visited for one in outcomes])
        reached("after storing articles", number)
        send(self._store, request.inbox, number)
        self._tally.add(outcomes, articles)
        self._say(_told(outcomes, articles, time.monotonic() - start))


def send(store: Store, inbox: Path, number: int) -> None:
    """Put what is in the outbox into the inbox of the stream; after a crash it is put again under the same name."""
    for row in store.outbox():
        reached("before putting articles", number)
        put(inbox, f"crawl-{row.number}", row.posts)
        reached("after putting articles", number)
        store.sent(row.number)


def _told(outcomes: list[Outcome], articles: int, seconds: float) -> str:
    steps = Counter(one.step for one in outcomes)
    same = steps["unchanged"] + steps["same"]
    rate = len(outcomes) / max(seconds, 1e-9)
    failed = f", {steps['failed']:,} failed" if steps["failed"] else ""
    return (
        f"{len(outcomes):,} feeds in {seconds:.1f} s ({rate:,.0f} a second): {articles:,} new articles; "
        f"{same:,} feeds unchanged{failed}; {sum(one.wire_bytes for one in outcomes):,} bytes"
    )
