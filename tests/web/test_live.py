"""Live events: every new match once, also after a reconnect."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.web.conftest import live_server
from tests.web.test_subscriptions import subscribe

from tidings.web import live as live_module

TIMEOUT_S = 60


class Events:
    """The events of an open connection."""

    def __init__(self, answer):
        self.answer = answer

    def next(self):
        event, deadline = {}, time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:  # pings keep the connection alive
            line = self.answer.readline().decode()
            assert line, "the connection was closed"
            if not line.strip() and "event" in event:
                return event
            name, _, value = line.strip().partition(":")
            if name:
                event[name] = value.strip()
        raise AssertionError("no event arrived")

    def posts(self, count):
        return [json.loads(event["data"])["post_id"] for event in (self.next() for _ in range(count))]


@contextmanager
def events(url, path, **headers):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    try:
        assert answer.status == 200, answer.read()
        assert answer.getheader("content-type").startswith("text/event-stream")
        yield Events(answer)
    finally:
        answer.close()
        connection.close()


def live_path(made):
    return urlsplit(made["addresses"]["live"]).path


def test_matches_arrive_when_stored_and_resume_after_a_reconnect(ann, store_matches, context):
    made = subscribe(ann)
    store_matches(made["id"], ["a", "b"])
    with live_server(context) as url:
        with events(url, f"{live_path(made)}?last=1") as stream:
            assert stream.posts(1) == ["b"]
            store_matches(made["id"], ["c"])
            event = stream.next()
            assert (event["event"], json.loads(event["data"])["post_id"]) == ("match", "c")
        store_matches(made["id"], ["d", "e"])
        with events(url, live_path(made), **{"Last-Event-ID": event["id"]}) as stream:
            assert stream.posts(2) == ["d", "e"]


def test_events_are_not_encoded_in_the_event_loop(ann, store_matches, context, monkeypatch):
    made, in_loop, encode = subscribe(ann), [], live_module._to_event

    def encode_and_record(match):
        in_loop.append(asyncio._get_running_loop() is not None)
        return encode(match)

    monkeypatch.setattr(live_module, "_to_event", encode_and_record)
    store_matches(made["id"], ["a"])
    with live_server(context) as url, events(url, f"{live_path(made)}?last=1") as stream:
        assert stream.posts(1) == ["a"]
        store_matches(made["id"], ["b"])
        assert stream.posts(1) == ["b"]
    assert in_loop == [False, False]


def test_without_an_id_only_new_matches_arrive(ann, store_matches, context):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    path = f"/api/subscriptions/{made['id']}/live"
    with live_server(context) as url, events(url, path, Authorization=ann.headers["Authorization"]) as stream:
        assert stream.answer.readline().startswith(b":")
        store_matches(made["id"], ["b"])
        assert stream.posts(1) == ["b"]


def test_no_match_is_missed_after_the_first_line_of_a_slow_start(ann, store_matches, context, monkeypatch):
    def read_slowly(reader, count, read=live_module._Reader._read_latest):
        time.sleep(0.3)
        return read(reader, count)

    monkeypatch.setattr(live_module._Reader, "_read_latest", read_slowly)
    made = subscribe(ann)
    with live_server(context) as url, events(url, live_path(made)) as stream:
        assert stream.answer.readline().startswith(b":")
        store_matches(made["id"], ["a"])
        assert stream.posts(1) == ["a"]


def test_more_than_one_page_arrives_completely(ann, store_matches, context):
    made = subscribe(ann)
    ids = [f"{n:04}" for n in range(250)]
    store_matches(made["id"], ids)
    with live_server(context) as url, events(url, live_path(made), **{"Last-Event-ID": "0"}) as stream:
        assert stream.posts(250) == ids


def test_deleting_the_subscription_sends_gone(ann, store_matches, context):
    made = subscribe(ann)
    with live_server(context) as url, events(url, live_path(made)) as stream:
        ann.delete(f"/api/subscriptions/{made['id']}")
        store_matches(subscribe(ann)["id"], ["a"])  # a new match wakes the reader
        assert stream.next()["event"] == "gone"


def test_revoking_the_token_sends_gone(ann, store_matches, context):
    made = subscribe(ann)
    path = f"/api/subscriptions/{made['id']}/live"
    with live_server(context) as url, events(url, path, Authorization=ann.headers["Authorization"]) as stream:
        assert stream.answer.readline().startswith(b":")
        context.write_store.accounts.revoke_tokens("ann")
        store_matches(made["id"], ["a"])
        assert stream.next()["event"] == "gone"


def test_an_id_of_another_store_continues_with_new_matches(ann, store_matches, context):
    made = subscribe(ann)
    with live_server(context) as url, events(url, live_path(made), **{"Last-Event-ID": "999999"}) as stream:
        assert stream.answer.readline().startswith(b":")
        store_matches(made["id"], ["a"])
        assert stream.posts(1) == ["a"]


def test_the_number_of_live_readers_is_limited_and_counted(ann, context, monkeypatch):
    monkeypatch.setattr("tidings.web.live_readers.MAX_READERS_PER_SUBSCRIPTION", 1)
    made = subscribe(ann)
    with live_server(context) as url:
        with events(url, live_path(made)) as stream:
            assert stream.answer.readline().startswith(b":")
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
            connection.request("GET", live_path(made))
            assert connection.getresponse().status == 429
            connection.close()
        await_no_readers(context)


def statuses_of(url, requests):
    """Open all connections at once and return the status of each."""

    async def connect(path, token):
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        header = f"Authorization: {token}\r\n" if token else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: tidings\r\n{header}\r\n".encode())
        return int((await reader.readline()).split()[1]), writer

    async def connect_all():
        answers = await asyncio.gather(*(connect(path, token) for path, token in requests))
        for _, writer in answers:
            writer.close()
        return [status for status, _ in answers]

    return asyncio.run(connect_all())


def test_the_limit_of_readers_holds_for_simultaneous_requests(ann, context):
    path = live_path(subscribe(ann))
    with live_server(context) as url:
        assert sorted(statuses_of(url, [(path, None)] * 50)) == [200] * 20 + [429] * 30


def test_one_owner_cannot_take_the_connections_of_others(ann, bob, context, monkeypatch):
    monkeypatch.setattr("tidings.web.live_readers.MAX_READERS", 60)
    many = [subscribe(ann) for _ in range(5)]
    by_url = [(live_path(made), None) for made in many for _ in range(12)]
    by_token = [("/api/live", ann.headers["Authorization"])] * 10
    others = [(live_path(subscribe(bob)), None), ("/api/live", bob.headers["Authorization"])]
    with live_server(context) as url:
        statuses = statuses_of(url, by_url + by_token + others)
        assert statuses.count(200) == 50 + 2
        assert statuses[-2:] == [200, 200]
        await_no_readers(context)


def await_no_readers(context):
    deadline = time.monotonic() + 60
    while len(context.live_readers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not len(context.live_readers)


def test_a_match_is_read_only_for_the_readers_of_its_subscription(ann, store_matches, context, monkeypatch):
    reads = []

    def count_reads(reader, cursor, read=live_module._Reader.read_since):
        reads.append(reader.subscription)
        return read(reader, cursor)

    monkeypatch.setattr(live_module._Reader, "read_since", count_reads)
    quiet, busy = subscribe(ann), subscribe(ann, "rain")
    with live_server(context) as url, events(url, live_path(quiet)), events(url, live_path(busy)) as stream:
        deadline = time.monotonic() + TIMEOUT_S
        while not {quiet["id"], busy["id"]} <= set(reads):
            assert time.monotonic() < deadline, f"both readers must start; these have: {reads}"
            time.sleep(0.01)
        store_matches(busy["id"], ["a"])
        store_matches(busy["id"], ["b"])
        assert stream.posts(2) == ["a", "b"]
        assert reads.count(quiet["id"]) == 1


def test_shutdown_disconnects_live_readers(ann, context):
    made = subscribe(ann)
    with live_server(context) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
        connection.request("GET", live_path(made))
        answer = connection.getresponse()
        answer.readline()
    assert answer.read().strip() == b"retry: 2000"
    connection.close()
