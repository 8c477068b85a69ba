"""`tidings serve` with all its processes: crawl, publish, match, read, stop."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import feedparser
import pytest
from tests.cli.runs import TIDINGS, environment

ARTICLES = """<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><link>http://e.org/</link>
<description>x</description><item><title>A storm is coming</title><link>https://e.org/1</link><guid>1</guid>
<description>&lt;p&gt;Take &lt;b&gt;care&lt;/b&gt; &lt;script&gt;alert(1)&lt;/script&gt;&lt;/p&gt;</description></item>
<item><title>Sunshine</title><guid>2</guid></item></channel></rss>"""
TIMEOUT_S = 280


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


class ServeProcess:
    """A running `tidings serve`."""

    def __init__(self, folder: Path) -> None:
        command = [*TIDINGS, "serve", "--state", str(folder), "--bind", "127.0.0.1:0", "--allow", "loopback"]
        self.log = folder.parent / "serve.log"
        self.log.touch()
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, env=environment(), stdout=out, stderr=subprocess.STDOUT)
        match = self.until(lambda: re.search(r"open (http://\S+?)/#token=(\S+)", self.log.read_text()))
        self.address, self.token = match[1], match[2]

    def until(self, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            if result := condition():
                return result
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.2)
        raise AssertionError(f"not within {TIMEOUT_S} s:\n{self.log.read_text()}")

    def request(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def matches(self, subscription):
        return [match["title"] or match["text"] for match in self.request("GET", f"{subscription}/matches")["matches"]]

    def child(self, name):
        """Return the process id of a child from the last line of the log about it."""
        return int(re.findall(rf"{name}: started, process (\d+)", self.log.read_text())[-1])


@pytest.mark.long
@pytest.mark.timeout(1_800)  # two starts of Spark, perhaps on a busy machine
def test_serve_matches_crawled_and_published_posts_and_restarts_its_children(tmp_path, feed_url):
    served = ServeProcess(tmp_path / "state")
    try:
        made = served.request("POST", "/api/subscriptions", {"query": "storm"})
        subscription = f"/api/subscriptions/{made['id']}"
        served.request("POST", "/api/feeds", {"url": feed_url})
        assert served.request("POST", "/api/posts", [{"text": "storm one"}, {"text": "sun"}])["accepted"] == 2
        served.until(lambda: set(served.matches(subscription)) == {"storm one", "A storm is coming"})
        assert [feed["state"] for feed in served.request("GET", "/api/feeds")["feeds"]] == ["ok"]
        with urllib.request.urlopen(made["addresses"]["rss"], timeout=30) as answer:
            read = feedparser.parse(answer.read())
        assert {entry.title for entry in read.entries} == {"storm one", "A storm is coming"}
        assert not any("script" in entry.description for entry in read.entries)
        estimate = served.request("POST", "/api/check", {"query": "storm"})
        assert estimate["sampled_posts"] >= 2

        before = served.child("stream")
        os.killpg(before, signal.SIGKILL)
        served.request("POST", "/api/posts", {"text": "storm two"})
        served.until(lambda: "storm two" in served.matches(subscription))
        assert served.child("stream") != before
        assert "stream: exited (SIGKILL); restart in 1 s" in served.log.read_text()

        children = [served.child(name) for name in ("stream", "crawler", "webhooks")]
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
        for child in children:
            with pytest.raises(ProcessLookupError):
                os.kill(child, 0)
    finally:
        served.process.kill()
        served.process.wait()
