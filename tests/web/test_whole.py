"""The whole service as somebody starts it: feeds crawled, posts published, matches in every form, all of it ended."""

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
PATIENCE_S = 280


class Newspaper(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.end_headers()
        self.wfile.write(ARTICLES.encode())

    def log_message(self, *args):
        """Says nothing."""


@pytest.fixture
def newspaper():
    with ThreadingHTTPServer(("127.0.0.1", 0), Newspaper) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/rss"
        server.shutdown()


class Served:
    """`tidings serve`, all of it."""

    def __init__(self, folder: Path) -> None:
        command = [*TIDINGS, "serve", "--state", str(folder), "--bind", "127.0.0.1:0", "--allow", "loopback"]
        self.log = folder.parent / "serve.log"
        self.log.touch()
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, env=environment(), stdout=out, stderr=subprocess.STDOUT)
        found = self.until(lambda: re.search(r"open (http://\S+?)/#token=(\S+)", self.log.read_text()))
        self.address, self.token = found[1], found[2]

    def until(self, asked):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := asked():
                return found
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.2)
        raise AssertionError(f"not within {PATIENCE_S} s:\n{self.log.read_text()}")

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def matches(self, subscription):
        return [match["title"] or match["text"] for match in self.ask("GET", f"{subscription}/matches")["matches"]]

    def child(self, name):
        """The process of a child, as it was told last."""
        return int(re.findall(rf"{name}: started, process (\d+)", self.log.read_text())[-1])


@pytest.mark.long
@pytest.mark.timeout(1_800)  # two starts of Spark, on a machine that may have much else to do
def test_feeds_and_queries_become_a_service_that_survives_its_children_and_ends_when_told(tmp_path, newspaper):
    served = Served(tmp_path / "state")
    try:
        made = served.ask("POST", "/api/subscriptions", {"query": "storm"})
        subscription = f"/api/subscriptions/{made['id']}"
        served.ask("POST", "/api/feeds", {"url": newspaper})
        assert served.ask("POST", "/api/posts", [{"text": "storm one"}, {"text": "sun"}])["accepted"] == 2
        served.until(lambda: set(served.matches(subscription)) == {"storm one", "A storm is coming"})
        assert [feed["state"] for feed in served.ask("GET", "/api/feeds")["feeds"]] == ["ok"]
        with urllib.request.urlopen(made["addresses"]["rss"], timeout=30) as answer:
            read = feedparser.parse(answer.read())
        assert {entry.title for entry in read.entries} == {"storm one", "A storm is coming"}
        assert not any("script" in entry.description for entry in read.entries)
        estimate = served.ask("POST", "/api/check", {"query": "storm"})
        assert estimate["sampled_posts"] >= 2

        before = served.child("stream")
        os.killpg(before, signal.SIGKILL)
        served.ask("POST", "/api/posts", {"text": "storm two"})
        served.until(lambda: "storm two" in served.matches(subscription))
        assert served.child("stream") != before
        assert "stream: ended (SIGKILL); again in 1 s" in served.log.read_text()

        children = [served.child(name) for name in ("stream", "crawler", "webhooks")]
        began = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(30) == 0
        assert time.monotonic() - began < 10
        for child in children:
            with pytest.raises(ProcessLookupError):
                os.kill(child, 0)
    finally:
        served.process.kill()
        served.process.wait()
