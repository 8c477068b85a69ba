"""Crawling on Spark: due feeds are assigned to crawlers, and new articles are returned."""

from __future__ import annotations

import threading
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from tests.crawl.servers import OPTIONS

from tidings.crawl.loop import CrawlLoop
from tidings.spark.crawl_stage import assign_by_hash, crawl_round
from tidings.store import open_store
from tidings.stream import crawl_app
from tidings.testing.feed_servers import rss


@contextmanager
def feed_server(shown):
    """Serve the current feeds by path, with an ETag."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = shown.get(self.path)
            etag = f'"{hash(body)}"'
            known = self.headers.get("If-None-Match") == etag
            self.send_response(404 if body is None else 304 if known else 200)
            self.send_header("ETag", etag)
            self.send_header("Content-Length", str(0 if known else len(body or b"")))
            self.end_headers()
            if not known:
                self.wfile.write(body or b"")

        def log_message(self, *arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_all_feeds_of_a_host_go_to_one_crawler():
    hosts = [f"h{n % 50}.example" for n in range(200)]
    crawler_of = defaultdict(set)
    for host, crawler in zip(hosts, assign_by_hash(hosts, 4), strict=True):
        crawler_of[host].add(crawler)
    assert {len(crawlers) for crawlers in crawler_of.values()} == {1}
    assert set().union(*crawler_of.values()) == {0, 1, 2, 3}


def test_rounds_return_every_article_once_and_then_only_new_ones(spark, tmp_path):
    shown = {f"/{n}": rss(f"{n}a", f"{n}b", title=f"Feed {n}") for n in range(30)}
    with feed_server(shown) as url, open_store(tmp_path) as store:
        feeds = [store.feeds.add(url + path) for path in (*shown, "/missing")]

        def visit(due, known, lane):
            options = OPTIONS.in_lane(lane)
            return crawl_round(
                spark, due, known, options, 3, lambda hosts, crawlers: [n % 3 for n in range(len(hosts))]
            )

        def crawl_all():
            store.database.execute("UPDATE feed SET due_at = 0")
            rounds = CrawlLoop(store, tmp_path / "inbox", OPTIONS.rate_limit, visit)
            return rounds.run(threading.Event(), once=True)

        first = crawl_all()
        shown["/7"] = rss("7c", "7a", "7b")
        second = crawl_all()
        health = {feed.id: feed for feed in store.feeds.all()}
    assert (first.visits, first.articles, first.steps) == (31, 60, {"read": 30, "failed": 1})
    assert (second.articles, second.steps) == (1, {"unchanged": 29, "read": 1, "failed": 1})
    assert [health[feed].title for feed in feeds[:3]] == ["Feed 0", "Feed 1", "Feed 2"]
    assert (health[feeds[-1]].state, health[feeds[-1]].error) == ("failing", "not found")
    assert sum(len(file.read_text().splitlines()) for file in (tmp_path / "inbox").iterdir()) == 61


def test_crawlers_get_the_secret_key_of_the_store_for_post_ids(tmp_path, monkeypatch):
    class Started(Exception):
        pass

    def start_round(spark, feeds, known, options, crawlers):
        raise Started(options.post_id_key)

    spark = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=4))
    monkeypatch.setattr(crawl_app, "_crawl_session", lambda master: nullcontext(spark))
    monkeypatch.setattr(crawl_app, "crawl_round", start_round)
    with open_store(tmp_path) as store:
        store.feeds.add("https://a.example/f")
        key = store.accounts.derive_key("post ids")
    with pytest.raises(Started, match=key):
        crawl_app.run_crawl(crawl_app.CrawlJob(str(tmp_path), tmp_path / "inbox", once=True))
