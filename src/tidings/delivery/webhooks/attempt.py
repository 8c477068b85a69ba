"""One attempt to send a message: the request, and how it ended in words its owner may read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiohttp

from tidings.delivery.webhooks.message import Message, headers, trial
from tidings.delivery.webhooks.policy import Outcome
from tidings.net.allowlist import Allowed
from tidings.net.retry_after import wait_s
from tidings.net.ssrf_guard import guarded_session, refusal
from tidings.store.webhooks import Attempt, Webhook

TIMEOUT_S = 15.0
USER_AGENT = "Tidings-Webhooks/1"


def sending_session(allow: Allowed, timeout_s: float = TIMEOUT_S, connections: int = 0) -> aiohttp.ClientSession:
    """Through the guard; what receivers answer is never unpacked."""
    return guarded_session(
        allow, user_agent=USER_AGENT, timeout_s=timeout_s, connections=connections, auto_decompress=False
    )


async def post(
    session: aiohttp.ClientSession, hook: Webhook, message: Message, clock: Callable[[], float] = time.time
) -> Outcome:
    """Send it. The status is all that counts of an answer: nothing of its body is read, no redirect is followed."""
    now = clock()
    signed = headers(message, hook.secrets(now), now)
    try:
        async with session.post(hook.url, data=message.body, headers=signed, allow_redirects=False) as answer:
            return Outcome(answer.status, retry_after_s=wait_s(answer.headers.get("Retry-After"), now))
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Outcome(None, reason(error, session.timeout.total))


def reason(error: Exception, timeout_s: float | None) -> str:
    """Why no server answered; no more than its owner could find out alone."""
    if refusal(error) is not None:
        return "the receiver is not at a public address"
    match error:
        case asyncio.TimeoutError():
            return f"no answer within {timeout_s:g} s"
        case aiohttp.ClientConnectorCertificateError():
            return "the receiver's certificate cannot be trusted"
        case aiohttp.ClientSSLError():
            return "no secure connection could be made"
        case aiohttp.ClientConnectorDNSError():
            return "the receiver's name leads nowhere"
        case aiohttp.ClientConnectorError():
            return "the connection was refused"
        case aiohttp.InvalidURL():
            return "the address cannot be sent to"
    return "the connection broke before an answer came"


async def try_out(hook: Webhook, allow: Allowed, clock: Callable[[], float] = time.time) -> Attempt:
    """Send a message that says nothing, once."""
    message = trial(hook.name, hook.subscription, clock())
    async with sending_session(allow) as session:
        began = clock()
        outcome = await post(session, hook, message, clock)
        return Attempt(message.id, 0, began, outcome.status, outcome.sentence, clock() - began)
