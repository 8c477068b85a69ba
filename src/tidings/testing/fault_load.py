"""The load of a fault test: publish posts, replace subscriptions, add feeds, and receive webhooks, during failures.

A request that fails has an unknown outcome: what it published may be matched or not. Only what was acknowledged must be
there at the end.
"""

from __future__ import annotations

import json
import random
import threading
import urllib.error
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tidings.demo.generate import generate_posts
from tidings.ingest.inbox import write_posts
from tidings.testing.service import OWNER, ServiceProcess

MARKER = "faultmarker"  # a word of every post
CRAWL_MARKER = "crawlmarker"  # a word of every article of a feed
ARTICLES_PER_FEED = 3
REQUEST_ERRORS = (urllib.error.URLError, HTTPException, OSError, ValueError)
_FILE_SHARE = 0.2  # of the groups of posts that are written as files instead of sent to the API
_LIVE_SUBSCRIPTIONS = 40  # of the churn
_ERROR_PAUSE_S = 0.2

Post = dict[str, Any]


class LoadThread(threading.Thread):
    """Repeats a step until it is stopped; `failure` is an error that the step must not raise."""

    def __init__(self, name: str, step: Callable[[], None], pause_s: float) -> None:
        super().__init__(name=name, daemon=True)
        self._step, self._pause_s, self._halt = step, pause_s, threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._halt.wait(self._pause_s):
                self._step()
        except Exception as error:
            self.failure = error

    def stop(self) -> None:
        self._halt.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def draw_pool(seed: int, count: int = 400) -> list[Post]:
    """Return posts without ids. Few different texts keep the brute-force comparison fast."""
    rows = generate_posts(count, seed).to_pylist()
    names = ("text", "lat", "lon")
    return [{name: row[name] for name in names if row[name] is not None} for row in rows]


@dataclass
class Publisher:
    """Publishes groups of posts and remembers which were acknowledged; `texts` has the row of the pool by post id."""

    service: ServiceProcess
    pool: Sequence[Post]
    rng: random.Random
    group_posts: int = 10
    texts: dict[str, int] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    failed_requests: int = 0

    def publish(self) -> None:
        """Publish one group, mostly by the API, sometimes as a file."""
        rows = [self.rng.randrange(len(self.pool)) for _ in range(self.group_posts)]
        names = [f"{len(self.texts) + number:07d}" for number in range(self.group_posts)]
        as_file = self.rng.random() < _FILE_SHARE
        posts = [self._post(name, row) for name, row in zip(names, rows, strict=True)]
        ids = [f"file:{name}" if as_file else f"api:{OWNER}:{name}" for name in names]
        self.texts.update(zip(ids, rows, strict=True))
        if as_file:
            named = [{**post, "id": id_} for post, id_ in zip(posts, ids, strict=True)]
            write_posts(self.service.inbox, f"faults-{names[0]}", named)
        elif not self._send(posts):
            return
        self.acknowledged.update(ids)

    def _post(self, name: str, row: int) -> Post:
        post = self.pool[row]
        return {**post, "text": f"{post['text']} {MARKER}", "id": name}

    def _send(self, posts: list[Post]) -> bool:
        try:
            return bool(self.service.request("POST", "/api/posts", posts)["accepted"] == len(posts))
        except REQUEST_ERRORS:
            self.failed_requests += 1
            threading.Event().wait(_ERROR_PAUSE_S)
            return False


@dataclass
class SubscriptionChurn:
    """Adds and removes subscriptions by the API, one step at a time."""

    service: ServiceProcess
    pool: Sequence[Post]
    rng: random.Random
    live: list[int] = field(default_factory=list)
    changes: int = 0

    def change(self) -> None:
        """Remove a subscription or add one; a failed request is not repeated."""
        with suppress(*REQUEST_ERRORS):
            if len(self.live) >= _LIVE_SUBSCRIPTIONS:
                victim = self.live.pop(self.rng.randrange(len(self.live)))
                self.service.request("DELETE", f"/api/subscriptions/{victim}")
            else:
                made = self.service.request("POST", "/api/subscriptions", {"query": self._draw_query()})
                self.live.append(made["id"])
            self.changes += 1

    def _draw_query(self) -> str:
        """Return two words of a post, joined by AND or OR; sometimes all posts."""
        words = [word for word in self.rng.choice(self.pool)["text"].split() if word.isascii() and word.isalpha()]
        if len(words) < 2 or self.rng.random() < 0.1:
            return MARKER
        return self.rng.choice(("{} {}", "{} OR {}")).format(*(word.lower() for word in self.rng.sample(words, 2)))


@dataclass
class FeedAdder:
    """Adds feeds of a `FeedServer` by the API; all articles of an acknowledged feed must be found."""

    service: ServiceProcess
    base_url: str
    tried: int = 0
    acknowledged: list[int] = field(default_factory=list)

    def add(self) -> None:
        number, self.tried = self.tried, self.tried + 1
        with suppress(*REQUEST_ERRORS):
            self.service.request("POST", "/api/feeds", {"url": f"{self.base_url}/{number}.rss"})
            self.acknowledged.append(number)


class FeedServer(ThreadingHTTPServer):
    """Serves feeds: `/N.rss` has the articles `N-0`, `N-1`, …"""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _FeedHandler)
        threading.Thread(target=self.serve_forever, name="feed-server", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _FeedHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        name = self.path.strip("/").removesuffix(".rss")
        items = "".join(
            f"<item><title>{CRAWL_MARKER} article {name}-{number}</title><guid>{name}-{number}</guid></item>"
            for number in range(ARTICLES_PER_FEED)
        )
        body = f'<rss version="2.0"><channel><title>{name}</title>{items}</channel></rss>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Do not log."""


class WebhookReceiver(ThreadingHTTPServer):
    """Records the messages it receives: bodies by message id."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _WebhookHandler)
        self.bodies: dict[str, set[bytes]] = {}
        self.requests = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, name="webhook-receiver", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"

    def list_posts(self) -> list[str]:
        """Return the post ids of all messages, each message once."""
        with self.lock:
            bodies = [next(iter(bodies)) for bodies in self.bodies.values()]
        return [match["post_id"] for body in bodies for match in json.loads(body)["data"]["matches"]]


class _WebhookHandler(BaseHTTPRequestHandler):
    server: WebhookReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.requests += 1
            self.server.bodies.setdefault(self.headers["webhook-id"], set()).add(body)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Do not log."""
