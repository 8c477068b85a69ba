"""Hostile servers: each costs its own feed an error, in bounded time and memory, and no other feed anything."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from dataclasses import replace

import pytest
from tests.crawl.servers import MANNERS, answer, feed, rss, serving, visited

from tidings.crawl.article import NotAFeed
from tidings.crawl.fetch import Limits
from tidings.crawl.parser_process import Parser
from tidings.net.allowlist import Allowed

GOOD = rss("a")


async def endless(head, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n\r\n")
    while True:
        writer.write(b"<item>" * 10_000)
        await writer.drain()


async def one_byte_at_a_time(head, writer):
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.2)


async def slow_headers(head, writer):
    for letter in b"HTTP/1.1 200 OK\r\n" * 1_000:
        writer.write(bytes([letter]))
        await writer.drain()
        await asyncio.sleep(0.1)


async def silent(head, writer):
    await asyncio.sleep(60)


async def round_and_round(head, writer):
    writer.write(answer("302 Found", Location=head.split()[1] + "x"))


def bomb(megabytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([packer.compress(bytes(1_000_000)) for _ in range(megabytes)]) + packer.flush()


BILLION = b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "' + b"lol" * 100 + b'">'
for name, before in zip("bcdefghij", "abcdefghi", strict=True):
    BILLION += f'<!ENTITY {name} "{f"&{before};" * 10}">'.encode()
BILLION += b"]><rss version='2.0'><channel><item><title>&j;</title></item></channel></rss>"
EXTERNAL = b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss version="2.0"><channel>'
EXTERNAL += b"<item><guid>1</guid><title>secret: &x;</title></item></channel></rss>"

CASES = {
    "endless": (endless, "larger than 10 MB"),
    "one byte at a time": (one_byte_at_a_time, "took longer than 1.5 seconds"),
    "headers one byte at a time": (slow_headers, "took longer than 1.5 seconds"),
    "silent": (silent, "took longer than 1.5 seconds"),
    "round and round": (round_and_round, "more than 5 redirects"),
    "redirect to a file": (answer("302 Found", Location="file:///etc/passwd"), "which is no address"),
    "gzip bomb": (answer(body=bomb(200), Content_Encoding="gzip"), "larger than 10 MB"),
    "bomb in a bomb": (answer(body=gzip.compress(bomb(50)), Content_Encoding="gzip, gzip"), "which nobody asked for"),
    "broken gzip": (answer(body=b"\x1f\x8b\x08junkjunkjunk", Content_Encoding="gzip"), "cannot be read"),
    "gzip cut short": (answer(body=gzip.compress(GOOD * 50)[:-20], Content_Encoding="gzip"), "ended before its end"),
    "says it is longer than it is": (answer(body=GOOD, Content_Length="9999"), "as it should"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.9\r\n", "as it should"),
    "headers without end": (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000, "as it should"),
    "empty": (answer(body=b""), "the document is empty"),
    "a picture": (answer(body=b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20), "neither RSS nor Atom"),
    "no JSON": (answer(body=b'{"version": "https://jsonfeed.org/version/1"'), "is none"),
    "deep JSON": (answer(body=b'{"items":' + b"[" * 100_000), "is none"),
    "deep XML": (answer(body=b"<rss><channel>" + b"<a>" * 10_000), "broken before its first article"),
}


def test_every_hostile_server_costs_its_own_feed_an_error_and_the_good_ones_nothing():
    async def run():
        from contextlib import AsyncExitStack

        async with AsyncExitStack() as stack:
            urls = [await stack.enter_async_context(serving(handler)) for handler, _ in CASES.values()]
            urls += [await stack.enter_async_context(serving(answer(body=GOOD))) for _ in range(3)]
            return await visited([feed(url, number) for number, url in enumerate(urls)])

    start = time.monotonic()
    outcomes = asyncio.run(run())
    assert time.monotonic() - start < 30
    for number, (case, (_, reason)) in enumerate(CASES.items()):
        told = outcomes[number].visited
        assert (told.state, reason in told.error) == ("failing", True), (case, told.error)
    assert [outcomes[len(CASES) + n].visited.state for n in range(3)] == ["ok"] * 3


def read(parser, *told):
    return asyncio.run(parser.parse(*told))


@pytest.mark.parametrize("document", [BILLION, EXTERNAL], ids=["billion laughs", "external"])
def test_entities_neither_explode_nor_read_files(document):
    parser = Parser(seconds=5)
    try:
        found = read(parser, document, "text/xml", "https://a.example/")
    except NotAFeed:
        return
    finally:
        parser.close()
    assert sum(len(one.title) + len(one.text) for one in found.articles) < 10_000
    assert "root:" not in repr(found)


def test_a_child_that_hangs_is_killed_and_the_next_document_is_read():
    parser = Parser(seconds=1.0)
    read(parser, GOOD, "", "https://a.example/")
    child = parser._child
    child.send_signal(19)  # SIGSTOP: nothing it could read would ever take so long
    start = time.monotonic()
    with pytest.raises(NotAFeed, match="took more than 1 seconds"):
        read(parser, GOOD, "", "https://a.example/")
    assert time.monotonic() - start < 3
    assert child.poll() is not None
    assert len(read(parser, GOOD, "", "https://a.example/").articles) == 1
    parser.close()


def test_a_document_that_needs_too_much_memory_costs_the_child_and_nothing_else():
    parser = Parser()
    with pytest.raises(NotAFeed):
        read(parser, b"[" + b"[]," * 20_000_000 + b"[]]", "", "https://a.example/")
    assert len(read(parser, GOOD, "", "https://a.example/").articles) == 1
    parser.close()


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://[::ffff:127.0.0.1]:{port}/"]
)
def test_no_redirect_leads_inside(location):
    asked = []

    async def secret(head, writer):
        asked.append(head)
        writer.write(answer(body=GOOD))

    async def run():
        async with serving(secret) as inside:
            port = inside.rpartition(":")[2]
            async with serving(answer("301 Moved", Location=location.format(port=port)), "127.0.0.2") as outside:
                return (await visited([feed(outside)], replace(MANNERS, allow=Allowed.parse(["127.0.0.2"]))))[1]

    told = asyncio.run(run()).visited
    assert (told.state, asked) == ("failing", [])
    assert "not a public address" in told.error


def test_what_is_not_allowed_is_refused_at_once():
    async def run():
        async with serving(answer(body=GOOD)) as url:
            return (await visited([feed(url)], replace(MANNERS, allow=Allowed(), limits=Limits())))[1]

    assert "127.0.0.1, which is not a public address" in asyncio.run(run()).visited.error
