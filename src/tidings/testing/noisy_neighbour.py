"""Measure what one owner notices while another client tries to stall the service.

    with running_service(tmp_path) as service, all_cases() as cases:
        results = measure_cases(service, cases, seconds=5)
    print(format_table(results))

The attacks are in `tidings.testing.attacks`. Every case is measured next to a baseline of its own: without the attack,
then during it. Two kinds of latency are measured: of requests, and from publishing a post until its match can be read.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tidings.testing.attacks import (
    HTTP_CASES,
    AddFeeds,
    AddSubscriptions,
    Attack,
    Target,
    running_attack,
    send_usual_requests,
)
from tidings.testing.clock import FakeClock
from tidings.testing.hostile_queries import FREQUENT_WORDS, hostile_queries
from tidings.testing.hostile_servers import SLOW_KINDS, running_servers
from tidings.testing.http_load import percentile, request_status
from tidings.testing.service import ServiceProcess
from tidings.web.volume_estimate import HOUR_S, VolumeEstimator

VICTIM, ATTACKER = "victim", "attacker"
HISTORY = Path("state", "history")
"""Where a service in a folder keeps its sample of posts."""
_MARKER = "neighbourmarker"
_MATCH_TIMEOUT_S = 300.0
_POLL_S = 0.05
_HISTORY_HOURS, _POSTS_PER_HOUR = 24, 100
_WORDS_PER_POST, _FREQUENT, _RARE_WORDS = 15, 0.1, 5_000
_numbers = itertools.count()
_UNIQUE = f"{time.time():.0f}"


@dataclass
class Latencies:
    """Seconds of requests, and seconds from posts to matches."""

    requests_s: list[float] = field(default_factory=list)
    matches_s: list[float] = field(default_factory=list)

    def describe(self) -> dict[str, float | int | None]:
        """Return counts, medians and 99th percentiles."""
        return {
            "requests": len(self.requests_s),
            "request_p50_s": _round(statistics.median(self.requests_s)) if self.requests_s else None,
            "request_p99_s": _round(percentile(self.requests_s)) if self.requests_s else None,
            "posts": len(self.matches_s),
            "match_p50_s": _round(statistics.median(self.matches_s)) if self.matches_s else None,
            "match_p99_s": _round(percentile(self.matches_s)) if self.matches_s else None,
        }


@dataclass
class CaseResult:
    """The latencies of the victim without and with an attack."""

    case: str
    rounds: int
    baseline: Latencies
    attacked: Latencies

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "baseline": self.baseline.describe(), "attacked": self.attacked.describe()}


@contextmanager
def all_cases() -> Iterator[dict[str, Attack]]:
    """Usual requests, then attacks on the server, the crawler and the stream; hostile servers run inside the block."""
    with running_servers(good=0, hostile=dict.fromkeys(SLOW_KINDS, 4)) as urls:
        feeds = [url for kind in SLOW_KINDS for url in urls[kind]]
        yield {
            "usual requests": send_usual_requests,
            **HTTP_CASES,
            "hostile feeds": AddFeeds(feeds),
            "expensive queries": AddSubscriptions(hostile_queries(1_000)),
        }


def measure_cases(
    service: ServiceProcess, cases: dict[str, Attack], seconds: float, has_stream: bool = True
) -> list[CaseResult]:
    """Measure all cases in turn; without a stream, only requests are measured."""
    victim = Victim(service, has_stream)
    if has_stream:
        asyncio.run(victim.await_match())  # the stream has started
    target = Target(service.address, service.add_owner(ATTACKER))
    return [_measure_case(victim, target, name, attack, seconds) for name, attack in cases.items()]


def _measure_case(victim: Victim, target: Target, name: str, attack: Attack, seconds: float) -> CaseResult:
    baseline = asyncio.run(victim.probe(seconds))
    with running_attack(attack, target) as count_rounds:
        attacked = asyncio.run(victim.probe(seconds))
        rounds = count_rounds()
    return CaseResult(name, rounds, baseline, attacked)


def fill_history(folder: Path) -> None:
    """Write a sample of posts for a service that starts later: a check of a query then does all the work it may."""
    clock, rng = FakeClock(time.time() - _HISTORY_HOURS * HOUR_S), random.Random(0)
    estimator = VolumeEstimator(folder, clock)
    for _ in range(_HISTORY_HOURS):
        clock.now += HOUR_S
        texts = (" ".join(_choose_word(rng) for _ in range(_WORDS_PER_POST)) for _ in range(_POSTS_PER_HOUR))
        estimator.add_posts(json.dumps({"text": text}) for text in texts)
    estimator.save()


def _choose_word(rng: random.Random) -> str:
    return rng.choice(FREQUENT_WORDS) if rng.random() < _FREQUENT else f"w{rng.randrange(_RARE_WORDS)}"


class Victim:
    """Another owner, who sends requests, and publishes posts and waits for their matches."""

    def __init__(self, service: ServiceProcess, has_stream: bool) -> None:
        self._service, self._has_stream = service, has_stream
        self._token = service.add_owner(VICTIM)
        made = service.request("POST", "/api/subscriptions", {"query": _MARKER}, self._token)
        self._path = f"/api/subscriptions/{made['id']}"

    async def probe(self, seconds: float) -> Latencies:
        """Return the latencies of requests and matches during a time, and of the match that is awaited at its end."""
        latencies, end = Latencies(), time.monotonic() + seconds
        tasks = [asyncio.create_task(self._send_requests(latencies, end))]
        tasks += [asyncio.create_task(self._await_matches(latencies, end))] if self._has_stream else []
        await asyncio.gather(*tasks)
        return latencies

    async def _send_requests(self, latencies: Latencies, end: float) -> None:
        """Read and write in turn."""
        url, check = self._service.address, json.dumps({"query": "storm"}).encode()
        requests = itertools.cycle([("/api/me", "GET", b""), (self._path, "GET", b""), ("/api/check", "POST", check)])
        while time.monotonic() < end:
            path, method, body = next(requests)
            started = time.monotonic()
            status = await request_status(url, path, self._token, method, body)
            assert status == 200, f"{path}: the victim got {status}"
            latencies.requests_s.append(time.monotonic() - started)
            await asyncio.sleep(_POLL_S)

    async def _await_matches(self, latencies: Latencies, end: float) -> None:
        while time.monotonic() < end:
            latencies.matches_s.append(await self.await_match())

    async def await_match(self) -> float:
        """Publish a post; return the seconds until its match can be read."""
        before, started = await self._count_matches(), time.monotonic()
        post = {"id": f"{_UNIQUE}-{next(_numbers)}", "text": _MARKER}
        await asyncio.to_thread(self._service.request, "POST", "/api/posts", post, self._token)
        while await self._count_matches() <= before:
            assert time.monotonic() < started + _MATCH_TIMEOUT_S, "the match of the victim was not found"
            await asyncio.sleep(_POLL_S)
        return time.monotonic() - started

    async def _count_matches(self) -> int:
        return int((await asyncio.to_thread(self._service.request, "GET", self._path, None, self._token))["matches"])


def measure_new_feed(service: ServiceProcess, url: str) -> float:
    """Add a feed as the victim and return the seconds until it was fetched."""
    token, started = service.add_owner(VICTIM), time.monotonic()
    path = f"/api/feeds/{service.request('POST', '/api/feeds', {'url': url}, token)['id']}"
    service.wait_until(lambda: service.request("GET", path, None, token)["state"] == "ok", "the feed is fetched")
    return time.monotonic() - started


def format_table(results: Sequence[CaseResult]) -> str:
    """Return a table in Markdown: latencies without and with each attack."""
    lines = [
        "| case | request p50 | p99 | during it: p50 | p99 | match p50 | during it |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        base, during = result.baseline.describe(), result.attacked.describe()
        cells = [base["request_p50_s"], base["request_p99_s"], during["request_p50_s"], during["request_p99_s"]]
        cells += [base["match_p50_s"], during["match_p50_s"]]
        lines.append(f"| {result.case} | " + " | ".join("" if cell is None else f"{cell:g} s" for cell in cells) + " |")
    return "\n".join(lines)


def _round(seconds: float) -> float:
    return round(seconds, 3)
