"""The crawl benchmark on a generated history."""

from __future__ import annotations

import asyncio

import pytest

from tidings_lab import bench_crawl
from tidings_lab.history import FeedHistory, load_history
from tidings_lab.thresholds import check_thresholds


@pytest.fixture
def history():
    return load_history(1)


def crawl(history):
    return asyncio.run(bench_crawl._crawl_history(history, lambda line: None))


def test_crawl_by_schedule_misses_nothing_and_saves_bandwidth(history):
    found = crawl(history)
    assert found["missed"] == 0
    assert found["saved"] > 0.9
    assert found["articles"] == sum(len(feed.items) + 10 for feed in history.feeds)


def test_article_that_was_never_sent_is_count_missed(history):
    every = [(one.link, one.guid) for feed in history.feeds for one in feed.items]
    sent = {(bench_crawl._path(link), "") for link, _ in every}
    assert bench_crawl._count_missed(history, sent) == 10 * len(history.feeds)  # those of the first documents
    nothing = FeedHistory(history.feeds[:1], "")
    assert bench_crawl._count_missed(nothing, set()) == 10 + len(nothing.feeds[0].items)


def test_thresholds_of_crawling_can_fail():
    rate = {"feeds": 1_000, "new": {"feeds_per_second": 299.0}, "unchanged": {"feeds_per_second": 301.0}}
    thresholds = check_thresholds("crawl", {"history": {"saved": 0.98, "missed": 1}, "rate": rate})
    assert [threshold.is_met for threshold in thresholds] == [False, False, False, True]
