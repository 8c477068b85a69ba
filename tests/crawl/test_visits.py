"""A crawler visits real servers on loopback: the four steps, redirects, and what servers say about when to come."""

from __future__ import annotations

import asyncio
from email.utils import formatdate

from tests.crawl.servers import BEGIN, MANNERS, again, answer, feed, item, rss, serving, visited

from tidings.crawl.crawler import Crawler
from tidings.crawl.parse import parse
from tidings.crawl.parser_process import Parser
from tidings.net.ssrf_guard import USER_AGENT


def visits(handler, count=1, path="/feed", step_s=3_600.0):
    """The outcomes of visits one after the other, each knowing the one before."""

    async def run():
        outcomes = []
        async with serving(handler) as url:
            asked = feed(url + path)
            for number in range(count):
                outcome = (await visited([asked], now=BEGIN + number * step_s))[1]
                outcomes.append(outcome)
                asked = again(asked, outcome)
        return outcomes

    return asyncio.run(run())


def scripted(*answers):
    """A handler that gives one answer after the other, and the heads of the requests."""
    left, heads = list(answers), []

    async def handler(head, writer):
        heads.append(head)
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return handler, heads


def ids(outcome):
    return [post["title"] for post in outcome.visited.posts]


def test_the_first_visit_brings_everything_and_introduces_us():
    handler, heads = scripted(answer(body=rss("a", "b")))
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


def test_a_document_that_did_not_change_is_not_sent_again():
    handler, heads = scripted(
        answer(body=rss("a"), ETag='"1"', Last_Modified=formatdate(BEGIN)), answer("304 Not Modified")
    )
    first, second = visits(handler, 2)
    assert (first.step, second.step, second.visited.state, ids(second)) == ("read", "unchanged", "ok", [])
    assert 'If-None-Match: "1"' in heads[1]
    assert f"If-Modified-Since: {formatdate(BEGIN)}" in heads[1]
    assert second.wire_bytes < 100 < first.wire_bytes


def test_a_document_that_is_sent_again_is_not_read_again():
    handler, _ = scripted(answer(body=rss("a")))
    assert [one.step for one in visits(handler, 2)] == ["read", "same"]


def test_only_new_articles_go_on_and_changed_ones_are_updates():
    first = rss("a", "b")
    second = rss("c", item("a", text="All of it, corrected"), "b")
    handler, _ = scripted(answer(body=first), answer(body=second), answer(body=second + b" "))
    one, two, three = visits(handler, 3)
    assert (ids(one), ids(two), ids(three)) == (["About a", "About b"], ["About c"], [])
    assert (two.updated, three.step, three.updated) == (1, "read", 0)


def test_a_version_that_cannot_be_sent_back_is_not():
    handler, heads = scripted(answer(body=rss("a"), ETag='"\xe9\u0142"'), answer(body=rss("a", "b")))
    first, second = visits(handler, 2)
    assert (first.visited.state, ids(second)) == ("ok", ["About b"])
    assert "If-None-Match" not in heads[1]


def test_an_address_is_asked_for_as_it_is_written():
    handler, heads = scripted(answer(body=rss("a")))
    visits(handler, path="/a%2Fb/c%7E?q=%C3%A9+%26&x")
    assert heads[0].startswith("GET /a%2Fb/c%7E?q=%C3%A9+%26&x HTTP/1.1")


def test_a_permanent_redirect_is_remembered_and_a_temporary_one_is_not():
    async def handler(head, writer):
        path = head.split()[1]
        to = {"/old": ("301 Moved", "/new"), "/new": ("308 Moved", "/newest"), "/today": ("302 Found", "/newest")}
        to["/mixed"] = ("302 Found", "/old")
        writer.write(answer(to[path][0], Location=to[path][1]) if path in to else answer(body=rss("a")))

    for path, lasting in (("/old", "/newest"), ("/today", "/today"), ("/mixed", "/mixed")):
        (outcome,) = visits(handler, path=path)
        assert outcome.visited.url.endswith(lasting)
        assert outcome.visited.state == "ok"


def test_a_redirect_to_what_is_no_feed_is_not_remembered():
    async def handler(head, writer):
        moved = answer("301 Moved", Location="/parked")
        writer.write(moved if "/old" in head.split()[1] else answer(body=b"<html><body>for sale</body></html>"))

    (outcome,) = visits(handler, path="/old")
    assert outcome.visited.url.endswith("/old")
    assert outcome.visited.error == "it is a page that points to no feed"


def test_a_feed_that_is_gone_is_never_asked_again():
    (outcome,) = visits(answer("410 Gone"))
    assert (outcome.visited.state, outcome.visited.due_at) == ("gone", None)


def test_a_server_that_is_busy_is_left_alone_as_long_as_it_says():
    for told in ("7200", formatdate(BEGIN + 7_200, usegmt=True)):
        (outcome,) = visits(answer("429 Too Many", Retry_After=told))
        assert 7_199 <= outcome.wait_s <= 7_200
        assert outcome.visited.due_at >= BEGIN + 7_199
        assert outcome.visited.error == "we asked too often"


def test_a_page_leads_to_its_feed_which_is_remembered():
    page = b'<!doctype html><head><link rel=alternate type="application/rss+xml" title="Comments" href="/comments">'
    page += b'<link rel="alternate" type="application/atom+xml" href="feed.xml"></head>'

    async def handler(head, writer):
        writer.write(answer(body=rss("a") if head.split()[1] == "/blog/feed.xml" else page))

    (outcome,) = visits(handler, path="/blog/")
    assert (ids(outcome), outcome.visited.state) == (["About a"], "ok")
    assert outcome.visited.url.endswith("/blog/feed.xml")


def test_ttl_and_cache_control_are_heeded():
    (plain,), (ttl,), (cached,) = (
        visits(answer(body=rss("a", head=head), **headers))
        for head, headers in (("", {}), ("<ttl>600</ttl>", {}), ("", {"Cache_Control": "public, max-age=30000"}))
    )
    assert plain.visited.due_at < BEGIN + 20_000
    assert BEGIN + 0.95 * 36_000 <= ttl.visited.due_at <= BEGIN + 1.05 * 36_000
    assert BEGIN + 0.95 * 30_000 <= cached.visited.due_at <= BEGIN + 1.05 * 30_000


def test_ttl_is_heeded_also_after_a_visit_that_brought_nothing():
    head = "<ttl>600</ttl>"
    handler, _ = scripted(answer(body=rss("a", head=head), ETag='"1"'), answer("304 Not Modified"))
    _, second = visits(handler, 2)
    assert second.step == "unchanged"
    assert second.visited.due_at - second.visited.checked_at >= 0.95 * 36_000


def test_a_feed_that_broke_is_read_again_as_soon_as_it_is_mended():
    broken = b"<html><body>Internal error</body></html>"
    handler, heads = scripted(
        answer(body=rss("a"), ETag='"1"'), answer(body=broken, ETag='"2"'), answer(body=rss("a", "b"))
    )
    _, second, third = visits(handler, 3)
    assert (second.visited.state, ids(third)) == ("failing", ["About b"])
    assert 'If-None-Match: "1"' in heads[2]


def test_a_crawler_with_two_parsers_reads_two_documents_at_once():
    class Meeting(Parser):
        async def parse(self, document, content_type, url):
            await asyncio.wait_for(both.wait(), 5.0)
            return parse(document, content_type, url)

    async def run():
        async with serving(answer(body=rss("a"))) as url:
            crawler = Crawler(MANNERS, [Meeting(), Meeting()], lambda: BEGIN)
            return [one.step async for one in crawler.visit_all([feed(url, number) for number in range(4)])]

    both = asyncio.Barrier(2)
    assert asyncio.run(run()) == ["read"] * 4
