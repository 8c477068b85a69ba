"""The webhook sender: many receivers concurrently, each in order, so that no receiver delays the others.

All state that must survive is in the store: after a crash the sender continues with the same messages. Messages arrive
at least once, always with the same `webhook-id`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import aiohttp

from tidings.delivery.webhooks.attempt import TIMEOUT_S, post_message, webhook_session
from tidings.delivery.webhooks.message import MAX_BYTES, MAX_MATCHES, Message, build_message
from tidings.delivery.webhooks.policy import decide
from tidings.log import Event
from tidings.net.allowlist import PUBLIC_ONLY, AllowedNetworks
from tidings.store import Store
from tidings.store.webhook_queue import AttemptResult, DueLimits
from tidings.store.webhooks import Attempt, Webhook

LOG = logging.getLogger("tidings.delivery")
_CLEANUP_S = 60.0
_MAX_CHARACTERS = 2 * MAX_BYTES  # more than a message of several matches holds; a hundred matches may have 100 MB
_GRACE_S = 3.0  # for messages in flight at shutdown; those that do not finish are sent again later


@dataclass(frozen=True, slots=True)
class SenderLimits:
    """Maximum messages in flight: in total, per owner, per host, and per owner and host.

    A receiver has ``timeout_s`` to answer; the store is checked for new matches every ``poll_s``.
    """

    total: int = 256
    per_owner: int = 32
    per_host: int = 8
    per_pair: int = 4
    timeout_s: float = TIMEOUT_S
    poll_s: float = 0.2


class InFlight:
    """Counts the messages in flight and enforces the limits."""

    def __init__(self, limits: SenderLimits) -> None:
        self._limits = limits
        self._webhooks: set[int] = set()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def __len__(self) -> int:
        return len(self._webhooks)

    @property
    def due_limits(self) -> DueLimits:
        """Limits for the query of due webhooks: enough for free slots and for webhooks that are in flight."""
        limits = self._limits
        return DueLimits(2 * limits.per_pair, 2 * limits.per_host, 2 * limits.per_owner, 2 * limits.total)

    def try_add(self, webhook: Webhook) -> bool:
        """Add a webhook and return True, or return False if a limit is reached or it is in flight already."""
        limits = self._limits_of(webhook)
        is_full = any(self._counts[key] >= limit for key, limit in limits.items())
        if is_full or webhook.id in self._webhooks or len(self) >= self._limits.total:
            return False
        self._webhooks.add(webhook.id)
        self._counts.update(limits.keys())
        return True

    def remove(self, webhook: Webhook) -> None:
        self._webhooks.discard(webhook.id)
        for key in self._limits_of(webhook):
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def _limits_of(self, webhook: Webhook) -> dict[tuple[str, ...], int]:
        limits = self._limits
        return {
            ("owner", webhook.owner): limits.per_owner,
            ("host", webhook.host): limits.per_host,
            ("pair", webhook.owner, webhook.host): limits.per_pair,
        }


class Sender:
    """Sends due messages until it is stopped."""

    def __init__(
        self,
        store: Store,
        allow: AllowedNetworks = PUBLIC_ONLY,
        limits: SenderLimits = SenderLimits(),
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        self._queue, self._allow, self._limits = store.webhook_queue, allow, limits
        self._clock, self._random = clock, Random(seed)
        self._in_flight = InFlight(limits)
        self._cleaned_at = 0.0
        self._tasks: dict[asyncio.Task[AttemptResult], Webhook] = {}
        self._attempt_ended = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Send until `stop` is set. Raises errors of the store."""
        limits = self._limits
        async with webhook_session(self._allow, limits.timeout_s, limits.total) as session:
            try:
                while not stop.is_set():
                    self._attempt_ended.clear()
                    for webhook, message in await self._next_messages():
                        self._send(session, webhook, message)
                    await self._pause(stop)
                    await self._record_results()
                if self._tasks:
                    await asyncio.wait(self._tasks, timeout=_GRACE_S)
                    await self._record_results()
            finally:
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pause(self, stop: asyncio.Event) -> None:
        """Wait until an attempt ends, `stop` is set or the next poll is due."""
        waits = [asyncio.create_task(event.wait()) for event in (self._attempt_ended, stop)]
        try:
            await asyncio.wait(waits, timeout=self._limits.poll_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _next_messages(self) -> list[tuple[Webhook, Message]]:
        """Return due webhooks within the limits, each with its message, which is fixed from now on."""
        due = await asyncio.to_thread(self._due_webhooks)
        chosen = [webhook for webhook in due if self._in_flight.try_add(webhook)]
        messages = await asyncio.to_thread(self._build_messages, chosen)
        for webhook in chosen:
            if webhook.id not in messages:
                self._in_flight.remove(webhook)
        return [(webhook, messages[webhook.id]) for webhook in chosen if webhook.id in messages]

    def _due_webhooks(self) -> list[Webhook]:
        self._queue.wake()
        if self._clock() - self._cleaned_at >= _CLEANUP_S:
            self._queue.delete_orphans()
            self._cleaned_at = self._clock()
        return self._queue.due(self._in_flight.due_limits)

    def _build_messages(self, webhooks: list[Webhook]) -> dict[int, Message]:
        """Return the current or next message per webhook; webhooks whose matches were deleted become idle."""
        messages: dict[int, Message] = {}
        for webhook in webhooks:
            matches = self._queue.next_matches(webhook, MAX_MATCHES, _MAX_CHARACTERS)
            if matches:
                is_fixed = webhook.pending is not None
                messages[webhook.id] = build_message(webhook.name, webhook.subscription, matches, is_fixed)
        self._queue.mark_idle([webhook for webhook in webhooks if webhook.id not in messages])
        unfixed = [webhook.id for webhook in webhooks if webhook.id in messages and webhook.pending is None]
        self._queue.fix_messages([(number, messages[number].until) for number in unfixed])
        return messages

    def _send(self, session: aiohttp.ClientSession, webhook: Webhook, message: Message) -> None:
        task = asyncio.create_task(self._attempt(session, webhook, message))
        task.add_done_callback(lambda _: self._attempt_ended.set())
        self._tasks[task] = webhook

    async def _attempt(self, session: aiohttp.ClientSession, webhook: Webhook, message: Message) -> AttemptResult:
        started = self._clock()
        outcome = await post_message(session, webhook, message, self._clock)
        ended = self._clock()
        decision = decide(webhook.failures, outcome, ended, self._random.random())
        attempt = Attempt(message.id, message.matches, started, outcome.status, outcome.text, ended - started)
        next_state = (decision.delivered, decision.failures, decision.due_at, decision.error)
        return AttemptResult(webhook.id, message.until, attempt, *next_state)

    async def _record_results(self) -> None:
        """Store the results of finished attempts; their webhooks may then continue."""
        ended = {task: webhook for task, webhook in self._tasks.items() if task.done()}
        if ended:
            await asyncio.to_thread(self._queue.record_results, [task.result() for task in ended])
        for task, webhook in ended.items():
            del self._tasks[task]
            self._in_flight.remove(webhook)
            result = task.result()
            if result.gives_up:
                LOG.warning(
                    Event(
                        "webhook disabled",
                        webhook=webhook.name,
                        subscription=webhook.subscription,
                        error=result.error,
                    )
                )
