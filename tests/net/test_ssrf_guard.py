"""The SSRF guard: user-supplied URLs cannot reach internal networks."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver

from tidings.errors import InputError
from tidings.net.allowlist import LOOPBACK, PUBLIC_ONLY, AllowedNetworks
from tidings.net.interim_limit import MAX_INTERIM_RESPONSES, TooManyInterimResponses
from tidings.net.ssrf_guard import find_refusal, guarded_session
from tidings.net.urls import normalize_url
from tidings.testing.feed_servers import answer, http_server

INTERNAL = """127.0.0.1 127.255.0.9 0.0.0.0 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
100.100.100.200 168.63.129.16 192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255 240.0.0.1 ::1 :: fe80::1 fe80::1%eth0
fc00::1 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe ::127.0.0.1 64:ff9b::7f00:1
64:ff9b:1::1 2002:7f00:1:: 2001:0:7f00:1:: 2001:db8::1 fec0::1 100::1 nonsense""".split()
PUBLIC = (
    "8.8.8.8 1.1.1.1 172.32.0.1 100.128.0.1 169.253.0.1 2606:4700:4700::1111 2a00:1450:4001::64 ::ffff:8.8.8.8".split()
)


@pytest.mark.parametrize("address", INTERNAL)
def test_internal_addresses_are_not_permitted(address):
    assert not PUBLIC_ONLY.permits(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_permitted(address):
    assert PUBLIC_ONLY.permits(address)


def test_only_allowed_internal_networks_are_permitted():
    allow = AllowedNetworks.parse(["loopback", "10.1.0.0/16"])
    assert [allow.permits(address) for address in ("127.3.2.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "10.2.0.1")] == [
        *[True] * 4,
        False,
    ]
    with pytest.raises(InputError, match="'intranet': not a network"):
        AllowedNetworks.parse(["intranet"])


@asynccontextmanager
async def secret_server():
    """Run a server on loopback; yield its port and the paths requested."""
    requested = []

    async def answer(request):
        requested.append(request.path)
        if request.path == "/redirect":
            raise web.HTTPFound(f"http://127.0.0.1:{port}/secret")
        return web.Response(text="secret")

    app = web.Application()
    app.router.add_get("/{any:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        yield port, requested
    finally:
        await runner.cleanup()


async def fetch_text(session, url, **options):
    async with session.get(url, **options) as received:
        return await received.text()


async def fetch(session, url, **options):
    try:
        return await fetch_text(session, url, **options)
    except aiohttp.ClientError as error:
        return find_refusal(error)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"],
)
def test_no_spelling_of_loopback_is_reached(host):
    async def attempt():
        async with secret_server() as (port, requested), guarded_session() as session:
            result = await fetch(session, f"http://{host}:{port}/secret")
            return result, requested

    result, requested = asyncio.run(attempt())
    assert result != "secret"
    assert requested == []


class Rebinding(AbstractResolver):
    """A resolver that bypasses the check of names."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def resolve(self, host, port=0, family=socket.AF_INET):
        address = self.answers.pop(0)
        return [{"hostname": host, "host": address, "port": port, "family": socket.AF_INET, "proto": 6, "flags": 0}]

    async def close(self):
        pass


def test_an_internal_address_is_refused_when_the_socket_is_created():
    async def attempt():
        async with (
            secret_server() as (port, requested),
            guarded_session(resolver=Rebinding("127.0.0.1")) as session,
        ):
            return await fetch(session, f"http://harmless.example:{port}/secret"), requested

    result, requested = asyncio.run(attempt())
    assert result.address == "127.0.0.1"
    assert requested == []


def test_a_redirect_to_an_internal_address_is_refused():
    async def attempt():
        # the first server is on an allowed loopback address and redirects to one that is not allowed
        allow = AllowedNetworks.parse(["127.0.0.2"])
        async with (
            secret_server() as (port, requested),
            guarded_session(allow, resolver=Rebinding("127.0.0.2")) as session,
        ):

            async def inside(request):
                raise web.HTTPFound(f"http://127.0.0.1:{port}/")

            runner = web.AppRunner(app := web.Application())
            app.router.add_get("/", inside)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.2", 0).start()
            first = runner.addresses[0][1]
            result = await fetch(session, f"http://harmless.example:{first}/", allow_redirects=True)
            await runner.cleanup()
            return result, requested

    result, requested = asyncio.run(attempt())
    assert result.address == "127.0.0.1"
    assert requested == []


def test_lookups_do_not_wait_for_name_servers_that_never_answer(monkeypatch):
    release = threading.Event()

    def look_up(host, port, *arguments):
        if host != "good.example":
            release.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", port))]

    async def resolve():
        session = guarded_session(connections=200)
        resolver = session.connector._resolver
        dead = [asyncio.create_task(resolver.resolve(f"{number}.dead.example")) for number in range(199)]
        try:
            await asyncio.sleep(0)
            return await asyncio.wait_for(resolver.resolve("good.example"), 10)
        finally:
            release.set()
            await asyncio.gather(*dead)
            await session.close()

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert [found["host"] for found in asyncio.run(resolve())] == ["8.8.8.8"]


def test_allowed_addresses_are_reached():
    async def attempt():
        async with secret_server() as (port, _), guarded_session(AllowedNetworks(LOOPBACK)) as session:
            return [await fetch(session, f"http://{host}:{port}/") for host in ("127.0.0.1", "localhost")]

    assert asyncio.run(attempt()) == ["secret", "secret"]


def test_interim_responses_are_limited_by_default():
    async def attempt(interim_responses):
        response = b"HTTP/1.1 103 Early Hints\r\n\r\n" * interim_responses + answer(body=b"secret")
        async with http_server(response) as url, guarded_session(AllowedNetworks(LOOPBACK)) as session:
            return await fetch_text(session, url)

    assert asyncio.run(attempt(MAX_INTERIM_RESPONSES)) == "secret"
    with pytest.raises(TooManyInterimResponses):
        asyncio.run(attempt(MAX_INTERIM_RESPONSES + 1))


@pytest.mark.parametrize(
    ("url", "normalized"),
    [
        (" HTTP://Example.COM:80 ", "http://example.com/"),
        ("https://example.com:443/a?b=c#d", "https://example.com/a?b=c"),
        ("example.com/feed", "https://example.com/feed"),
        ("feed://example.com/x", "http://example.com/x"),
        ("feed:https://example.com/x", "https://example.com/x"),
        ("https://bücher.example/ä?q=ö", "https://xn--bcher-kva.example/%C3%A4?q=%C3%B6"),
        ("http://[2606:4700::1]:8080/", "http://[2606:4700::1]:8080/"),
    ],
)
def test_urls_are_normalized(url, normalized):
    assert normalize_url(url) == normalized
    assert normalize_url(normalized) == normalized


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://example.com/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http://a b/",
        "http://x:99999/",
        "http://[::1",
        "http://" + "a" * 3000,
        "http://a\x00b/",
        "http://\udcff/",
    ],
)
def test_an_invalid_url_is_rejected_with_one_sentence(url):
    with pytest.raises(InputError, match=r"not a web address|only http and https addresses"):
        normalize_url(url)
