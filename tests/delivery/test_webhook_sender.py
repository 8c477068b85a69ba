"""The sender with real servers: every match arrives, in order and signed, whatever the receivers do."""

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
from tests.delivery.receivers import LOOPBACK, accept, answer_with, never_answer, receiver, running_sender
from tests.store.batches import posts, read_ids, run_batch

from tidings.delivery.webhooks.attempt import TIMEOUT_S, send_test
from tidings.delivery.webhooks.message import MAX_BYTES, MAX_MATCHES
from tidings.delivery.webhooks.sender import SenderLimits
from tidings.net.allowlist import PUBLIC_ONLY
from tidings.store import open_store
from tidings.testing.clock import FakeClock
from tidings.testing.feed_servers import http_server
from tidings.testing.hostile_servers import repeat_interim_responses, send_endless_headers, send_tiny_chunks

PRIVATE = "the receiver is on a private network; the administrator can allow it"


@pytest.fixture
def clock():
    return FakeClock(time.time(), runs=True)


@pytest.fixture
def store(tmp_path, clock):
    with open_store(tmp_path, clock) as opened:
        yield opened


def store_matches(store, batch: int, subscription: int, numbers: range, **columns) -> None:
    """Commit a batch in which every post matches."""
    run_batch(store, batch, posts(list(numbers), **columns), [(subscription, row) for row in range(len(numbers))])


def state_of(store, hook) -> str:
    return store.webhooks.get(hook.name).state


def test_every_match_arrives_once_in_order_in_signed_messages(store):
    async def check():
        async with receiver() as at, running_sender(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            store_matches(store, 0, tea, range(250))
            await at.until(lambda: sum(len(request.posts) for request in at.requests) == 250)
            store_matches(store, 1, tea, range(250, 260), text=["x" * 10_000] * 10)
            await at.until(lambda: sum(len(request.posts) for request in at.requests) == 260)
        return hook, at.requests

    hook, requests = asyncio.run(check())
    assert [post for request in requests for post in request.posts] == read_ids(store, hook.subscription)
    assert all(len(request.posts) <= MAX_MATCHES and len(request.body) < MAX_BYTES + 11_000 for request in requests)
    assert len({request.id for request in requests}) == len(requests) == 5
    for request in requests:
        body = Verifier(hook.secret).verify(request.body, request.headers)
        assert (body["type"], body["data"]["subscription"]) == ("subscription.matched", hook.subscription)
        with pytest.raises(WebhookVerificationError):
            Verifier(hook.secret).verify(request.body + b" ", request.headers)
    after = store.webhooks.get(hook.name)
    assert (after.messages, after.matches, after.state, after.due_at) == (5, 260, "active", None)


def test_a_message_has_the_fields_of_the_post(store):
    async def check():
        async with receiver() as at, running_sender(store):
            tea = store.subscriptions.add("tea")
            store.webhooks.add(tea, at.url)
            post = {"text": ["née ☕ <b>"], "title": ["T"], "link": ["https://e.org/"], "tags": [["a", "b"]]}
            store_matches(store, 0, tea, range(7, 8), lat=[float("nan")], lon=[1.5], **post)
            await at.until(lambda: at.requests)
        return json.loads(at.requests[0].body)["data"]["matches"][0]

    match = asyncio.run(check())
    assert match.pop("arrived_at").endswith("Z")
    assert match == {
        "cursor": 1, "post_id": 7, "text": "née ☕ <b>", "title": "T", "link": "https://e.org/", "tags": ["a", "b"],
        "time": None, "author": None, "lang": None, "lat": None, "lon": 1.5,
    }  # fmt: skip


def test_after_a_rotation_messages_verify_with_both_secrets(store):
    async def check():
        async with receiver() as at, running_sender(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            rotated = store.webhooks.rotate_secret(hook.name)
            store_matches(store, 0, tea, range(1))
            await at.until(lambda: at.requests)
        return hook.secret, rotated.secret, at.requests[0]

    old, new, got = asyncio.run(check())
    for secret in (old, new):
        Verifier(secret).verify(got.body, got.headers)


def test_a_failed_message_is_repeated_unchanged_with_the_same_id(store, clock):
    """Also if there are new matches, which follow in the next message."""
    statuses = iter([500, 503, 204, 204])

    async def answer(request):
        return web.Response(status=next(statuses))

    async def check():
        async with receiver(answer) as at, running_sender(store, clock=clock, seed=1):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            store_matches(store, 0, tea, range(2))
            for tries, wait_s in ((1, 5), (2, 300)):
                await at.until(lambda tries=tries: store.webhooks.get(hook.name).failures == tries)
                store_matches(store, tries, tea, range(10 * tries, 10 * tries + 1))
                await asyncio.sleep(0.1)
                assert len(at.requests) == tries, "retried before it was due"
                clock.advance(wait_s * 1.2)
            await at.until(lambda: len(at.requests) == 4)
            await at.until(lambda: store.webhooks.get(hook.name).due_at is None)
        return hook, at.requests

    hook, got = asyncio.run(check())
    assert [request.posts for request in got] == [[0, 1], [0, 1], [0, 1], [10, 20]]
    assert got[0].id == got[1].id == got[2].id != got[3].id
    assert got[0].body == got[1].body == got[2].body
    log = store.webhooks.attempts(hook.name)
    assert [(attempt.status, attempt.matches) for attempt in log] == [(204, 2), (204, 2), (503, 2), (500, 2)]
    assert log[-1].outcome == "answered 500 Internal Server Error"


def test_status_410_disables_the_webhook_until_it_is_enabled(store, caplog):
    statuses = iter([410, 204, 204])

    async def answer(request):
        return web.Response(status=next(statuses))

    async def check():
        async with receiver(answer) as at, running_sender(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            store_matches(store, 0, tea, range(1))
            await at.until(lambda: state_of(store, hook) == "disabled")
            store_matches(store, 1, tea, range(1, 2))
            await asyncio.sleep(0.15)
            assert (len(at.requests), state_of(store, hook)) == (1, "disabled")
            store.webhooks.enable(hook.name)
            await at.until(lambda: len(at.requests) == 3)
        return at.requests

    got = asyncio.run(check())
    assert [request.posts for request in got] == [[0], [0], [1]]
    assert got[0].id == got[1].id
    name = got[0].id.split("_")[1]
    error = "answered 410 Gone: the receiver does not accept messages any more"
    assert caplog.messages == [f'webhook disabled webhook={name} subscription=1 error="{error}"']


def test_retry_after_is_honoured(store, clock):
    async def check():
        async with receiver(answer_with(429, Retry_After="3600")) as at, running_sender(store, clock=clock):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            store_matches(store, 0, tea, range(1))
            await at.until(lambda: state_of(store, hook) == "retrying")
        return store.webhooks.get(hook.name).due_at - clock()

    assert 3_500 < asyncio.run(check()) <= 3_600


def test_receivers_that_never_answer_do_not_delay_others(store):
    limits = SenderLimits(poll_s=0.02, timeout_s=600.0)

    async def check():
        async with receiver(never_answer) as slow, receiver() as quick, running_sender(store, limits=limits):
            tea = store.subscriptions.add("tea")
            for _ in range(6):
                store.webhooks.add(tea, slow.url.replace("127.0.0.1", "localhost"))
            store.webhooks.add(tea, quick.url)
            for batch in range(3):
                store_matches(store, batch, tea, range(batch, batch + 1))
                await quick.until(lambda batch=batch: len(quick.requests) == batch + 1)
            assert slow.busy == len(slow.requests) == 4
            stopped_at = time.monotonic()
        return time.monotonic() - stopped_at

    assert asyncio.run(check()) < 60, "shutdown waits only a few seconds for them"


@pytest.mark.parametrize("limit", [{"per_host": 2}, {"per_pair": 2}, {"per_owner": 2}, {"total": 2}], ids=str)
def test_the_number_of_messages_in_flight_is_limited(store, limit):
    async def accept_slowly(request):
        await asyncio.sleep(0.05)
        return await accept(request)

    async def check():
        async with receiver(accept_slowly) as at, running_sender(store, limits=SenderLimits(**limit, poll_s=0.02)):
            tea, coffee = store.subscriptions.add("tea"), store.subscriptions.add("coffee")
            for subscription in [tea] * 6 + [coffee] * 6:
                store.webhooks.add(subscription, at.url)
            run_batch(store, 0, [1], [(tea, 0), (coffee, 0)])
            await at.until(lambda: len(at.requests) == 12)
        return at.busiest

    assert asyncio.run(check()) == 2


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:{}/hook", PRIVATE),
        ("http://localhost:{}/hook", PRIVATE),
        ("http://[::ffff:7f00:1]:{}/", PRIVATE),
        ("http://2130706433:{}/", "the URL is not valid"),
    ],
)
def test_a_private_address_is_never_connected_to(store, url, reason):
    async def check():
        async with receiver() as at, running_sender(store, allow=PUBLIC_ONLY):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, url.format(urlsplit(at.url).port))
            store_matches(store, 0, tea, range(1))
            await at.until(lambda: state_of(store, hook) == "retrying")
        return at.requests, store.webhooks.get(hook.name).error

    assert asyncio.run(check()) == ([], reason)


def test_a_redirect_is_not_followed(store):
    async def check():
        async with receiver() as inside, receiver(answer_with(302, Location=inside.url)) as at, running_sender(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            store_matches(store, 0, tea, range(1))
            await at.until(lambda: state_of(store, hook) == "retrying")
        return len(at.requests), len(inside.requests)

    assert asyncio.run(check()) == (1, 0)


def test_only_the_status_of_a_response_is_read(store):
    """The body may be endless, or a compression bomb."""

    async def answer_endlessly(request):
        answer = web.StreamResponse(headers={"Content-Encoding": "gzip"})
        await answer.prepare(request)
        while True:
            await answer.write(b"x" * 65_536)

    async def check():
        async with receiver(answer_endlessly) as at, running_sender(store):
            tea = store.subscriptions.add("tea")
            hook = store.webhooks.add(tea, at.url)
            store_matches(store, 0, tea, range(1))
            await at.until(lambda: store.webhooks.get(hook.name).messages == 1)

    asyncio.run(check())


@pytest.mark.parametrize(
    ("receive", "outcome"),
    [
        (repeat_interim_responses, "the receiver sent too many interim responses (status 1xx)"),
        (send_endless_headers, "the connection was closed before a response arrived"),
        (send_tiny_chunks, "answered 200 OK"),
    ],
    ids=["interim responses", "headers", "chunks"],
)
def test_an_endless_response_ends_a_test_long_before_its_timeout(store, receive, outcome):
    """Reading it to the timeout stalled the web server, which sends tests."""

    async def check():
        async with http_server(receive) as url:
            return await send_test(store.webhooks.add(store.subscriptions.add("tea"), url), LOOPBACK)

    attempt = asyncio.run(check())
    assert attempt.outcome == outcome
    assert attempt.took_s < TIMEOUT_S / 2


def test_timeouts_and_connection_errors_are_failures_with_a_reason(store):
    async def check():
        async with receiver(never_answer) as at, running_sender(store, limits=SenderLimits(timeout_s=2.0, poll_s=0.02)):
            tea = store.subscriptions.add("tea")
            hooks = [store.webhooks.add(tea, url) for url in (at.url, "http://127.0.0.1:9/", "http://nowhere.invalid/")]
            store_matches(store, 0, tea, range(1))
            await at.until(lambda: all(state_of(store, hook) == "retrying" for hook in hooks))
        return [store.webhooks.get(hook.name).error for hook in hooks]

    silence, refused, nowhere = asyncio.run(check())
    assert (silence, refused) == ("no response within 2 s", "the connection was refused")
    assert nowhere in ("the host name of the receiver does not exist; check the spelling", "no response within 2 s")


def test_a_test_message_is_sent_once(store):
    async def check():
        async with receiver() as at:
            hook = store.webhooks.add(store.subscriptions.add("tea"), at.url)
            return hook, await send_test(hook, LOOPBACK), at.requests[0], await send_test(hook, PUBLIC_ONLY)

    hook, attempt, got, refused = asyncio.run(check())
    assert Verifier(hook.secret).verify(got.body, got.headers)["type"] == "webhook.test"
    assert (attempt.status, attempt.outcome, attempt.message) == (204, "answered 204 No Content", got.id)
    assert (refused.status, refused.outcome) == (None, PRIVATE)


def test_a_webhook_of_a_removed_subscription_gets_nothing(store):
    async def check():
        async with receiver() as at, running_sender(store):
            tea = store.subscriptions.add("tea")
            store.webhooks.add(tea, at.url)
            store_matches(store, 0, tea, range(1))
            await at.until(lambda: at.requests)
            store.subscriptions.remove(tea)
            store_matches(store, 1, tea, range(1, 2))
            await asyncio.sleep(0.15)
        return len(at.requests)

    assert asyncio.run(check()) == 1


def test_a_self_signed_certificate_is_not_trusted(store, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    files = ("-keyout", tmp_path / "key", "-out", tmp_path / "certificate", "-subj", "/CN=localhost")
    request = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *map(str, files))
    subprocess.run(request, check=True, capture_output=True)
    secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secure.load_cert_chain(tmp_path / "certificate", tmp_path / "key")

    async def check():
        async with receiver(secure=secure) as at:
            hook = store.webhooks.add(store.subscriptions.add("tea"), at.url.replace("127.0.0.1", "localhost"))
            return at.requests, (await send_test(hook, LOOPBACK)).outcome

    assert asyncio.run(check()) == ([], "the receiver's certificate is not trusted")
