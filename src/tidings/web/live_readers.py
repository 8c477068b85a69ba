"""Count live readers, and limit them so that no owner can take all connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import TypeVar

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from tidings.web.errors import HttpError

MAX_READERS_PER_SUBSCRIPTION, MAX_READERS_PER_OWNER, MAX_READERS = 20, 50, 2_000
PING_S = 15.0
_Key = TypeVar("_Key")
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Robots-Tag": "noindex"}


class LiveReaders:
    """The open live connections, by owner and by subscription. Used on the event loop only."""

    def __init__(self) -> None:
        self._by_owner: Counter[str] = Counter()
        self._by_subscription: Counter[int] = Counter()

    def __len__(self) -> int:
        return self._by_owner.total()

    def add(self, owner: str, subscription: int | None) -> None:
        """Count a reader of one subscription, or of all of an owner (None). Raises HttpError (429) at a limit."""
        if subscription is not None and self._by_subscription[subscription] >= MAX_READERS_PER_SUBSCRIPTION:
            raise _too_many(f"This subscription has {MAX_READERS_PER_SUBSCRIPTION} live readers already.")
        if self._by_owner[owner] >= MAX_READERS_PER_OWNER:
            raise _too_many(f"The owner has {MAX_READERS_PER_OWNER} live readers already.")
        if len(self) >= MAX_READERS:
            raise HttpError(429, "The server has too many live readers. Poll the feed instead, or try again later.")
        self._by_owner[owner] += 1
        if subscription is not None:
            self._by_subscription[subscription] += 1

    def remove(self, owner: str, subscription: int | None) -> None:
        """Stop counting a reader."""
        _decrement(self._by_owner, owner)
        if subscription is not None:
            _decrement(self._by_subscription, subscription)


def _too_many(sentence: str) -> HttpError:
    return HttpError(429, f"{sentence} Close one first.")


def _decrement(counter: Counter[_Key], key: _Key) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


class LiveResponse(EventSourceResponse):
    """The events of one reader, who is counted until they end."""

    def __init__(
        self,
        readers: LiveReaders,
        owner: str,
        subscription: int | None,
        events: AsyncIterator[ServerSentEvent] | AsyncIterator[ServerSentEvent | bytes],
    ) -> None:
        super().__init__(events, headers=_HEADERS, ping=PING_S)
        readers.add(owner, subscription)  # before the first event, because other requests check it too
        self._readers, self._owner, self._subscription = readers, owner, subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._readers.remove(self._owner, self._subscription)
