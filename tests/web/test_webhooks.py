"""Webhooks over HTTP: add, list, test, deliver, log."""

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
from tidings.store.webhooks import MAX_WEBHOOKS_PER_SUBSCRIPTION

URL = "https://receiver.example/hook"


@pytest.fixture
def hook(ann):
    made = ann.post("/api/webhooks", json={"subscription": subscribe(ann, "tea")["id"], "url": URL})
    assert made.status_code == 201
    return made.json()


def test_the_secret_is_shown_only_when_created_or_rotated(ann, hook):
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


def test_webhooks_are_listed_in_pages(ann, hook):
    subscription = hook["subscription"]
    others = [ann.post("/api/webhooks", json={"subscription": subscription, "url": URL}).json()["id"] for _ in range(2)]
    first = ann.get("/api/webhooks?limit=2").json()
    rest = ann.get(f"/api/webhooks?limit=2&after={first['next']}").json()
    assert [item["id"] for item in first["webhooks"] + rest["webhooks"]] == [hook["id"], *others]
    assert rest["next"] is None


def test_a_webhook_cannot_be_added_to_a_subscription_of_another_owner(ann, bob, hook):
    answers = [
        bob.post("/api/webhooks", json={"subscription": number, "url": URL}) for number in (hook["subscription"], 999)
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert bob.get("/api/webhooks").json()["webhooks"] == []


@pytest.mark.parametrize(
    "url",
    ["ftp://e.org/x", "https://me:secret@e.org/", "", "javascript:alert(1)", "http://\x00/", "notaurl", "e.org/x"],
)
def test_an_invalid_url_is_rejected_with_a_sentence(ann, hook, url):
    answer = ann.post("/api/webhooks", json={"subscription": hook["subscription"], "url": url})
    assert answer.status_code == 422
    assert answer.json()["error"].endswith(".")


def test_the_number_of_webhooks_per_subscription_is_limited(ann, hook):
    statuses = [
        ann.post("/api/webhooks", json={"subscription": hook["subscription"], "url": URL}).status_code
        for _ in range(MAX_WEBHOOKS_PER_SUBSCRIPTION)
    ]
    assert statuses == [201] * (MAX_WEBHOOKS_PER_SUBSCRIPTION - 1) + [429]


def test_a_webhook_is_deleted_directly_or_with_its_subscription(ann, hook):
    other = ann.post("/api/webhooks", json={"subscription": hook["subscription"], "url": URL}).json()
    assert ann.delete(f"/api/webhooks/{hook['id']}").status_code == 204
    assert ann.get(f"/api/webhooks/{hook['id']}").status_code == 404
    ann.delete(f"/api/subscriptions/{hook['subscription']}")
    assert ann.get(f"/api/webhooks/{other['id']}").status_code == 404


def test_a_test_message_does_not_reach_a_private_network(ann, hook):
    inside = ann.post(
        "/api/webhooks", json={"subscription": hook["subscription"], "url": "http://169.254.169.254/"}
    ).json()
    result = ann.post(f"/api/webhooks/{inside['id']}/test").json()
    assert (result["status"], "private network" in result["outcome"]) == (None, True)


def test_an_owner_runs_one_webhook_test_at_a_time(context, ann, hook):
    context.testing_owners.add("ann")
    assert ann.post(f"/api/webhooks/{hook['id']}/test").status_code == 429


@contextmanager
def receiver_thread() -> Iterator[Receiver]:
    """Run a receiver with an event loop of its own in a thread."""
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
    assert ready.wait(60)
    try:
        yield seen[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_a_match_becomes_a_signed_message_and_a_log_entry(store_matches, context):
    ann = client(replace(context, allow=LOOPBACK), context.write_store.accounts.add("ann"))
    with receiver_thread() as at:
        subscription = subscribe(ann, "tea")["id"]
        hook = ann.post("/api/webhooks", json={"subscription": subscription, "url": at.url}).json()
        tested = ann.post(f"/api/webhooks/{hook['id']}/test").json()
        assert (tested["status"], tested["matches"]) == (204, 0)
        store_matches(subscription, ["a"], text=["tea time"])
        asyncio.run(_send_until(context.write_store, lambda: len(at.requests) == 2))
    test, matched = at.requests
    assert Verifier(hook["secret"]).verify(test.body, test.headers)["type"] == "webhook.test"
    assert Verifier(hook["secret"]).verify(matched.body, matched.headers)["data"]["matches"][0]["text"] == "tea time"
    log = ann.get(f"/api/webhooks/{hook['id']}/deliveries").json()["deliveries"]
    assert [(line["message"], line["status"], line["matches"]) for line in log] == [
        (matched.id, 204, 1),
        (test.id, 204, 0),
    ]
    shown = ann.get(f"/api/webhooks/{hook['id']}").json()
    assert (shown["messages"], shown["matches"], shown["state"]) == (1, 1, "active")


async def _send_until(store, condition) -> None:
    stop = asyncio.Event()
    sender = asyncio.create_task(Sender(store, LOOPBACK, QUICK).run(stop))
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
    stop.set()
    await sender


def test_a_disabled_webhook_can_be_enabled(context, ann, hook):
    context.write_store.database.execute("UPDATE webhook SET enabled = 0, error = 'answered 410 Gone', due_at = NULL")
    shown = ann.get(f"/api/webhooks/{hook['id']}").json()
    assert (shown["state"], shown["error"]) == ("disabled", "answered 410 Gone")
    assert ann.post(f"/api/webhooks/{hook['id']}/enable").json()["state"] == "active"
