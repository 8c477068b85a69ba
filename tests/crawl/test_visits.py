"""A crawler visits servers on loopback: the four steps, redirects, and intervals that servers request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from email.utils import formatdate
from hashlib import blake2b

import pytest
from tests.crawl.servers import BEGIN, OPTIONS, after_visit, feed, visit_all

from tidings.crawl.crawler import Crawler
from tidings.crawl.decide import VisitMemory, to_posts
from tidings.crawl.identity import NewArticle
from tidings.crawl.parse import parse
from tidings.crawl.parser_process import CPU_S, ParserProcess
from tidings.net.ssrf_guard import USER_AGENT
from tidings.testing.feed_servers import answer, http_server, item, rss


def visits(handler, count=1, path="/feed", step_s=3_600.0):
    """Return the outcomes of consecutive visits."""

    async def run():
        outcomes = []
        async with http_server(handler) as url:
            due = feed(url + path)
            for number in range(count):
                outcome = (await visit_all([due], now=BEGIN + number * step_s))[1]
                outcomes.append(outcome)
                due = after_visit(due, outcome)
        return outcomes

    return asyncio.run(run())


def script_answers(*answers):
    """Return a handler that sends the answers in turn, and the list of request heads."""
    left, heads = list(answers), []

    async def handler(head, writer):
        heads.append(head)
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return handler, heads


def ids(outcome):
    return [post["title"] for post in outcome.visited.posts]


def test_first_visit_returns_all_articles_and_sends_the_user_agent():
    handler, heads = script_answers(answer(body=rss("a", "b")))
    (outcome,) = visits(handler)
    assert ids(outcome) == ["About a", "About b"]
    assert (outcome.visited.state, outcome.visited.title, outcome.visited.site) == (
        "ok",
        "A feed",
        "https://site.example/",
    )
    assert f"User-Agent: {USER_AGENT}" in heads[0]
    post = outcome.visited.posts[0]
    assert (post["text"], post["link"], post["time"]) == ("All of a", "https://site.example/a", "2026-09-21T14:13:20Z")


def test_unchanged_document_is_requested_conditionally():
    handler, heads = script_answers(
        answer(body=rss("a"), ETag='"1"', Last_Modified=formatdate(BEGIN)), answer("304 Not Modified")
    )
    first, second = visits(handler, 2)
    assert (first.step, second.step, second.visited.state, ids(second)) == ("read", "unchanged", "ok", [])
    assert 'If-None-Match: "1"' in heads[1]
    assert f"If-Modified-Since: {formatdate(BEGIN)}" in heads[1]
    assert second.wire_bytes < 100 < first.wire_bytes


def test_same_document_is_not_parsed_again():
    handler, _ = script_answers(answer(body=rss("a")))
    assert [outcome.step for outcome in visits(handler, 2)] == ["read", "same"]


def test_only_new_articles_become_posts_and_changed_ones_are_updates():
    first = rss("a", "b")
    second = rss("c", item("a", text="All of it, corrected"), "b")
    handler, _ = script_answers(answer(body=first), answer(body=second), answer(body=second + b" "))
    one, two, three = visits(handler, 3)
    assert (ids(one), ids(two), ids(three)) == (["About a", "About b"], ["About c"], [])
    assert (two.updated, three.step, three.updated) == (1, "read", 0)


def test_invalid_etag_is_not_sent_back():
    handler, heads = script_answers(answer(body=rss("a"), ETag='"\xe9\u0142"'), answer(body=rss("a", "b")))
    first, second = visits(handler, 2)
    assert (first.visited.state, ids(second)) == ("ok", ["About b"])
    assert "If-None-Match" not in heads[1]


def test_url_is_requested_as_written():
    handler, heads = script_answers(answer(body=rss("a")))
    visits(handler, path="/a%2Fb/c%7E?q=%C3%A9+%26&x")
    assert heads[0].startswith("GET /a%2Fb/c%7E?q=%C3%A9+%26&x HTTP/1.1")


def test_permanent_redirect_is_stored_and_a_temporary_one_is_not():
    async def handler(head, writer):
        path = head.split()[1]
        to = {"/old": ("301 Moved", "/new"), "/new": ("308 Moved", "/newest"), "/today": ("302 Found", "/newest")}
        to["/mixed"] = ("302 Found", "/old")
        writer.write(answer(to[path][0], Location=to[path][1]) if path in to else answer(body=rss("a")))

    for path, permanent in (("/old", "/newest"), ("/today", "/today"), ("/mixed", "/mixed")):
        (outcome,) = visits(handler, path=path)
        assert outcome.visited.url.endswith(permanent)
        assert outcome.visited.state == "ok"


def test_permanent_redirect_to_a_page_is_not_stored():
    async def handler(head, writer):
        moved = answer("301 Moved", Location="/parked")
        writer.write(moved if "/old" in head.split()[1] else answer(body=b"<html><body>for sale</body></html>"))

    (outcome,) = visits(handler, path="/old")
    assert outcome.visited.url.endswith("/old")
    assert outcome.visited.error == "an HTML page without a link to a feed"


def test_feed_that_is_gone_is_never_due_again():
    (outcome,) = visits(answer("410 Gone"))
    assert (outcome.visited.state, outcome.visited.due_at) == ("gone", None)


def test_retry_after_is_honoured():
    for retry_after in ("7200", formatdate(BEGIN + 7_200, usegmt=True)):
        (outcome,) = visits(answer("429 Too Many", Retry_After=retry_after))
        assert 7_199 <= outcome.wait_s <= 7_200
        assert outcome.visited.due_at >= BEGIN + 7_199
        assert outcome.visited.error == "too many requests"


def test_page_leads_to_its_feed_whose_url_is_stored():
    page = b'<!doctype html><head><link rel=alternate type="application/rss+xml" title="Comments" href="/comments">'
    page += b'<link rel="alternate" type="application/atom+xml" href="feed.xml"></head>'

    async def handler(head, writer):
        writer.write(answer(body=rss("a") if head.split()[1] == "/blog/feed.xml" else page))

    (outcome,) = visits(handler, path="/blog/")
    assert (ids(outcome), outcome.visited.state) == (["About a"], "ok")
    assert outcome.visited.url.endswith("/blog/feed.xml")


def test_a_page_and_its_feed_share_the_time_of_a_visit():
    async def handler(head, writer):
        await asyncio.sleep(0.9)
        page = b'<html><link rel="alternate" type="application/rss+xml" href="/feed.xml"></html>'
        writer.write(answer(body=rss("a") if head.split()[1] == "/feed.xml" else page))

    (outcome,) = visits(handler, path="/blog/")
    assert outcome.visited.error == "no complete response within 1.5 seconds"


def test_ttl_and_cache_control_are_honoured():
    (plain,), (ttl,), (cached,) = (
        visits(answer(body=rss("a", head=head), **headers))
        for head, headers in (("", {}), ("<ttl>600</ttl>", {}), ("", {"Cache_Control": "public, max-age=30000"}))
    )
    assert plain.visited.due_at < BEGIN + 20_000
    assert BEGIN + 0.95 * 36_000 <= ttl.visited.due_at <= BEGIN + 1.05 * 36_000
    assert BEGIN + 0.95 * 30_000 <= cached.visited.due_at <= BEGIN + 1.05 * 30_000


def test_ttl_is_honoured_after_an_unchanged_document():
    head = "<ttl>600</ttl>"
    handler, _ = script_answers(answer(body=rss("a", head=head), ETag='"1"'), answer("304 Not Modified"))
    _, second = visits(handler, 2)
    assert second.step == "unchanged"
    assert second.visited.due_at - second.visited.checked_at >= 0.95 * 36_000


def test_feed_is_read_again_after_it_was_broken():
    broken = b"<html><body>Internal error</body></html>"
    handler, heads = script_answers(
        answer(body=rss("a"), ETag='"1"'), answer(body=broken, ETag='"2"'), answer(body=rss("a", "b"))
    )
    _, second, third = visits(handler, 3)
    assert (second.visited.state, ids(third)) == ("failing", ["About b"])
    assert 'If-None-Match: "1"' in heads[2]


def test_crawler_with_two_parsers_parses_two_documents_concurrently():
    class MeetingParser(ParserProcess):
        async def parse(self, document, content_type, url, cpu_s=CPU_S):
            await asyncio.wait_for(both.wait(), 5.0)
            return parse(document, content_type, url)

    async def run():
        async with http_server(answer(body=rss("a"))) as url:
            crawler = Crawler(OPTIONS, [MeetingParser(), MeetingParser()], lambda: BEGIN)
            return [outcome.step async for outcome in crawler.visit_all([feed(url, number) for number in range(4)])]

    both = asyncio.Barrier(2)
    assert asyncio.run(run()) == ["read"] * 4


DATED = rss(item("old", date=1_600_000_000), item("newest", date=1_700_000_000), item("middle", date=1_650_000_000))


@pytest.mark.parametrize(("newest", "sent"), [(0, []), (2, ["About newest", "About middle"]), (9, None)])
def test_articles_of_the_first_document_are_backlog_except_the_newest(newest, sent):
    async def run():
        async with http_server(answer(body=DATED)) as url:
            return (await visit_all([feed(url)], replace(OPTIONS, webhook_backlog=newest)))[1]

    visited = asyncio.run(run()).visited
    kept = [post["title"] for post in visited.posts if post["id"] not in visited.backlog]
    assert len(visited.posts) == 3
    assert set(kept) == ({post["title"] for post in visited.posts} if sent is None else set(sent))


def test_later_articles_are_not_backlog():
    handler, _ = script_answers(answer("404 Not Found"), answer(body=rss("a")), answer(body=rss("a", "b")))
    failed, first, second = visits(handler, 3)
    assert [len(outcome.visited.backlog) for outcome in (failed, first, second)] == [0, 1, 0]
    assert ids(second) == ["About b"]


DAY_S = 86_400.0
LATER = rss(
    item("archive", date=1_500_000_000),
    item("old", date=BEGIN - 2 * DAY_S),
    item("today", date=BEGIN - DAY_S / 2),
    item("new", date=BEGIN + 60),
    item("undated"),
)


@pytest.mark.parametrize("first", [rss(), rss(item("new", date=BEGIN + 60))])
def test_old_articles_of_a_later_document_are_backlog(first):
    handler, _ = script_answers(answer(body=first), answer(body=LATER))
    second = visits(handler, 2)[1].visited
    backlog = {post["title"] for post in second.posts if post["id"] in second.backlog}
    assert backlog == {"About archive", "About old"}
    assert {"About today", "About undated"} <= {post["title"] for post in second.posts}


@pytest.mark.parametrize(("newest", "sent"), [(1, [1, 0]), (2, [1, 1]), (9, [1, 2])])
def test_later_articles_of_the_backlog_are_sent_up_to_its_limit(newest, sent):
    first = rss(item("first", date=BEGIN - 3 * DAY_S))

    async def run():
        documents = iter([first, first + b" ", LATER])

        async def handler(head, writer):
            writer.write(answer(body=next(documents)))

        async with http_server(handler) as url:
            due, counts = feed(url), []
            for _ in range(3):
                outcome = (await visit_all([due], replace(OPTIONS, webhook_backlog=newest)))[1]
                due = after_visit(due, outcome)
                old = [post for post in outcome.visited.posts if post["title"][6:] in ("first", "archive", "old")]
                counts.append(len(old) - len(outcome.visited.backlog))
        return counts

    assert asyncio.run(run()) == [sent[0], 0, sent[1]]


def test_a_feed_that_an_older_version_read_first_sends_all_later_articles():
    handler, _ = script_answers(answer(body=LATER))

    async def run():
        async with http_server(handler) as url:
            known = replace(feed(url), memory=VisitMemory.from_json('{"visits": 1, "read_at": 1.0}'))
            return (await visit_all([known]))[1]

    visited = asyncio.run(run()).visited
    assert (len(visited.posts), len(visited.backlog)) == (5, 0)
    assert VisitMemory.from_json(visited.visit).first_read_at is None


def post_id(url, key=""):
    document = parse(rss("a"), "", url)
    new = [NewArticle(document.articles[0], "a")]
    return next(iter(to_posts(feed(url), document, new, BEGIN, key)))["id"]


def test_post_ids_reveal_nothing_about_the_password_of_a_feed():
    url, key = "https://ann:secret@a.example/f", "5e" * 32
    for guess in (url, "https://a.example/f"):
        assert post_id(url, key) != f"{blake2b(guess.encode(), digest_size=16).hexdigest()[:12]}-a"
    assert post_id(url, key) != post_id(url, "5f" * 32)
    assert post_id(url, key) == post_id(url, key)  # a feed that is added again sends nothing twice


def test_feeds_that_differ_in_the_password_only_have_different_posts():
    first, second = (post_id(f"https://ann:{password}@a.example/f", "key") for password in "ab")
    assert first != second


def test_post_ids_of_feeds_without_password_are_the_same_in_all_versions():
    assert post_id("https://a.example/f", "key") == post_id("https://a.example/f") == "01baa4cfeacd-a"


def test_a_feed_without_items_says_why_until_it_has_some():
    empty = answer(body=rss(), ETag='"1"')
    handler, _ = script_answers(empty, answer("304 Not Modified"), answer(body=rss("a")))
    outcomes = visits(handler, 3)
    assert [outcome.visited.state for outcome in outcomes] == ["ok"] * 3
    assert [outcome.visited.error for outcome in outcomes] == ["no items: this RSS channel is empty"] * 2 + [""]
