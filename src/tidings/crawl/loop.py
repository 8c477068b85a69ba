"""Round after round: visit what is due, store what was found, put it where the stream will see it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidings.crawl.decide import Outcome
from tidings.crawl.rate_limit import Hosts, Politeness
from tidings.failpoints import failpoint
from tidings.ingest.inbox import put_lines
from tidings.store import DueFeed, Store

Say = Callable[[str], None]
Visit = Callable[[Sequence[DueFeed], Mapping[int, str]], list[Outcome]]
"""Feeds, and what is known of their articles, in; what each visit led to out."""

_A_ROUND = 5_000  # feeds, at most: what is found is stored when all of them were visited
_LOOK_S = 2.0  # feeds may be added while nothing is due
_PATIENCE_S = 60.0  # that `once` has with a host that wants to be left alone


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


class Rounds:
    """The rounds of one run."""

    def __init__(self, store: Store, inbox: Path, politeness: Politeness, visit: Visit, say: Say) -> None:
        self._store, self._inbox, self._visit, self._say = store, inbox, visit, say
        self._hosts = Hosts(politeness)
        self._tally = Tally()

    def run(self, stop: threading.Event, once: bool = False) -> Tally:
        """Until told to stop or, with `once`, until all that was due when it began is visited."""
        began_at = time.time()
        send(self._store, self._inbox, self._tally.rounds)
        while not stop.is_set():
            now = time.time()
            due = self._store.due_feeds(began_at if once else now, 4 * _A_ROUND)
            chosen = self._hosts.chosen(due, now)[:_A_ROUND]
            if chosen:
                self._round(chosen)
            elif once and not self._worth_waiting(due, now):
                break
            else:
                stop.wait(min(_LOOK_S, self._idle_s(due, now)))
        return self._tally

    def _worth_waiting(self, due: list[DueFeed], now: float) -> bool:
        free_at = self._hosts.free_at(due)
        return free_at is not None and free_at < now + _PATIENCE_S

    def _idle_s(self, due: list[DueFeed], now: float) -> float:
        """Until a host may be asked again, or the next feed is due."""
        at = self._hosts.free_at(due) if due else self._store.next_due_at()
        return _LOOK_S if at is None else max(0.01, at - now)

    def _round(self, chosen: list[DueFeed]) -> None:
        start = time.monotonic()
        outcomes = self._visit(chosen, self._store.known_articles([one.id for one in chosen]))
        if not outcomes:  # it was given up: we are to stop
            return
        asked = {one.id: one.url for one in chosen}
        for one in outcomes:
            self._hosts.asked(asked[one.visited.feed], time.time(), one.wait_s)
        number = self._tally.rounds
        failpoint("before storing articles", number)
        articles = self._store.visited([one.visited for one in outcomes])
        failpoint("after storing articles", number)
        send(self._store, self._inbox, number)
        self._tally.add(outcomes, articles)
        self._say(_told(outcomes, articles, time.monotonic() - start))


def send(store: Store, inbox: Path, number: int) -> None:
    """Put what is in the outbox into the inbox of the stream; after a crash it is put again under the same name."""
    for row in store.outbox():
        failpoint("before putting articles", number)
        put_lines(inbox, f"crawl-{row.number}", [row.lines])
        failpoint("after putting articles", number)
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
