"""Webhooks over HTTP, from making one to the log of its deliveries."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from standardwebhooks import Webhook as Verifier
from tests.delivery.receivers import LOOPBACK, QUICK, Receiver, receiver
from tests.web.conftest import client
from tests.web.test_subscriptions import subscribe

from tidings.delivery.webhooks.sender import Sender
from tidings.store.webhooks import MAX_A_SUBSCRIPTION

URL = "https://receiver.example/hook"


@pytest.fixture
def hook(ann):
    made = ann.post("/api/webhooks", json={"subscription": subscribe(ann, "tea")["id"], "url": URL})
    assert made.status_code == 201
    return made.json()


def test_the_secret_is_told_when_a_webhook_is_made_and_when_it_is_renewed_and_never_else(ann, hook):
    assert hook["secret"].startswith("whsec_")
    shown = ann.get(f"/api/webhooks/{hook['id']}").json()
    assert {**shown, "secret": hook["secret"]} == hook
    assert shown["state"] == "active"
    assert ann.get("/api/webhooks").json() == {"webhooks": [shown], "next": None}
    renewed = ann.post(f"/api/webhooks/{hook['id']}/secret").json()["secret"]
    assert renewed.startswith("whsec_")
    assert renewed != hook["secret"]
    for path in ("", "/deliveries"):
        assert "whsec_" not in ann.get(f"/api/webhooks/{hook['id']}{path}").text


def test_webhooks_are_listed_page_by_page(ann, hook):
    subscription = hook["subscription"]
    others = [ann.post("/api/webhooks", json={"subscription": subscription, "url": URL}).json()["id"] for _ in range(2)]
    first = ann.get("/api/webhooks?limit=2").json()
    rest = ann.get(f"/api/webhooks?limit=2&after={first['next']}").json()
    assert [one["id"] for one in first["webhooks"] + rest["webhooks"]] == [hook["id"], *others]
    assert rest["next"] is None


def test_nobody_has_matches_of_another_sent_to_them(ann, bob, hook):
    answers = [
        bob.post("/api/webhooks", json={"subscription": number, "url": URL}) for number in (hook["subscription"], 999)
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert bob.get("/api/webhooks").json()["webhooks"] == []


@pytest.mark.parametrize(
    "url", ["ftp://e.org/x", "https://me:secret@e.org/", "", "javascript:alert(1)", "http://\x00/"]
)
def test_an_address_that_cannot_be_sent_to_is_refused_with_a_sentence(ann, hook, url):
    answer = ann.post("/api/webhooks", json={"subscription": hook["subscription"], "url": url})
    assert answer.status_code == 422
    assert answer.json()["error"].endswith(".")


def test_a_subscription_has_so_many_webhooks_at_most(ann, hook):
    statuses = [
        ann.post("/api/webhooks", json={"subscription": hook["subscription"], "url": URL}).status_code
        for _ in range(MAX_A_SUBSCRIPTION)
    ]
    assert statuses == [201] * (MAX_A_SUBSCRIPTION - 1) + [429]


def test_a_webhook_that_is_deleted_is_gone_and_so_is_one_of_a_deleted_subscription(ann, hook):
    other = ann.post("/api/webhooks", json={"subscription": hook["subscription"], "url": URL}).json()
    assert ann.delete(f"/api/webhooks/{hook['id']}").status_code == 204
    assert ann.get(f"/api/webhooks/{hook['id']}").status_code == 404
    ann.delete(f"/api/subscriptions/{hook['subscription']}")
    assert ann.get(f"/api/webhooks/{other['id']}").status_code == 404


def test_trying_out_an_address_inside_reaches_nobody(ann, hook):
    inside = ann.post(
        "/api/webhooks", json={"subscription": hook["subscription"], "url": "http://169.254.169.254/"}
    ).json()
    told = ann.post(f"/api/webhooks/{inside['id']}/test").json()
    assert (told["status"], told["outcome"]) == (None, "the receiver is not at a public address")


def test_one_owner_tries_out_one_webhook_at_a_time(service, ann, hook):
    service.trying.add("ann")
    assert ann.post(f"/api/webhooks/{hook['id']}/test").status_code == 429


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver with a loop of its own, for what is tested from outside."""
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    seen: list[Receiver] = []

    async def serve() -> None:
        async with receiver() as at:
            seen.append(at)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait(10)
    try:
        yield seen[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_from_a_query_to_a_signed_message_and_its_line_in_the_log(found, service):
    ann = client(replace(service, allow=LOOPBACK), service.writing.accounts.add("ann"))
    with receiving() as at:
        subscription = subscribe(ann, "tea")["id"]
        hook = ann.post("/api/webhooks", json={"subscription": subscription, "url": at.url}).json()
        tried = ann.post(f"/api/webhooks/{hook['id']}/test").json()
        assert (tried["status"], tried["matches"]) == (204, 0)
        found(subscription, ["a"], text=["tea time"])
        asyncio.run(_send_until(service.writing, lambda: len(at.got) == 2))
    test, matched = at.got
    assert Verifier(hook["secret"]).verify(test.body, test.headers)["type"] == "webhook.test"
    assert Verifier(hook["secret"]).verify(matched.body, matched.headers)["data"]["matches"][0]["text"] == "tea time"
    log = ann.get(f"/api/webhooks/{hook['id']}/deliveries").json()["deliveries"]
    assert [(one["message"], one["status"], one["matches"]) for one in log] == [(matched.id, 204, 1), (test.id, 204, 0)]
    shown = ann.get(f"/api/webhooks/{hook['id']}").json()
    assert (shown["messages"], shown["matches"], shown["state"]) == (1, 1, "active")


async def _send_until(store, holds) -> None:
    stop = asyncio.Event()
    sender = asyncio.create_task(Sender(store, LOOPBACK, QUICK).run(stop))
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)
    stop.set()
    await sender


def test_a_disabled_webhook_is_shown_as_such_and_can_be_switched_on(service, ann, hook):
    service.writing.database.run("UPDATE webhook SET enabled = 0, error = 'answered 410 Gone', due_at = NULL")
    shown = ann.get(f"/api/webhooks/{hook['id']}").json()
    assert (shown["state"], shown["error"]) == ("disabled", "answered 410 Gone")
    assert ann.post(f"/api/webhooks/{hook['id']}/enable").json()["state"] == "active"
