"""Crawling measured: the real history by our own schedule, and how many feeds a second one machine crawls.

The history is on a local server whose clock we set; time passes from one visit to the next. The thousand feeds are on
a server process of their own, at addresses of loopback, and are crawled as `tidings crawl` does it, politeness on.
"""

from __future__ import annotations

import asyncio
import gzip
import heapq
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from tidings.crawl.crawler import Crawler, Manners
from tidings.crawl.decide import Asked, Memory, Outcome
from tidings.crawl.identity import unpacked
from tidings.crawl.parse import parse
from tidings.crawl.parser_process import Parser
from tidings.crawl.rate_limit import Gate, Politeness
from tidings.net.allowlist import LOOPBACK, Allowed
from tidings.net.ssrf_guard import guarded_session
from tidings.store import DueFeed, Store, open_store
from tidings_lab.feed_server import host
from tidings_lab.history import History, PastFeed, load_history
from tidings_lab.replay import Replay

Say = Callable[[str], None]
FEEDS, HOSTS = 1_000, 500
_WARM_ROUNDS, _WARM_FEEDS = 5, 100  # a crawler runs for weeks, and so does its JVM


def measure_crawling(seed: int, quick: bool, repetitions: int, say: Say) -> dict[str, Any]:
    """Both; returns what the record keeps."""
    history = load_history(seed)
    found: dict[str, Any] = {"history": asyncio.run(_through(history, say)) | {"source": history.source}}
    found["rate"] = _rate(40 if quick else FEEDS, 20 if quick else HOSTS, repetitions, say)
    return found


async def _through(history: History, say: Say) -> dict[str, Any]:
    """All feeds from their first to their last look, visited when our schedule says so."""
    parser, spent = Parser(), {"visits": 0, "in_bytes": 0, "articles": 0, "updated": 0}
    sent = set[tuple[str, str]]()
    manners = Manners(politeness=Politeness(between_s=0.0), allow=Allowed(LOOPBACK))
    delays: list[float] = []
    try:
        async with (
            Replay(history).serving() as server,
            guarded_session(manners.allow, auto_decompress=False) as session,
        ):
            crawler = Crawler(manners, [parser], lambda: server.now)
            waiting = [(feed.snapshots[0].at, place) for place, feed in enumerate(history.feeds)]
            feeds = [Asked(n + 1, server.url(feed), Memory()) for n, feed in enumerate(history.feeds)]
            came = [{item.link: item.at for item in feed.items} for feed in history.feeds]
            while waiting:
                server.now, place = heapq.heappop(waiting)
                outcome = await crawler.visit(session, feeds[place], Gate(manners.politeness))
                feeds[place] = _after(feeds[place], outcome)
                links = {str(post.get("link", "")) for post in outcome.visited.posts}
                delays += [server.now - came[place][link] for link in links & came[place].keys()]
                sent |= {(_path(post.get("link", "")), post.get("title", "")) for post in outcome.visited.posts}
                for name, count in (("visits", 1), ("in_bytes", outcome.wire_bytes), ("updated", outcome.updated)):
                    spent[name] += count
                spent["articles"] += len(outcome.visited.posts)
                if (due_at := outcome.visited.due_at) is not None and server.now < history.feeds[place].looks[-1]:
                    heapq.heappush(waiting, (min(due_at, history.feeds[place].looks[-1]), place))
            spent["request_bytes"] = server.asked_bytes
    finally:
        parser.close()
    return _judged(history, spent, sent, delays, say)


def _after(asked: Asked, outcome: Outcome) -> Asked:
    known = asked.known if outcome.visited.known is None else unpacked(outcome.visited.known)
    return replace(asked, memory=Memory.from_json(outcome.visited.visit), known=known)


def _judged(
    history: History, spent: dict[str, int], sent: set[tuple[str, str]], delays: list[float], say: Say
) -> dict[str, Any]:
    everything = sum(_fetching_all(feed, len) for feed in history.feeds)
    packed = sum(_fetching_all(feed, lambda document: len(gzip.compress(document, 6))) for feed in history.feeds)
    looks = sum(len(feed.looks) for feed in history.feeds)
    missed = _missed(history, sent)
    saved, saved_packed = (1 - spent["in_bytes"] / bytes_ for bytes_ in (everything, packed))
    delays.sort()
    middle = delays[len(delays) // 2] if delays else 0.0
    say(
        f"  the history: {saved:.2%} less than fetching everything, {saved_packed:.2%} if that came compressed "
        f"({spent['visits']:,} visits for {looks:,}); {missed:,} articles missed; found after {middle / 60:.0f} minutes"
    )
    told: dict[str, Any] = {"everything_bytes": everything, "everything_compressed_bytes": packed, "looks": looks}
    told |= {"saved": saved, "saved_of_compressed": saved_packed, "missed": missed}
    return {**spent, **told, "median_delay_s": middle}


def _fetching_all(feed: PastFeed, size: Callable[[bytes], int]) -> int:
    """Bytes of who fetches the whole document at every look there was."""
    sizes = {one.at: size(one.document) for one in feed.snapshots}
    return sum(sizes[at] for at in map(partial(_shown_at, feed), feed.looks) if at is not None)


def _shown_at(feed: PastFeed, look: float) -> float | None:
    number = bisect_right(feed.snapshots, look, key=lambda one: one.at)
    return feed.snapshots[number - 1].at if number else None


def _missed(history: History, sent: set[tuple[str, str]]) -> int:
    """Articles in any document of the history that were never sent: neither with their link nor with their title.

    Links are compared without host and last slash. The history has articles whose link and guid moved (an added slash,
    a shorter path): these are one article, to be sent once.
    """
    paths, titles = ({told[place] for told in sent} for place in (0, 1))
    shown = {
        (_path(one.link), one.title)
        for feed in history.feeds
        for snapshot in feed.snapshots
        for one in parse(snapshot.document, "", "http://127.0.0.1/").articles
    }
    return sum(path not in paths and (not title or title not in titles) for path, title in shown)


def _path(link: str) -> str:
    return urlsplit(link).path.rstrip("/") + urlsplit(link).query


def _rate(feeds: int, hosts: int, repetitions: int, say: Say) -> dict[str, Any]:
    """Feeds a second of a round in which all are new, and of the next, in which none changed; the middle of some."""
    import tidings
    from tidings.crawl.loop import Rounds
    from tidings.spark.crawl_stage import crawl_round

    manners = Manners(allow=Allowed(LOOPBACK))
    spark = tidings.session()
    crawlers = spark.sparkContext.defaultParallelism

    def visit(chosen: Sequence[DueFeed], known: Mapping[int, str]) -> list[Outcome]:
        return crawl_round(spark, chosen, known, manners, crawlers)

    timed: dict[str, list[float]] = {"new": [], "unchanged": []}
    articles: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="tidings-bench-crawl-") as name, _served(hosts) as port:
        folder = Path(name)
        with open_store(folder) as store:

            def crawled(urls: list[str]) -> tuple[float, int]:
                return _round(Rounds(store, folder / "inbox", manners.politeness, visit, _quiet), store, urls)

            for turn in range(_WARM_ROUNDS):
                crawled(_urls(port, min(feeds, _WARM_FEEDS), hosts, f"warm{turn}"))
            for repetition in range(repetitions):
                for kind, seconds in timed.items():
                    took, articles[kind] = crawled(_urls(port, feeds, hosts, f"feed{repetition}"))
                    seconds.append(took)
                    say(f"  {feeds:,} {kind} feeds on {hosts:,} hosts: {feeds / took:,.0f} feeds/s")
            failed = sum(one.state != "ok" for one in store.feeds())
    rates = {kind: {"seconds": told, "feeds_per_second": feeds / median(told)} for kind, told in timed.items()}
    return {"feeds": feeds, "hosts": hosts, "articles": articles, "failed": failed, **rates}


def _quiet(line: str) -> None:
    """What a round says is of no use here."""


def _round(rounds: Any, store: Store, urls: list[str]) -> tuple[float, int]:
    """Make them due, crawl them all: seconds and new articles."""
    import threading

    for url in urls:
        store.add_feed(url)
    store.database.run("UPDATE feed SET due_at = 9e18")
    for url in urls:
        store.database.run("UPDATE feed SET due_at = 0 WHERE url = ?", url)
    start = time.perf_counter()
    tally = rounds.run(threading.Event(), once=True)
    return time.perf_counter() - start, int(tally.articles)


def _urls(port: int, feeds: int, hosts: int, name: str) -> list[str]:
    return [f"http://{host(n % hosts)}:{port}/{name}/{n}" for n in range(feeds)]


@contextmanager
def _served(hosts: int) -> Iterator[int]:
    """A server in a process of its own; its port."""
    command = [sys.executable, "-m", "tidings_lab.feed_server", str(hosts)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield int(server.stdout.readline())
        finally:
            server.terminate()
