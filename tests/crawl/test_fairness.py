"""Good feeds are fetched and stored while hostile servers hold their own visits."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from tests.crawl.servers import OPTIONS

from tidings.crawl.crawler import CrawlOptions
from tidings.crawl.fetch import FetchLimits
from tidings.crawl.loop import CrawlLoop
from tidings.crawl.parser_process import ParserProcess
from tidings.crawl.rate_limit import HostRateLimit
from tidings.spark.crawl_stage import parse_feed_row, to_feed_row, visit_all
from tidings.store import open_store
from tidings.testing.hostile_servers import GOOD, SLOW_KINDS, hostile_handlers, running_servers

SERVED_S = 300.0  # far more than it takes on a loaded machine
MAX_FETCH_S = 3.0  # version 0.1: 23 s next to one tarpit


class Crawl(NamedTuple):
    """Seconds until the first good feeds were stored, and each one that was added later.

    Also the states that slow hostile feeds had at these times, and the errors of all hostile feeds in the end.
    """

    first_s: float
    added_s: list[float]
    slow_states: set[str]
    errors: dict[str, set[str]]


class ThreadCrawler:
    """Visits feeds like a Spark task, but in the thread of the round; each thread has parsers of its own."""

    def __init__(self, options: CrawlOptions) -> None:
        self._options, self._threads, self._parsers = options, threading.local(), []

    def __call__(self, feeds, known, lane):
        if not hasattr(self._threads, "parsers"):
            self._threads.parsers = [ParserProcess(), ParserProcess()]
            self._parsers += self._threads.parsers
        visits = [parse_feed_row(to_feed_row(feed, known)) for feed in feeds]
        batches = visit_all(visits, self._options.in_lane(lane), self._threads.parsers)
        return [outcome for outcomes in batches for outcome in outcomes]

    def close(self):
        for parser in self._parsers:
            parser.close()


@contextmanager
def running_crawl(store, inbox, options):
    """Crawl in another thread until the end of the block."""
    stop, crawler = threading.Event(), ThreadCrawler(options)
    loop = CrawlLoop(store, inbox, options.rate_limit, crawler)
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        crawler.close()


def states(store):
    return {feed.id: feed.state for feed in store.feeds.all()}


def wait_for(store, feeds, state):
    """Wait until all these feeds have a state; return the states of all feeds at that time."""
    deadline = time.monotonic() + SERVED_S
    while time.monotonic() < deadline:
        found = states(store)
        if all(found[feed] == state for feed in feeds):
            return found
        time.sleep(0.02)
    raise AssertionError(f"not {state} in time: {[feed for feed in feeds if found[feed] != state]}")


def crawl_next_to_hostile_servers(state, good, added, hostile_each, options):
    """Add all feeds, then more good feeds one by one while slow visits run; measure who waits for whom."""
    counts = dict.fromkeys(hostile_handlers(), hostile_each)
    with running_servers(good + added, counts) as urls, open_store(state) as store:
        hostile = {kind: [store.feeds.add(url, "mallory") for url in urls[kind]] for kind in counts}
        feeds = [store.feeds.add(url, "alice") for url in urls[GOOD][:good]]
        slow_states = set()

        def measure(feeds):
            start = time.monotonic()
            stored = wait_for(store, feeds, "ok")
            slow_states.update(stored[feed] for kind in SLOW_KINDS for feed in hostile[kind])
            return time.monotonic() - start

        with running_crawl(store, state / "inbox", options):
            first_s = measure(feeds)
            added_s = [measure([store.feeds.add(url, "alice")]) for url in urls[GOOD][good:]]
            wait_for(store, [feed for kind in counts for feed in hostile[kind]], "failing")
        errors = {kind: {feed.error for feed in store.feeds.all() if feed.id in hostile[kind]} for kind in counts}
        return Crawl(first_s, added_s, slow_states, errors)


def test_good_feeds_do_not_wait_for_hostile_servers(tmp_path):
    options = CrawlOptions(
        rate_limit=HostRateLimit(min_interval_s=0.1), limits=FetchLimits(seconds=12.0), allow=OPTIONS.allow
    )
    crawl = crawl_next_to_hostile_servers(tmp_path, good=40, added=1, hostile_each=1, options=options)
    assert crawl.slow_states == {"new"}
    errors = crawl.errors
    assert (
        errors["tarpit"] == errors["slow body"] == errors["slow headers"] == {"no complete response within 12 seconds"}
    )
    assert errors["expensive"] == {"parsing took more than 5 seconds or too much memory"}
    assert errors["interim responses"] == {"too many interim responses (status 1xx)"}


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_a_thousand_good_feeds_do_not_wait_for_hostile_servers(tmp_path):
    options = CrawlOptions(allow=OPTIONS.allow)
    alone = crawl_next_to_hostile_servers(tmp_path / "alone", 1_000, added=5, hostile_each=0, options=options)
    crowd = crawl_next_to_hostile_servers(tmp_path / "crowd", 1_000, added=5, hostile_each=8, options=options)
    for name, crawl in {"alone": alone, "next to 80 hostile servers": crowd}.items():
        added = ", ".join(f"{seconds:.1f}" for seconds in crawl.added_s)
        print(f"1,000 good feeds {name}: stored in {crawl.first_s:.1f} s; feeds added later in {added} s")
    assert max(crowd.added_s) < MAX_FETCH_S
