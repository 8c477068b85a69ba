"""`tidings serve` with all its processes: crawl, publish, match, read, stop."""

from __future__ import annotations

import os
import signal
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import feedparser
import pytest

from tidings.testing.processes import descendants, read_arguments
from tidings.testing.service import running_service

ARTICLES = """<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><link>http://e.org/</link>
<description>x</description><item><title>A storm is coming</title><link>https://e.org/1</link><guid>1</guid>
<description>&lt;p&gt;Take &lt;b&gt;care&lt;/b&gt; &lt;script&gt;alert(1)&lt;/script&gt;&lt;/p&gt;</description></item>
<item><title>Sunshine</title><guid>2</guid></item></channel></rss>"""


class FeedHandler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.end_headers()
        self.wfile.write(ARTICLES.encode())

    def log_message(self, *args):
        """Do not log."""


@pytest.fixture
def feed_url():
    with ThreadingHTTPServer(("127.0.0.1", 0), FeedHandler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/rss"
        server.shutdown()


def read_matches(service, subscription):
    page = service.request("GET", f"{subscription}/matches")
    return {match["title"] or match["text"] for match in page["matches"]}


@pytest.mark.long
@pytest.mark.timeout(1_800)  # two starts of Spark, perhaps on a busy machine
def test_serve_matches_crawled_and_published_posts_and_restarts_its_children(tmp_path, feed_url):
    with running_service(tmp_path) as served:
        made = served.request("POST", "/api/subscriptions", {"query": "storm"})
        subscription = f"/api/subscriptions/{made['id']}"
        served.request("POST", "/api/feeds", {"url": feed_url})
        assert served.request("POST", "/api/posts", [{"text": "storm one"}, {"text": "sun"}])["accepted"] == 2
        both = {"storm one", "A storm is coming"}
        served.wait_until(lambda: read_matches(served, subscription) == both, "both matches")
        assert [feed["state"] for feed in served.request("GET", "/api/feeds")["feeds"]] == ["ok"]
        with urllib.request.urlopen(made["addresses"]["rss"], timeout=30) as answer:
            read = feedparser.parse(answer.read())
        assert {entry.title for entry in read.entries} == {"storm one", "A storm is coming"}
        assert not any("script" in entry.description for entry in read.entries)
        estimate = served.request("POST", "/api/check", {"query": "storm"})
        assert estimate["sampled_posts"] >= 2

        (before,) = served.find_processes("driver")
        os.killpg(before, signal.SIGKILL)
        served.request("POST", "/api/posts", {"text": "storm two"})
        served.wait_until(lambda: "storm two" in read_matches(served, subscription), "the match after the restart")
        assert served.find_processes("driver") != [before]
        assert "stream: exited (SIGKILL); restart in 1 s" in served.read_log()

        children = descendants(served.pid)
        assert served.stop() == 0
        assert not any(map(read_arguments, children)), "a process still runs"  # an ended one has none
