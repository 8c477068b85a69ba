"""The door to the Internet does not lead back inside."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver

from tidings.errors import InputError
from tidings.net.allowlist import LOOPBACK, PUBLIC_ONLY, Allowed
from tidings.net.ssrf_guard import guarded_session, refusal
from tidings.net.urls import checked_url

INSIDE = """127.0.0.1 127.255.0.9 0.0.0.0 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
100.100.100.200 168.63.129.16 192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255 240.0.0.1 ::1 :: fe80::1 fe80::1%eth0
fc00::1 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe ::127.0.0.1 64:ff9b::7f00:1
64:ff9b:1::1 2002:7f00:1:: 2001:0:7f00:1:: 2001:db8::1 fec0::1 100::1 nonsense""".split()
OUTSIDE = (
    "8.8.8.8 1.1.1.1 172.32.0.1 100.128.0.1 169.253.0.1 2606:4700:4700::1111 2a00:1450:4001::64 ::ffff:8.8.8.8".split()
)


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_that_lead_inside_are_refused(address):
    assert not PUBLIC_ONLY.reaches(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_public_addresses_are_reached(address):
    assert PUBLIC_ONLY.reaches(address)


def test_what_is_allowed_is_reached_and_nothing_else():
    allow = Allowed.parse(["loopback", "10.1.0.0/16"])
    assert [allow.reaches(one) for one in ("127.3.2.1", "::1", "::ffff:127.0.0.1", "10.1.2.3", "10.2.0.1")] == [
        *[True] * 4,
        False,
    ]
    with pytest.raises(InputError, match="'intranet' is no network"):
        Allowed.parse(["intranet"])


@asynccontextmanager
async def secret_server():
    """A server on loopback, and how often it was asked."""
    asked = []

    async def answer(request):
        asked.append(request.path)
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
        yield port, asked
    finally:
        await runner.cleanup()


async def outcome(session, url, **options):
    try:
        async with session.get(url, **options) as answer:
            return await answer.text()
    except aiohttp.ClientError as error:
        return refusal(error)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0"],
)
def test_no_spelling_of_loopback_is_connected_to(host):
    async def tried():
        async with secret_server() as (port, asked), guarded_session() as session:
            told = await outcome(session, f"http://{host}:{port}/secret")
            return told, asked

    told, asked = asyncio.run(tried())
    assert told != "secret"
    assert asked == []


class Rebinding(AbstractResolver):
    """A name server that says what the guard wants to hear, and a resolver that believes something else after."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def resolve(self, host, port=0, family=socket.AF_INET):
        address = self.answers.pop(0)
        return [{"hostname": host, "host": address, "port": port, "family": socket.AF_INET, "proto": 6, "flags": 0}]

    async def close(self):
        pass


def test_a_name_that_resolves_inside_behind_the_resolvers_back_is_refused_at_the_socket():
    async def tried():
        async with (
            secret_server() as (port, asked),
            guarded_session(resolver=Rebinding("127.0.0.1")) as session,
        ):
            return await outcome(session, f"http://harmless.example:{port}/secret"), asked

    told, asked = asyncio.run(tried())
    assert told.address == "127.0.0.1"
    assert asked == []


def test_a_redirect_inside_is_refused_also_where_it_is_followed():
    async def tried():
        # the first answer is allowed, being on another loopback address, and sends us to one that is not
        allow = Allowed.parse(["127.0.0.2"])
        async with secret_server() as (port, asked), guarded_session(allow, resolver=Rebinding("127.0.0.2")) as session:

            async def inside(request):
                raise web.HTTPFound(f"http://127.0.0.1:{port}/")

            runner = web.AppRunner(app := web.Application())
            app.router.add_get("/", inside)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.2", 0).start()
            first = runner.addresses[0][1]
            told = await outcome(session, f"http://harmless.example:{first}/", allow_redirects=True)
            await runner.cleanup()
            return told, asked

    told, asked = asyncio.run(tried())
    assert told.address == "127.0.0.1"
    assert asked == []


def test_what_is_allowed_answers():
    async def tried():
        async with secret_server() as (port, _), guarded_session(Allowed(LOOPBACK)) as session:
            return [await outcome(session, f"http://{host}:{port}/") for host in ("127.0.0.1", "localhost")]

    assert asyncio.run(tried()) == ["secret", "secret"]


@pytest.mark.parametrize(
    ("given", "made"),
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
def test_one_address_has_one_spelling(given, made):
    assert checked_url(given) == made
    assert checked_url(made) == made


@pytest.mark.parametrize(
    "given",
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
def test_what_http_cannot_fetch_is_refused_in_one_sentence(given):
    with pytest.raises(InputError, match="is no address"):
        checked_url(given)
