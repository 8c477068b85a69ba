"""The crawl benchmark on a generated history."""

from __future__ import annotations

import asyncio
import re

import pytest

from tidings_lab import bench_crawl, feed_server
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


def test_an_article_that_was_never_sent_counts_as_missed(history):
    every = [(one.link, one.guid) for feed in history.feeds for one in feed.items]
    sent = {(bench_crawl._path(link), "") for link, _ in every}
    assert bench_crawl._count_missed(history, sent) == 10 * len(history.feeds)  # those of the first documents
    nothing = FeedHistory(history.feeds[:1], "")
    assert bench_crawl._count_missed(nothing, set()) == 10 + len(nothing.feeds[0].items)


def test_thresholds_of_crawling_can_fail():
    rate = {"feeds": 1_000, "new": {"feeds_per_second": 299.0}, "unchanged": {"feeds_per_second": 301.0}}
    thresholds = check_thresholds("crawl", {"history": {"saved": 0.98, "missed": 1}, "rate": rate})
    assert [threshold.is_met for threshold in thresholds] == [False, False, False, True]


def test_feed_server_answers_with_documents_and_with_304():
    async def request_twice() -> tuple[bytes, bytes]:
        responses = feed_server.load_responses()[:1]
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: feed_server._FeedProtocol(responses), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        status_lines = []
        for condition in (b"", b"If-None-Match: " + responses[0][0] + b"\r\n"):
            writer.write(b"GET /f/0 HTTP/1.1\r\nHost: f\r\n" + condition + b"\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"Content-Length: (\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            status_lines.append(head.partition(b"\r\n")[0])
        writer.close()
        await writer.wait_closed()
        server.close()
        return status_lines[0], status_lines[1]

    assert asyncio.run(request_twice()) == (b"HTTP/1.1 200 OK", b"HTTP/1.1 304 Not Modified")
