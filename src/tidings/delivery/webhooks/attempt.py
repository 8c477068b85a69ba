"""One attempt to deliver a message to a webhook: the request, and its result as a text for the owner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import aiohttp

from tidings.delivery.webhooks.message import Message, build_test_message, sign_headers
from tidings.delivery.webhooks.policy import DeliveryOutcome
from tidings.net.allowlist import AllowedNetworks
from tidings.net.interim_limit import TooManyInterimResponses
from tidings.net.retry_after import parse_retry_after
from tidings.net.ssrf_guard import find_refusal, guarded_session
from tidings.store.webhooks import Attempt, Webhook

TIMEOUT_S = 15.0
USER_AGENT = "Tidings-Webhooks/1"


def webhook_session(
    allow: AllowedNetworks, timeout_s: float = TIMEOUT_S, connections: int = 0
) -> aiohttp.ClientSession:
    """Return a guarded session that never decompresses responses."""
    return guarded_session(
        allow, user_agent=USER_AGENT, timeout_s=timeout_s, connections=connections, auto_decompress=False
    )


async def post_message(
    session: aiohttp.ClientSession, webhook: Webhook, message: Message, clock: Callable[[], float] = time.time
) -> DeliveryOutcome:
    """Send a message. Only the status counts: the body of the response is not read, redirects are not followed."""
    now = clock()
    headers = sign_headers(message, webhook.signing_secrets(now), now)
    try:
        async with session.post(webhook.url, data=message.body, headers=headers, allow_redirects=False) as response:
            retry_after_s = parse_retry_after(response.headers.get("Retry-After"), now)
            return DeliveryOutcome(response.status, retry_after_s=retry_after_s)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return DeliveryOutcome(None, describe_error(error, session.timeout.total))


def describe_error(error: Exception, timeout_s: float | None) -> str:
    """Return why no server answered, without details that the owner could not find out otherwise."""
    if find_refusal(error) is not None:
        return "the receiver is on a private network; the administrator can allow it"
    match error:
        case asyncio.TimeoutError():
            return f"no response within {timeout_s:g} s"
        case aiohttp.ClientConnectorCertificateError():
            return "the receiver's certificate is not trusted"
        case aiohttp.ClientSSLError():
            return "the TLS connection failed"
        case aiohttp.ClientConnectorDNSError():
            return "the host name of the receiver does not exist; check the spelling"
        case aiohttp.ClientConnectorError():
            return "the connection was refused"
        case aiohttp.InvalidURL():
            return "the URL is not valid"
        case TooManyInterimResponses():
            return "the receiver sent too many interim responses (status 1xx)"
    return "the connection was closed before a response arrived"


async def send_test(webhook: Webhook, allow: AllowedNetworks, clock: Callable[[], float] = time.time) -> Attempt:
    """Send a test message once."""
    message = build_test_message(webhook.name, webhook.subscription, clock())
    async with webhook_session(allow) as session:
        started = clock()
        outcome = await post_message(session, webhook, message, clock)
        return Attempt(message.id, 0, started, outcome.status, outcome.text, clock() - started)
