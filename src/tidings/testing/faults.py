"""Kill parts of a real service at random times under load, then compare what it stored with the brute-force matches.

    report = run_faults(tmp_path, FaultPlan(seed=1, kills=50))
    assert report.problems == []

The processes, the store and the requests are real. The order of kills and the waits are those of the seed. With a
PostgreSQL server, its backends and the server itself are killed, too.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidings.demo.queries import DEMO_QUERIES
from tidings.errors import StoreError
from tidings.testing.fault_load import (
    CRAWL_MARKER,
    MARKER,
    REQUEST_ERRORS,
    FeedAdder,
    FeedServer,
    LoadThread,
    Publisher,
    SubscriptionChurn,
    WebhookReceiver,
    draw_pool,
)
from tidings.testing.fault_oracle import FaultOutcome, find_problems
from tidings.testing.postgres import PostgresServer
from tidings.testing.service import TIMEOUT_S, ServiceProcess, running_service

SERVICE_KINDS = ("driver", "stream", "jvm", "daemon", "worker", "crawler", "sender", "serve")
DATABASE_KINDS = ("backend", "database")
_STABLE_QUERIES = (MARKER, CRAWL_MARKER, *DEMO_QUERIES.values())
_SETTLED_QUERY = "settledmarker"
_MAX_WAIT_S = 4.0  # between two kills, after the stream has made progress
_RESTLESS_SHARE = 0.25  # of the kills that do not wait for progress: they hit processes that start
_PROGRESS_S, _DRAIN_S = 600.0, 900.0  # a machine may be busy
_DATABASE_DOWN_S = 2.0
_FINAL_GROUPS = 10
_KEEP = ("--keep-matches", "1000000")


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What to kill how often. At least `posts` posts are acknowledged while kills happen."""

    seed: int
    kills: int
    posts: int = 0
    kinds: tuple[str, ...] = ()  # empty: all
    publish_every_s: float = 0.5
    group_posts: int = 10


@dataclass
class FaultReport:
    """What happened; `problems` is empty if nothing was lost, duplicated or wrong."""

    kills: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    failed_requests: int = 0
    changes: int = 0
    feeds: int = 0
    matches: int = 0
    webhook_messages: int = 0
    webhook_requests: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        killed = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))
        return (
            f"{sum(self.kills.values())} kills ({killed}) in {self.seconds:.0f} s: {self.acknowledged:,} posts "
            f"acknowledged ({self.failed_requests} requests failed), {self.changes} subscription changes, "
            f"{self.feeds} feeds, {self.matches:,} matches, {self.webhook_messages} webhook messages in "
            f"{self.webhook_requests} requests; {len(self.problems)} problems"
        )


def run_faults(
    folder: Path, plan: FaultPlan, server: PostgresServer | None = None, log: Callable[[str], None] = lambda _: None
) -> FaultReport:
    """Run a service in `folder` by a plan and verify it. `server` holds the store, instead of SQLite."""
    started = time.monotonic()
    with running_service(folder, server.url if server else None, _KEEP) as service, _load(service, plan) as load:
        kill = _Killer(service, server, random.Random(plan.seed), log)
        load.start()
        for kind in _draw_kinds(plan, server is not None):
            kill.wait()
            kill.kill(kind)
        service.wait_until(lambda: len(load.publisher.acknowledged) >= plan.posts, "acknowledged posts", _DRAIN_S)
        load.stop()
        outcome = load.finish()
        if (code := service.stop()) != 0:
            outcome.problems.append(f"the service ended with exit code {code}")
        with service.open_store() as store:
            outcome.problems += find_problems(store, outcome)
        report = load.describe(outcome)
    report.kills, report.seconds = kill.count, time.monotonic() - started
    return report


def _draw_kinds(plan: FaultPlan, has_server: bool) -> list[str]:
    """Return the kinds in the order of the kills: all kinds equally often, shuffled in rounds."""
    kinds = plan.kinds or (*SERVICE_KINDS, *(DATABASE_KINDS if has_server else ()))
    rng = random.Random(plan.seed)
    rounds = -(-plan.kills // len(kinds))
    return [kind for _ in range(rounds) for kind in rng.sample(kinds, len(kinds))][: plan.kills]


@dataclass
class _Killer:
    service: ServiceProcess
    server: PostgresServer | None
    rng: random.Random
    log: Callable[[str], None]
    count: Counter[str] = field(default_factory=Counter)

    def wait(self) -> None:
        """Wait for a batch that starts now, mostly, and then for a random time."""
        if self.rng.random() >= _RESTLESS_SHARE:
            now = time.time()
            self.service.wait_until(lambda: self._last_commit() > now, "a batch is committed", _PROGRESS_S)
        time.sleep(self.rng.uniform(0, _MAX_WAIT_S))

    def _last_commit(self) -> float:
        with suppress(StoreError), self.service.open_store() as store:
            return max((batch.started_at for batch in store.batches.recent(limit=5) if batch.finished_at), default=0.0)
        return 0.0  # the database is being restarted

    def kill(self, kind: str) -> None:
        """Kill a process of this kind; wait for one if it is being restarted."""
        self.log(f"{sum(self.count.values()) + 1}. {kind}")
        if kind == "serve":
            self.service.kill()
            self.service.start()
        elif kind == "database":
            self._restart_database()
        elif kind == "backend":
            self._kill_backend()
        else:
            self._kill_child(kind)
        self.count[kind] += 1

    def _kill_child(self, kind: str) -> None:
        role = "driver" if kind == "stream" else kind
        pids = self.service.wait_until(lambda: self.service.find_processes(role), f"a process: {role}", _PROGRESS_S)
        with suppress(ProcessLookupError):  # it ended in this moment, which is fine, too
            if kind == "stream":
                os.killpg(pids[0], signal.SIGKILL)
            else:
                os.kill(self.rng.choice(pids), signal.SIGKILL)

    def _kill_backend(self) -> None:
        """Kill a backend of the server, which then disconnects all clients and recovers."""
        assert self.server is not None
        pids = self.service.wait_until(self.server.list_backends, "a backend", _PROGRESS_S)
        with suppress(ProcessLookupError):
            os.kill(self.rng.choice(pids), signal.SIGKILL)

    def _restart_database(self) -> None:
        assert self.server is not None
        self.server.crash()
        time.sleep(self.rng.uniform(0, _DATABASE_DOWN_S))
        self.server.start()


@contextmanager
def _load(service: ServiceProcess, plan: FaultPlan) -> Iterator[_Load]:
    feeds, receiver = FeedServer(), WebhookReceiver()
    try:
        yield _Load(service, plan, feeds, receiver)
    finally:
        feeds.shutdown()
        receiver.shutdown()


class _Load:
    """Everything that clients do, and what must be found at the end."""

    def __init__(self, service: ServiceProcess, plan: FaultPlan, feeds: FeedServer, receiver: WebhookReceiver) -> None:
        rngs = [random.Random(plan.seed + number) for number in (1, 2)]
        self.pool, self._service, self.receiver = draw_pool(plan.seed), service, receiver
        self.publisher = Publisher(service, self.pool, rngs[0], plan.group_posts)
        self.churn = SubscriptionChurn(service, self.pool, rngs[1])
        self.feeds = FeedAdder(service, feeds.url)
        self.stable = [int(self._prepare("subscriptions", query=query)["id"]) for query in _STABLE_QUERIES]
        self._prepare("webhooks", subscription=self.stable[0], url=receiver.url)
        self._threads = [
            LoadThread("publisher", self.publisher.publish, plan.publish_every_s),
            LoadThread("churn", self.churn.change, 0.3),
            LoadThread("feeds", self.feeds.add, 5.0),
        ]

    def _prepare(self, kind: str, **body: object) -> Any:
        """Create something before the first failure. A service that still starts may be slow; a repetition is wrong."""
        return self._service.request("POST", f"/api/{kind}", body, timeout_s=TIMEOUT_S)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        for thread in self._threads:
            thread.stop()

    def finish(self) -> FaultOutcome:
        """Wait until the last change of subscriptions is in use, publish the last posts, wait for all matches."""
        settled = self._service.wait_until(self._subscribe_last, "the service answers", _DRAIN_S)
        self._service.wait_until(lambda: self._is_settled(settled), "the last subscription has a match", _DRAIN_S)
        earlier = set(self.publisher.texts)
        for _ in range(_FINAL_GROUPS):
            self.publisher.publish()
        outcome = FaultOutcome(
            pool=self.pool,
            texts=self.publisher.texts,
            acknowledged=self.publisher.acknowledged,
            final=self.publisher.acknowledged - earlier,
            stable=dict(zip(self.stable, _STABLE_QUERIES, strict=True)),
            feeds=self.feeds.acknowledged,
        )
        self._wait_for_matches(outcome)
        outcome.delivered, outcome.bodies = self.receiver.list_posts(), self.receiver.bodies
        return outcome

    def _subscribe_last(self) -> int | None:
        with suppress(*REQUEST_ERRORS):
            return int(self._service.request("POST", "/api/subscriptions", {"query": _SETTLED_QUERY})["id"])
        return None

    def _is_settled(self, subscription: int) -> bool:
        time.sleep(1)
        with suppress(*REQUEST_ERRORS):
            self._service.request("POST", "/api/posts", {"text": _SETTLED_QUERY, "id": f"settled-{time.time()}"})
            return bool(self._service.request("GET", f"/api/subscriptions/{subscription}/matches")["matches"])
        return False

    def _wait_for_matches(self, outcome: FaultOutcome) -> None:
        """Wait until everything that must be found is there; a timeout is a problem that is found later."""
        articles = outcome.expected_articles()
        with suppress(AssertionError):
            self._service.wait_until(lambda: self._count(0) >= len(outcome.acknowledged), "posts", _DRAIN_S)
            self._service.wait_until(lambda: self._count(1) >= len(articles), "articles", _DRAIN_S)
            done = set(outcome.acknowledged)
            self._service.wait_until(lambda: done <= set(self.receiver.list_posts()), "webhooks", _DRAIN_S)

    def _count(self, row: int) -> int:
        with suppress(*REQUEST_ERRORS):
            return int(self._service.request("GET", f"/api/subscriptions/{self.stable[row]}")["matches"])
        return 0

    def describe(self, outcome: FaultOutcome) -> FaultReport:
        return FaultReport(
            acknowledged=len(outcome.acknowledged),
            failed_requests=self.publisher.failed_requests,
            changes=self.churn.changes,
            feeds=len(outcome.feeds),
            matches=outcome.matches,
            webhook_messages=len(outcome.bodies),
            webhook_requests=self.receiver.requests,
            problems=outcome.problems,
        )
