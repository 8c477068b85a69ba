"""The benchmark of crawling, on a history that is made up."""

from __future__ import annotations

import asyncio

import pytest

from tidings_lab import bench_crawl
from tidings_lab.history import History, load_history
from tidings_lab.thresholds import bars


@pytest.fixture
def history(monkeypatch):
    monkeypatch.setattr("tidings_lab.datasets.data_folder", lambda: None)
    return load_history(1)


def through(history):
    return asyncio.run(bench_crawl._through(history, lambda line: None))


def test_a_history_crawled_by_our_schedule_misses_nothing_and_saves_much(history):
    found = through(history)
    assert found["missed"] == 0
    assert found["saved"] > 0.9
    assert found["articles"] == sum(len(feed.items) + 10 for feed in history.feeds)


def test_an_article_that_was_never_sent_is_missed(history):
    every = [(one.link, one.guid) for feed in history.feeds for one in feed.items]
    sent = {(bench_crawl._path(link), "") for link, _ in every}
    assert bench_crawl._missed(history, sent) == 10 * len(history.feeds)  # those that were there at first
    nothing = History(history.feeds[:1], "")
    assert bench_crawl._missed(nothing, set()) == 10 + len(nothing.feeds[0].items)


def test_the_bars_of_crawling_can_fail():
    rate = {"feeds": 1_000, "new": {"feeds_per_second": 299.0}, "unchanged": {"feeds_per_second": 301.0}}
    told = bars({"crawl": {"history": {"saved": 0.98, "missed": 1}, "rate": rate}})
    assert [bar.passed for bar in told] == [False, False, False, True]
