"""The sender of webhooks: many receivers at once, each in order, none of them able to hold up the others.

All it must not forget lies in the store: it may be killed at any moment and goes on with the same messages. What it
sends arrives at least once, always under the same `webhook-id`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import aiohttp

from tidings.delivery.webhooks.attempt import TIMEOUT_S, post, sending_session
from tidings.delivery.webhooks.message import MAX_BYTES, MAX_MATCHES, Message, message
from tidings.delivery.webhooks.policy import decide
from tidings.net.allowlist import PUBLIC_ONLY, Allowed
from tidings.store import Store
from tidings.store.webhook_queue import Share, Tried
from tidings.store.webhooks import Attempt, Webhook

_TIDY_S = 60.0
_MOST_CHARACTERS = 2 * MAX_BYTES  # more than a message of several matches ever holds; a hundred may have a hundred MB
_GRACE_S = 3.0  # for what is on its way when the sender is told to end; what does not arrive is sent again


@dataclass(frozen=True, slots=True)
class Limits:
    """How many messages are on their way at once: altogether, of one owner, to one host, of one owner to one host.

    A receiver has ``timeout_s`` to answer; new matches are looked for every ``poll_s``.
    """

    at_once: int = 256
    an_owner: int = 32
    a_host: int = 8
    a_pair: int = 4
    timeout_s: float = TIMEOUT_S
    poll_s: float = 0.2


class Room:
    """Counts what is on its way, and says for which hooks there is room."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._hooks: set[int] = set()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def __len__(self) -> int:
        return len(self._hooks)

    @property
    def share(self) -> Share:
        """What to ask the store for: what there may be room for, and what is on its way already."""
        limits = self._limits
        return Share(2 * limits.a_pair, 2 * limits.a_host, 2 * limits.an_owner, 2 * limits.at_once)

    def take(self, hook: Webhook) -> bool:
        """Whether there is room for it, which it then has."""
        bounds = self._bounds(hook)
        full = any(self._counts[what] >= most for what, most in bounds.items())
        if full or hook.id in self._hooks or len(self) >= self._limits.at_once:
            return False
        self._hooks.add(hook.id)
        self._counts.update(bounds.keys())
        return True

    def leave(self, hook: Webhook) -> None:
        self._hooks.discard(hook.id)
        for what in self._bounds(hook):
            self._counts[what] -= 1
            if not self._counts[what]:
                del self._counts[what]

    def _bounds(self, hook: Webhook) -> dict[tuple[str, ...], int]:
        """What it is counted under, and how many may be."""
        limits = self._limits
        return {
            ("owner", hook.owner): limits.an_owner,
            ("host", hook.host): limits.a_host,
            ("pair", hook.owner, hook.host): limits.a_pair,
        }


class Sender:
    """Sends what is due until it is told to stop."""

    def __init__(
        self,
        store: Store,
        allow: Allowed = PUBLIC_ONLY,
        limits: Limits = Limits(),
        tell: Callable[[str], None] = lambda sentence: None,
        clock: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        self._queue, self._allow, self._limits = store.webhook_queue, allow, limits
        self._tell, self._clock, self._chance = tell, clock, Random(seed)
        self._room = Room(limits)
        self._tidied_at = 0.0
        self._sending: dict[asyncio.Task[Tried], Webhook] = {}
        self._stir = asyncio.Event()  # something ended, so something else may begin

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop` is set; an error of the store ends it."""
        limits = self._limits
        async with sending_session(self._allow, limits.timeout_s, limits.at_once) as session:
            try:
                while not stop.is_set():
                    self._stir.clear()
                    for hook, next_message in await self._begin():
                        self._send(session, hook, next_message)
                    await self._pause(stop)
                    await self._note()
                if self._sending:
                    await asyncio.wait(self._sending, timeout=_GRACE_S)
                    await self._note()
            finally:
                for task in self._sending:
                    task.cancel()
                await asyncio.gather(*self._sending, return_exceptions=True)

    async def _pause(self, stop: asyncio.Event) -> None:
        """Until something ended, or it is time to look for new matches."""
        waits = [asyncio.create_task(event.wait()) for event in (self._stir, stop)]
        try:
            await asyncio.wait(waits, timeout=self._limits.poll_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _begin(self) -> list[tuple[Webhook, Message]]:
        """The hooks there is work and room for, each with its message, which is fixed from then on."""
        due = await asyncio.to_thread(self._due)
        chosen = [hook for hook in due if self._room.take(hook)]
        found = await asyncio.to_thread(self._messages, chosen)
        for hook in chosen:
            if hook.id not in found:
                self._room.leave(hook)
        return [(hook, found[hook.id]) for hook in chosen if hook.id in found]

    def _due(self) -> list[Webhook]:
        self._queue.wake()
        if self._clock() - self._tidied_at >= _TIDY_S:
            self._queue.tidy()
            self._tidied_at = self._clock()
        return self._queue.due(self._room.share)

    def _messages(self, hooks: list[Webhook]) -> dict[int, Message]:
        """The message each is at, or its next; those whose matches were forgotten meanwhile rest."""
        found: dict[int, Message] = {}
        for hook in hooks:
            matches = self._queue.waiting(hook, MAX_MATCHES, _MOST_CHARACTERS)
            if matches:
                found[hook.id] = message(hook.name, hook.subscription, matches, is_fixed=hook.pending is not None)
        self._queue.rest([hook for hook in hooks if hook.id not in found])
        self._queue.fix(
            [(hook.id, found[hook.id].until) for hook in hooks if hook.id in found and hook.pending is None]
        )
        return found

    def _send(self, session: aiohttp.ClientSession, hook: Webhook, sent: Message) -> None:
        """Have it sent."""
        task = asyncio.create_task(self._attempt(session, hook, sent))
        task.add_done_callback(lambda _: self._stir.set())
        self._sending[task] = hook

    async def _attempt(self, session: aiohttp.ClientSession, hook: Webhook, sent: Message) -> Tried:
        """Send it, and what follows from how that went."""
        began = self._clock()
        outcome = await post(session, hook, sent, self._clock)
        ended = self._clock()
        after = decide(hook.failures, outcome, ended, self._chance.random())
        attempt = Attempt(sent.id, sent.matches, began, outcome.status, outcome.sentence, ended - began)
        return Tried(hook.id, sent.until, attempt, after.delivered, after.failures, after.due_at, after.error)

    async def _note(self) -> None:
        """Store what became of those that have ended; from then on their hooks may go on."""
        ended = {task: hook for task, hook in self._sending.items() if task.done()}
        if ended:
            await asyncio.to_thread(self._queue.tried, [task.result() for task in ended])
        for task, hook in ended.items():
            del self._sending[task]
            self._room.leave(hook)
            tried = task.result()
            if tried.gives_up:
                self._tell(f"webhook {hook.name} of subscription {hook.subscription} is disabled: {tried.error}")
