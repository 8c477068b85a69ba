"""Connections: limits on headers, time and number, which do not touch live streams and slow but honest clients."""

from __future__ import annotations

import asyncio
import resource
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest
from tests.web.conftest import live_server
from tests.web.test_subscriptions import subscribe

from tidings.testing.http_load import (
    count_closed,
    encode_request,
    half_open_requests,
    open_connection,
    percentile,
    probe_latency,
    read_status,
    request_status,
    send_huge_headers,
)
from tidings.web import http_protocol
from tidings.web.connection_limits import ConnectionCount, ConnectionLimits

QUICK = ConnectionLimits(header_s=1.5, body_s=3.0, response_s=1.5, idle_s=1, linger_s=1.0)
PATIENCE_S = 60.0


@contextmanager
def many_files(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"the limit of open files is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def token_of(client):
    return client.headers["Authorization"].partition(" ")[2]


def exchange(url, *pieces, pause_s=0.0):
    """Send pieces of a request with pauses; return the status, and whether the server closed the connection."""

    async def send():
        reader, writer = await open_connection(url)
        status = asyncio.create_task(read_status(reader))
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause_s)
        closed = await count_closed([(reader, writer)], PATIENCE_S) if await status else 1
        writer.transport.abort()
        return await status, closed == 1

    return asyncio.run(send())


def test_huge_headers_are_refused_early(context):
    with live_server(context) as url:
        flood = asyncio.run(send_huge_headers(url, 64 << 20))
        status = asyncio.run(request_status(url, "/", None))
    assert (flood.status, status) == (431, 200)
    assert flood.sent_bytes < 16 << 20  # what fits into socket buffers until the client reads the response


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * (40 << 10) + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (40 << 10) + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 8_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (400 << 10),
        b"POST /api/posts HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: a\r\n" * 50_000,
    ],
    ids=["url", "long", "many", "short", "unfinished", "trailers"],
)
def test_each_kind_of_large_header_is_refused(context, head):
    with live_server(context, ConnectionLimits(linger_s=1.0)) as url:
        status, is_closed = exchange(url, head)
    assert is_closed
    assert status in ((431, 401) if b"chunked" in head else (431,))  # 401 may be sent before the trailers arrive


def test_headers_of_a_usual_size_are_accepted(context):
    with live_server(context) as url:
        head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nCookie: " + b"a" * (16 << 10) + b"\r\n\r\n"
        assert exchange(url, head) == (200, True)


def test_half_sent_requests_are_closed_and_delay_nobody(context, ann):
    count, limits = 1_500, replace(QUICK, header_s=3.0)
    starts = (b"", b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: ")

    async def attack(url):
        async with (
            half_open_requests(url, count // 3, starts[0]) as silent,
            half_open_requests(url, count // 3, starts[1]) as blank,
            half_open_requests(url, count // 3, starts[2]) as headers,
        ):
            latencies = await probe_latency(url, token_of(ann), 2.0)
            return await count_closed([*silent, *blank, *headers], PATIENCE_S), latencies

    with many_files(2 * count + 500), live_server(context, limits) as url:
        closed, latencies = asyncio.run(attack(url))
    assert closed == count
    assert percentile(latencies) < 5.0


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ([b"GET / HTTP/1.1\r\n", *[b"X: a\r\n"] * 40], 408),  # headers that never end
        ([b"POST /api/opml HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n", *[b"a"] * 40], 401),  # answered early
        ([b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"], 404),  # idle afterwards
        ([b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", *[b"\r\n"] * 40], 404),
    ],
)
def test_a_slow_client_is_disconnected(context, pieces, status):
    with live_server(context, QUICK) as url:
        assert exchange(url, *pieces, pause_s=0.1) == (status, True)


def test_a_slow_body_is_disconnected(context, ann):
    head = encode_request("POST", "/api/posts", token_of(ann), b"a" * 1_000)[:-1_000]
    with live_server(context, QUICK) as url:
        assert exchange(url, head, *[b"a"] * 40, pause_s=0.1) == (408, True)


def test_a_body_at_the_minimum_rate_is_accepted(context, ann):
    body = b'{"text":"' + b"a" * 30_000 + b'"}'
    request = encode_request("POST", "/api/posts", token_of(ann), body)
    pieces = [request[start : start + 1_500] for start in range(0, len(request), 1_500)]
    limits = replace(QUICK, body_s=4.0, min_bytes_per_s=2_000)
    with live_server(context, limits) as url:
        started = time.monotonic()
        assert exchange(url, *pieces, pause_s=0.25) == (202, True)
    assert time.monotonic() - started > limits.body_s


def test_responses_that_are_not_read_are_dropped(context, ann, store_matches):
    identity, requests = subscribe(ann)["id"], 10  # 4 MB each: more than the buffers of the sockets hold
    store_matches(identity, [str(number) for number in range(40)], text=["a" * 100_000] * 40)
    request = encode_request("GET", f"/api/subscriptions/{identity}/matches", token_of(ann))

    async def read_nothing(url):
        reader, writer = await open_connection(url)  # the reader stops at twice its limit of 64 KB
        writer.write(request.replace(b"Connection: close\r\n", b"") * requests)
        await asyncio.sleep(4 * QUICK.response_s)
        received = []
        with suppress(ConnectionError):
            while chunk := await reader.read(1 << 16):
                received.append(len(chunk))
        return sum(received)

    with live_server(context, QUICK) as url:
        assert asyncio.run(read_nothing(url)) < 4_000_000 * (requests - 1)


def test_the_largest_unread_responses_are_dropped_if_all_together_are_too_large(monkeypatch):
    monkeypatch.setattr(http_protocol, "_SWEEP_S", 0.01)
    connections = [Mock() for _ in range(4)]
    for connection, size in zip(connections, (60, 10, 0, 50), strict=True):
        connection.transport.get_write_buffer_size.return_value = size
        connection.transport.abort.side_effect = partial(connections.remove, connection)

    async def sweep():
        with suppress(TimeoutError):
            await asyncio.wait_for(http_protocol.close_overdue(connections, 60), 1.0)

    asyncio.run(sweep())
    assert [connection.transport.get_write_buffer_size() for connection in connections] == [10, 0, 50]


def test_live_streams_outlast_every_limit(context, ann):
    path = f"/api/subscriptions/{subscribe(ann)['id']}/live"

    async def listen(url):
        reader, writer = await open_connection(url)
        writer.write(encode_request("GET", path, token_of(ann)).replace(b"Connection: close\r\n", b""))
        status = await read_status(reader)
        closed = await count_closed([(reader, writer)], 4 * QUICK.header_s)
        writer.transport.abort()
        return status, closed

    with live_server(context, QUICK) as url:
        assert asyncio.run(listen(url)) == (200, 0)


def test_requests_pipelined_behind_a_live_stream_are_limited(context, ann):
    path = f"/api/subscriptions/{subscribe(ann)['id']}/live"
    live = encode_request("GET", path, token_of(ann)).replace(b"Connection: close\r\n", b"")
    with live_server(context) as url:
        assert exchange(url, live + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * 100) in ((200, True), (None, True))


def test_connections_per_client_are_limited_but_not_those_of_a_proxy(context):
    async def hold(url, count):
        async with half_open_requests(url, count):
            return await request_status(url, "/", None)

    limits = ConnectionLimits(connections_per_client=5, trusted_proxies=())
    with live_server(context, limits) as url:
        assert asyncio.run(hold(url, 5)) in (503, None)  # None: reset before it was read
        assert asyncio.run(wait_for_status(url, 200)) == 200
    with live_server(context, ConnectionLimits(connections_per_client=5)) as url:
        assert asyncio.run(hold(url, 20)) == 200
    with live_server(context, ConnectionLimits(connections=5)) as url:
        assert asyncio.run(hold(url, 5)) in (503, None)


async def wait_for_status(url, status):
    """Repeat a request until it gets a status: the server notices closed connections a moment later."""
    end = time.monotonic() + PATIENCE_S
    while (last := await request_status(url, "/", None)) != status and time.monotonic() < end:
        await asyncio.sleep(0.1)
    return last


def test_clients_are_told_apart_by_address():
    count = ConnectionCount(ConnectionLimits(connections=8, connections_per_client=1))
    same = ["192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"]
    clients = [count.add(address) for address in same]
    assert [client is not None for client in clients] == [True, False, True, False, True]
    assert all(count.add(address) == "" for address in ("127.0.0.1", "127.0.0.2", "::1", None))
    assert (count.total, count.add("::1"), count.add("::1")) == (7, "", None)
    for client in [client for client in clients if client is not None] + [""] * 5:
        count.remove(client)
    assert (count.total, dict(count.per_client)) == (0, {})


def test_the_rest_of_a_rejected_body_does_not_lose_the_response(context):
    """Closing at once would reset the connection, and the client would not see why."""
    with live_server(context) as url:
        statuses = [asyncio.run(request_status(url, "/api/posts", None, "POST", b"a" * (4 << 20))) for _ in range(5)]
    assert statuses == [401] * 5


def test_invalid_requests_do_not_fill_the_log(context, caplog):
    requests = (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (100 << 10) + b"\r\n\r\n")
    with live_server(context, QUICK) as url:
        assert [exchange(url, request)[0] for request in requests] == [400, 431]
        assert (
            exchange(url, b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")[0] == 200
        )
    assert caplog.records == []
