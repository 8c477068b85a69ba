"""Live events: those to come, none twice, none missed after a break."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.web.conftest import listening
from tests.web.test_subscriptions import subscribe

from tidings.web import live as live_module


class Events:
    """Events of an open connection, one by one."""

    def __init__(self, answer):
        self.answer = answer

    def next(self):
        event = {}
        while True:
            line = self.answer.readline().decode()
            assert line, "the connection ended"
            if not line.strip() and "event" in event:
                return event
            name, _, value = line.strip().partition(":")
            if name:
                event[name] = value.strip()

    def posts(self, count):
        return [json.loads(event["data"])["post_id"] for event in (self.next() for _ in range(count))]


@contextmanager
def events(url, path, **headers):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    try:
        assert answer.status == 200, answer.read()
        assert answer.getheader("content-type").startswith("text/event-stream")
        yield Events(answer)
    finally:
        answer.close()
        connection.close()


def live(made):
    return urlsplit(made["addresses"]["live"]).path


def test_matches_come_as_they_are_stored_and_resume_after_a_break(ann, found, service):
    made = subscribe(ann)
    found(made["id"], ["a", "b"])
    with listening(service) as url:
        with events(url, f"{live(made)}?last=1") as stream:
            assert stream.posts(1) == ["b"]
            found(made["id"], ["c"])
            event = stream.next()
            assert (event["event"], json.loads(event["data"])["post_id"]) == ("match", "c")
        found(made["id"], ["d", "e"])
        with events(url, live(made), **{"Last-Event-ID": event["id"]}) as stream:
            assert stream.posts(2) == ["d", "e"]


def test_without_an_id_only_what_comes_is_told(ann, found, service):
    made = subscribe(ann)
    found(made["id"], ["a"])
    path = f"/api/subscriptions/{made['id']}/live"
    with listening(service) as url, events(url, path, Authorization=ann.headers["Authorization"]) as stream:
        assert stream.answer.readline().startswith(b":")
        found(made["id"], ["b"])
        assert stream.posts(1) == ["b"]


def test_whoever_is_greeted_misses_nothing_however_slowly_his_place_was_found(ann, found, service, monkeypatch):
    def slowly(here, subscription, count, looked=live_module._latest):
        time.sleep(0.3)
        return looked(here, subscription, count)

    monkeypatch.setattr(live_module, "_latest", slowly)
    made = subscribe(ann)
    with listening(service) as url, events(url, live(made)) as stream:
        assert stream.answer.readline().startswith(b":")
        found(made["id"], ["a"])
        assert stream.posts(1) == ["a"]


def test_more_than_a_page_is_told_whole(ann, found, service):
    made = subscribe(ann)
    ids = [f"{n:04}" for n in range(250)]
    found(made["id"], ids)
    with listening(service) as url, events(url, live(made), **{"Last-Event-ID": "0"}) as stream:
        assert stream.posts(250) == ids


def test_who_may_no_longer_listen_is_told_so(ann, found, service):
    made = subscribe(ann)
    with listening(service) as url, events(url, live(made)) as stream:
        ann.delete(f"/api/subscriptions/{made['id']}")
        found(subscribe(ann)["id"], ["a"])  # the pulse goes on
        assert stream.next()["event"] == "gone"


def test_a_revoked_token_ends_what_it_listens_to(ann, found, service):
    made = subscribe(ann)
    path = f"/api/subscriptions/{made['id']}/live"
    with listening(service) as url, events(url, path, Authorization=ann.headers["Authorization"]) as stream:
        assert stream.answer.readline().startswith(b":")
        service.writing.accounts.revoke("ann")
        found(made["id"], ["a"])
        assert stream.next()["event"] == "gone"


def test_an_id_of_another_store_misses_nothing_from_now_on(ann, found, service):
    made = subscribe(ann)
    with listening(service) as url, events(url, live(made), **{"Last-Event-ID": "999999"}) as stream:
        assert stream.answer.readline().startswith(b":")
        found(made["id"], ["a"])
        assert stream.posts(1) == ["a"]


def test_only_so_many_listen_at_once_and_who_leaves_makes_room(ann, service, monkeypatch):
    monkeypatch.setattr("tidings.web.live._AT_ONCE", 1)
    made = subscribe(ann)
    with listening(service) as url:
        with events(url, live(made)) as stream:
            assert stream.answer.readline().startswith(b":")
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
            connection.request("GET", live(made))
            assert connection.getresponse().status == 429
            connection.close()
        deadline = time.monotonic() + 10
        while service.listening and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not service.listening


def test_many_who_come_at_the_same_moment_are_not_let_in_together(ann, service):
    path = live(subscribe(ann))

    async def status(port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: tidings\r\n\r\n".encode())
        return int((await reader.readline()).split()[1]), writer

    async def come(port):
        found = await asyncio.gather(*(status(port) for _ in range(50)))
        for _, writer in found:
            writer.close()
        return sorted(code for code, _ in found)

    with listening(service) as url:
        assert asyncio.run(come(urlsplit(url).port)) == [200] * 20 + [429] * 30


def test_ending_lets_live_readers_go_at_once(ann, service):
    made = subscribe(ann)
    with listening(service) as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
        connection.request("GET", live(made))
        answer = connection.getresponse()
        answer.readline()
    assert answer.read().strip() == b"retry: 2000"
    connection.close()
