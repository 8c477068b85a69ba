"""The sender against real servers: every match arrives, in order, signed, whatever the receivers do."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import time
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from standardwebhooks import Webhook as Verifier
from standardwebhooks.webhooks import WebhookVerificationError
from tests.delivery.receivers import LOOPBACK, answering, receiver, sending, silent, taken
from tests.store.batches import ids, posts, run

from tidings.delivery.webhooks.attempt import send_test
from tidings.delivery.webhooks.message import MAX_BYTES, MAX_MATCHES
from tidings.delivery.webhooks.sender import SenderLimits
from tidings.net.allowlist import PUBLIC_ONLY
from tidings.store import open_store
from tidings.testing.clock import FakeClock


@pytest.fixture
def clock():
    return FakeClock(time.time(), runs=True)


@pytest.fixture
def store(tmp_path, clock):
    with open_store(tmp_path, clock) as opened:
        yield opened


def found(store, batch: int, subscription: int, numbers: range, **columns) -> None:
    """A batch in which every post matches."""
    run(store, batch, posts(list(numbers), **columns), [(subscription, row) for row in range(len(numbers))])


def state(store, hook) -> str:
    return store.webhooks.get(hook.name).state


def test_every_match_arrives_once_in_order_in_bounded_messages_that_the_library_verifies(store):
    async def check():
        async with receiver() as at, sending(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            found(store, 0, tea, range(250))
            await at.until(lambda: sum(len(got.posts) for got in at.got) == 250)
            found(store, 1, tea, range(250, 260), text=["x" * 10_000] * 10)
            await at.until(lambda: sum(len(got.posts) for got in at.got) == 260)
        return hook, at.got

    hook, got = asyncio.run(check())
    assert [post for one in got for post in one.posts] == ids(store, hook.subscription)
    assert all(len(one.posts) <= MAX_MATCHES and len(one.body) < MAX_BYTES + 11_000 for one in got)
    assert len({one.id for one in got}) == len(got) == 5
    for one in got:
        told = Verifier(hook.secret).verify(one.body, one.headers)
        assert (told["type"], told["data"]["subscription"]) == ("subscription.matched", hook.subscription)
        with pytest.raises(WebhookVerificationError):
            Verifier(hook.secret).verify(one.body + b" ", one.headers)
    after = store.webhooks.get(hook.name)
    assert (after.messages, after.matches, after.state, after.due_at) == (5, 260, "active", None)


def test_a_message_says_what_the_post_said(store):
    async def check():
        async with receiver() as at, sending(store):
            tea = store.subscriptions.add("tea")
            store.webhooks.add(tea, at.url)
            post = {"text": ["née ☕ <b>"], "title": ["T"], "link": ["https://e.org/"], "tags": [["a", "b"]]}
            found(store, 0, tea, range(7, 8), lat=[float("nan")], lon=[1.5], **post)
            await at.until(lambda: at.got)
        return json.loads(at.got[0].body)["data"]["matches"][0]

    told = asyncio.run(check())
    assert told.pop("arrived_at").endswith("Z")
    assert told == {
        "cursor": 1, "post_id": 7, "text": "née ☕ <b>", "title": "T", "link": "https://e.org/", "tags": ["a", "b"],
        "time": None, "author": None, "lang": None, "lat": None, "lon": 1.5,
    }  # fmt: skip


def test_after_a_rotation_messages_verify_with_the_secret_before_and_the_new_one(store):
    async def check():
        async with receiver() as at, sending(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            turned = store.webhooks.rotate_secret(hook.name)
            found(store, 0, tea, range(1))
            await at.until(lambda: at.got)
        return hook.secret, turned.secret, at.got[0]

    old, new, got = asyncio.run(check())
    for secret in (old, new):
        Verifier(secret).verify(got.body, got.headers)


def test_a_message_that_was_not_taken_comes_again_under_its_id_with_what_it_held(store, clock):
    """Also when more has matched meanwhile, which comes after it."""
    statuses = iter([500, 503, 204, 204])

    async def answer(request):
        return web.Response(status=next(statuses))

    async def check():
        async with receiver(answer) as at, sending(store, clock=clock, seed=1):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            found(store, 0, tea, range(2))
            for tries, wait_s in ((1, 5), (2, 300)):
                await at.until(lambda tries=tries: store.webhooks.get(hook.name).failures == tries)
                found(store, tries, tea, range(10 * tries, 10 * tries + 1))
                await asyncio.sleep(0.1)
                assert len(at.got) == tries, "tried again before it was due"
                clock.advance(wait_s * 1.2)
            await at.until(lambda: len(at.got) == 4)
            await at.until(lambda: store.webhooks.get(hook.name).due_at is None)
        return hook, at.got

    hook, got = asyncio.run(check())
    assert [one.posts for one in got] == [[0, 1], [0, 1], [0, 1], [10, 20]]
    assert got[0].id == got[1].id == got[2].id != got[3].id
    assert got[0].body == got[1].body == got[2].body
    log = store.webhooks.attempts(hook.name)
    assert [(one.status, one.matches) for one in log] == [(204, 2), (204, 2), (503, 2), (500, 2)]
    assert log[-1].outcome == "answered 500 Internal Server Error"


def test_a_receiver_that_is_gone_is_never_asked_again_until_it_is_enabled(store):
    said = []
    statuses = iter([410, 204, 204])

    async def answer(request):
        return web.Response(status=next(statuses))

    async def check():
        async with receiver(answer) as at, sending(store, tell=said.append):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            found(store, 0, tea, range(1))
            await at.until(lambda: said)
            found(store, 1, tea, range(1, 2))
            await asyncio.sleep(0.15)
            assert (len(at.got), state(store, hook)) == (1, "disabled")
            store.webhooks.enable(hook.name)
            await at.until(lambda: len(at.got) == 3)
        return at.got

    got = asyncio.run(check())
    assert [one.posts for one in got] == [[0], [0], [1]]
    assert got[0].id == got[1].id
    name = got[0].id.split("_")[1]
    assert said == [f"webhook {name} of subscription 1 is disabled: answered 410 Gone: the receiver wants no more"]


def test_retry_after_is_honoured(store, clock):
    async def check():
        async with receiver(answering(429, Retry_After="3600")) as at, sending(store, clock=clock):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            found(store, 0, tea, range(1))
            await at.until(lambda: state(store, hook) == "retrying")
        return store.webhooks.get(hook.name).due_at - clock()

    assert 3_590 < asyncio.run(check()) <= 3_600


def test_receivers_that_never_answer_hold_up_nobody_else(store):
    async def check():
        async with receiver(silent) as slow, receiver() as quick, sending(store):
            tea = store.subscriptions.add("tea")
            for _ in range(6):
                store.webhooks.add(tea, slow.url.replace("127.0.0.1", "localhost"))
            store.webhooks.add(tea, quick.url)
            for batch in range(3):
                found(store, batch, tea, range(batch, batch + 1))
                await quick.until(lambda batch=batch: len(quick.got) == batch + 1)
            assert slow.busy == len(slow.got) == 4
            began = time.monotonic()
        return time.monotonic() - began

    assert asyncio.run(check()) < 5, "ending waits for them only so long"


@pytest.mark.parametrize("bound", [{"a_host": 2}, {"a_pair": 2}, {"an_owner": 2}, {"at_once": 2}], ids=str)
def test_so_many_messages_at_once_at_most(store, bound):
    async def slowly(request):
        await asyncio.sleep(0.05)
        return await taken(request)

    async def check():
        async with receiver(slowly) as at, sending(store, limits=SenderLimits(**bound, poll_s=0.02)):
            tea, coffee = store.subscriptions.add("tea"), store.subscriptions.add("coffee")
            for subscription in [tea] * 6 + [coffee] * 6:
                store.webhooks.add(subscription, at.url)
            run(store, 0, [1], [(tea, 0), (coffee, 0)])
            await at.until(lambda: len(at.got) == 12)
        return at.busiest

    assert asyncio.run(check()) == 2


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:{}/hook", "the receiver is not at a public address"),
        ("http://localhost:{}/hook", "the receiver is not at a public address"),
        ("http://[::ffff:7f00:1]:{}/", "the receiver is not at a public address"),
        ("http://2130706433:{}/", "the address cannot be sent to"),
    ],
)
def test_an_address_inside_is_never_connected_to(store, url, reason):
    async def check():
        async with receiver() as at, sending(store, allow=PUBLIC_ONLY):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, url.format(urlsplit(at.url).port))
            found(store, 0, tea, range(1))
            await at.until(lambda: state(store, hook) == "retrying")
        return at.got, store.webhooks.get(hook.name).error

    assert asyncio.run(check()) == ([], reason)


def test_a_redirect_is_not_followed(store):
    async def check():
        async with receiver() as inside, receiver(answering(302, Location=inside.url)) as at, sending(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            found(store, 0, tea, range(1))
            await at.until(lambda: state(store, hook) == "retrying")
        return len(at.got), len(inside.got)

    assert asyncio.run(check()) == (1, 0)


def test_of_an_answer_only_the_status_is_waited_for(store):
    """An endless one, and one that claims to unpack to gigabytes, are taken as they say they are."""

    async def endless(request):
        answer = web.StreamResponse(headers={"Content-Encoding": "gzip"})
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65_536)

    async def check():
        async with receiver(endless) as at, sending(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            found(store, 0, tea, range(1))
            await at.until(lambda: store.webhooks.get(hook.name).messages == 1, 3.0)

    asyncio.run(check())


def test_no_answer_and_no_server_are_failures_with_a_reason(store):
    async def check():
        async with receiver(silent) as at, sending(store, limits=SenderLimits(timeout_s=0.2, poll_s=0.02)):
            tea = store.subscriptions.add("tea")
            hooks = [store.webhooks.add(tea, url) for url in (at.url, "http://127.0.0.1:9/", "http://nowhere.invalid/")]
            found(store, 0, tea, range(1))
            await at.until(lambda: all(state(store, hook) == "retrying" for hook in hooks))
        return [store.webhooks.get(hook.name).error for hook in hooks]

    silence, refused, nowhere = asyncio.run(check())
    assert (silence, refused) == ("no answer within 0.2 s", "the connection was refused")
    assert nowhere in ("the receiver's name leads nowhere", "no answer within 0.2 s")


def test_a_hook_can_be_tried_out(store):
    async def check():
        async with receiver() as at:
            hook = store.webhooks.add(store.subscriptions.add("tea"), at.url)
            return hook, await send_test(hook, LOOPBACK), at.got[0], await send_test(hook, PUBLIC_ONLY)

    hook, attempt, got, refused = asyncio.run(check())
    assert Verifier(hook.secret).verify(got.body, got.headers)["type"] == "webhook.test"
    assert (attempt.status, attempt.outcome, attempt.message) == (204, "answered 204 No Content", got.id)
    assert (refused.status, refused.outcome) == (None, "the receiver is not at a public address")


def test_a_hook_whose_subscription_is_removed_gets_nothing_more(store):
    async def check():
        async with receiver() as at, sending(store):
            tea = store.subscriptions.add("tea")
            store.webhooks.add(tea, at.url)
            found(store, 0, tea, range(1))
            await at.until(lambda: at.got)
            store.subscriptions.remove(tea)
            found(store, 1, tea, range(1, 2))
            await asyncio.sleep(0.15)
        return len(at.got)

    assert asyncio.run(check()) == 1


def test_a_certificate_nobody_vouches_for_is_not_trusted(store, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    made = ("-keyout", tmp_path / "key", "-out", tmp_path / "certificate", "-subj", "/CN=localhost")
    request = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *map(str, made))
    subprocess.run(request, check=True, capture_output=True)
    secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secure.load_cert_chain(tmp_path / "certificate", tmp_path / "key")

    async def check():
        async with receiver(secure=secure) as at:
            hook = store.webhooks.add(store.subscriptions.add("tea"), at.url.replace("127.0.0.1", "localhost"))
            return at.got, (await send_test(hook, LOOPBACK)).outcome

    assert asyncio.run(check()) == ([], "the receiver's certificate cannot be trusted")
