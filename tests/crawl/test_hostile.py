"""A hostile server causes an error of its own feed, within limits of time and memory, and affects no other feed."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import time
from dataclasses import replace

import pytest
from tests.crawl.servers import OPTIONS, feed, visit_all

from tidings.crawl.article import NotAFeed
from tidings.crawl.fetch import FetchLimits
from tidings.crawl.parser_process import ParserProcess
from tidings.net.allowlist import AllowedNetworks
from tidings.testing.feed_servers import answer, http_server, rss
from tidings.testing.hostile_servers import (
    drip_body,
    drip_headers,
    never_answer,
    redirect_forever,
    repeat_interim_responses,
    send_endless_body,
    send_endless_headers,
    send_tiny_chunks,
    zip_bomb,
)

GOOD = rss("a")
PRIVATE = "This address is on a private network; the administrator can allow it."


BILLION = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "' + b"lol" * 100 + b'">'
for name, before in zip("bcdefghij", "abcdefghi", strict=True):
    BILLION += f'<!ENTITY {name} "{f"&{before};" * 10}">'.encode()
BILLION += b"]><rss version='2.0'><channel><item><title>&j;</title></item></channel></rss>"
EXTERNAL = b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss version="2.0"><channel>'
EXTERNAL += b"<item><guid>1</guid><title>secret: &x;</title></item></channel></rss>"

CASES = {
    "endless body": (send_endless_body, "larger than 10 MB"),
    "endless headers": (send_endless_headers, "invalid HTTP response"),
    "interim responses": (repeat_interim_responses, "too many interim responses"),
    "tiny chunks": (send_tiny_chunks, "sent in very many tiny pieces"),
    "slow body": (drip_body, "no complete response within 5 seconds"),
    "slow headers": (drip_headers, "no complete response within 5 seconds"),
    "tarpit": (never_answer, "no complete response within 5 seconds"),
    "redirects": (redirect_forever, "more than 5 redirects"),
    "redirect to a file": (answer("302 Found", Location="file:///etc/passwd"), "invalid redirect"),
    "gzip bomb": (answer(body=zip_bomb(200), Content_Encoding="gzip"), "larger than 10 MB"),
    "bomb in a bomb": (
        answer(body=gzip.compress(zip_bomb(50)), Content_Encoding="gzip, gzip"),
        "unexpected Content-Encoding",
    ),
    "broken gzip": (answer(body=b"\x1f\x8b\x08junkjunkjunk", Content_Encoding="gzip"), "invalid compressed data"),
    "gzip cut short": (answer(body=gzip.compress(GOOD * 50)[:-20], Content_Encoding="gzip"), "response truncated"),
    "says it is longer than it is": (answer(body=GOOD, Content_Length="9999"), "invalid HTTP response"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.9\r\n", "invalid HTTP response"),
    "headers without end": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, "invalid HTTP response"),
    "empty": (answer(body=b""), "the document is empty"),
    "a picture": (answer(body=b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20), "neither RSS nor Atom"),
    "no JSON": (answer(body=b'{"version": "https://jsonfeed.org/version/1"'), "invalid JSON"),
    "deep JSON": (answer(body=b'{"items":' + b"[" * 100_000), "invalid JSON"),
    "deep XML": (answer(body=b"<rss><channel>" + b"<a>" * 10_000), "broken before the first article"),
}


def test_hostile_servers_fail_their_own_feeds_only():
    async def run():
        from contextlib import AsyncExitStack

        async with AsyncExitStack() as stack:
            urls = [await stack.enter_async_context(http_server(handler)) for handler, _ in CASES.values()]
            urls += [await stack.enter_async_context(http_server(answer(body=GOOD))) for _ in range(3)]
            visits = [feed(url, number) for number, url in enumerate(urls)]
            return await visit_all(visits, replace(OPTIONS, limits=FetchLimits(seconds=5)))

    start = time.monotonic()
    outcomes = asyncio.run(run())
    assert time.monotonic() - start < 30
    for number, (case, (_, reason)) in enumerate(CASES.items()):
        record = outcomes[number].visited
        assert (record.state, reason in record.error) == ("failing", True), (case, record.error)
    assert [outcomes[len(CASES) + n].visited.state for n in range(3)] == ["ok"] * 3


def parse(parser, *arguments):
    return asyncio.run(parser.parse(*arguments))


@pytest.mark.parametrize("document", [BILLION, EXTERNAL], ids=["billion laughs", "external"])
def test_entities_are_not_expanded_and_read_no_files(document):
    parser = ParserProcess()
    try:
        parsed = parse(parser, document, "text/xml", "https://a.example/")
    except NotAFeed:
        return
    finally:
        parser.close()
    assert sum(len(article.title) + len(article.text) for article in parsed.articles) < 10_000
    assert "root:" not in repr(parsed)


def test_hanging_parser_is_killed_and_the_next_document_is_parsed():
    parser = ParserProcess(wall_s=1.0)
    parse(parser, GOOD, "", "https://a.example/")
    child = parser._child
    os.killpg(child.pid, signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(NotAFeed, match="took more than 5 seconds"):
        parse(parser, GOOD, "", "https://a.example/")
    assert time.monotonic() - start < 3
    assert child.poll() is not None
    assert len(parse(parser, GOOD, "", "https://a.example/").articles) == 1
    parser.close()


def test_parser_survives_a_document_that_needs_too_much_memory():
    parser = ParserProcess()
    with pytest.raises(NotAFeed):
        parse(parser, b"[" + b"[]," * 20_000_000 + b"[]]", "", "https://a.example/")
    assert len(parse(parser, GOOD, "", "https://a.example/").articles) == 1
    parser.close()


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::ffff:127.0.0.1]:{port}/"]
)
def test_redirects_to_private_addresses_are_rejected(location):
    requests = []

    async def secret(head, writer):
        requests.append(head)
        writer.write(answer(body=GOOD))

    async def run():
        async with http_server(secret) as inside:
            port = inside.rpartition(":")[2]
            async with http_server(answer("301 Moved", Location=location.format(port=port)), "127.0.0.2") as outside:
                return (await visit_all([feed(outside)], replace(OPTIONS, allow=AllowedNetworks.parse(["127.0.0.2"]))))[
                    1
                ]

    record = asyncio.run(run()).visited
    assert (record.state, requests) == ("failing", [])
    assert record.error == PRIVATE


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.0.0.1", "[::1]"])
def test_the_error_of_a_private_address_reveals_nothing_about_it(host):
    url = f"http://{host}:9/feed"
    outcome = asyncio.run(visit_all([feed(url)], replace(OPTIONS, allow=AllowedNetworks(), limits=FetchLimits())))[1]
    assert outcome.visited.error == PRIVATE


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_the_error_of_a_closed_port_does_not_show_the_address(host):
    outcome = asyncio.run(visit_all([feed(f"http://{host}:9/feed")], OPTIONS))[1]
    assert outcome.visited.error == "connection failed (connection refused)"


def test_the_error_of_an_unknown_host_tells_what_to_check():
    outcome = asyncio.run(visit_all([feed("http://no-such-host.invalid/feed")], OPTIONS))[1]
    assert outcome.visited.error == "No such website: check the spelling."
