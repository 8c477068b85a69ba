"""A crawler that is killed at any failpoint visits again; every article reaches the inbox once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tidings.failpoints import CRAWL_FAILPOINTS, VARIABLE
from tidings.store import open_store
from tidings.testing.feed_servers import rss

ROOT = Path(__file__).resolve().parents[2]
CRAWL = """
import sys, threading
from pathlib import Path
from tidings.crawl.crawler import CrawlOptions
from tidings.crawl.loop import CrawlLoop
from tidings.crawl.rate_limit import HostRateLimit
from tidings.net.allowlist import AllowedNetworks
from tidings.spark.crawl_stage import parse_feed_row, to_feed_row, visit_all
from tidings.store import open_store

options = CrawlOptions(rate_limit=HostRateLimit(min_interval_s=0.001), allow=AllowedNetworks.parse(["loopback"]))
def visit(feeds, known, lane):
    visits = [parse_feed_row(to_feed_row(feed, known)) for feed in feeds]
    return [outcome for outcomes in visit_all(visits, options.in_lane(lane)) for outcome in outcomes]
with open_store(sys.argv[1]) as store, store.lease("crawler"):
    CrawlLoop(store, Path(sys.argv[1]) / "inbox", options.rate_limit, visit).run(threading.Event(), once=True)
"""


@pytest.fixture
def server():
    """Serve feeds with given articles."""
    shown = {"/a": rss("a1", "a2"), "/b": rss("b1")}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(shown[self.path])))
            self.end_headers()
            self.wfile.write(shown[self.path])

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", shown
        running.shutdown()


def run_crawler(state, crash=""):
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, VARIABLE: crash}
    return subprocess.run(
        [sys.executable, "-c", CRAWL, str(state)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def crawl(state, crash=""):
    done = run_crawler(state, crash)
    assert done.returncode == (-signal.SIGKILL if crash else 0), done.stderr[-2_000:]


def read_inbox(state):
    lines = [line for file in sorted((state / "inbox").glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def in_inbox(state):
    return Counter(post["title"] for post in read_inbox(state))


def backlog(state, store):
    """Return the titles of the posts that webhooks do not send."""
    marked = {identity for (identity,) in store.database.fetch("SELECT id FROM backlog_post")}
    return {post["title"] for post in read_inbox(state) if post["id"] in marked}


@pytest.mark.parametrize("point", CRAWL_FAILPOINTS)
def test_every_article_arrives_once_after_a_kill(point, server, tmp_path):
    url, shown = server
    state = tmp_path / "state"
    with open_store(state) as store:
        feeds = [store.feeds.add(url + path) for path in shown]
    crawl(state, crash=f"{point}@any")
    names = {file.name for file in (state / "inbox").glob("*.jsonl")}
    shown["/a"] = rss("a3", "a1", "a2")
    crawl(state)
    with open_store(state) as store:
        store.database.execute("UPDATE feed SET due_at = 0")
    crawl(state)
    assert in_inbox(state) == Counter(f"About {name}" for name in ("a1", "a2", "a3", "b1"))
    assert names <= {file.name for file in (state / "inbox").glob("*.jsonl")}
    with open_store(state) as store:
        assert list(store.feeds.outbox()) == []
        assert [one.articles for one in store.feeds.all()] == [3, 1]
        assert [one.id for one in store.feeds.all()] == feeds
        is_first_lost = point == "before-store-articles"  # then a3 is in the first document that was stored
        first = ("a1", "a2", "b1", "a3") if is_first_lost else ("a1", "a2", "b1")
        assert backlog(state, store) == {f"About {name}" for name in first}


def test_articles_that_cannot_be_written_stay_in_the_outbox(server, tmp_path):
    url, _ = server
    with open_store(tmp_path) as store:
        store.feeds.add(url + "/a")
    (tmp_path / "inbox").write_text("not a directory")
    assert "OutputError: " + str(tmp_path / "inbox") in run_crawler(tmp_path).stderr
    (tmp_path / "inbox").unlink()
    crawl(tmp_path)
    assert in_inbox(tmp_path) == Counter(["About a1", "About a2"])
