"""One stream of events for all subscriptions of an owner: what has changed, not the matches themselves.

All tabs of a browser share it, so it costs one connection. After a reconnect nothing is replayed: clients read the
matches after their own cursor, see `list_matches`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from sse_starlette import ServerSentEvent

from tidings.errors import StoreError
from tidings.web.context import AppContext, Context, Owner
from tidings.web.errors import error_responses
from tidings.web.live import GONE, RETRY_MS, token_check
from tidings.web.live_readers import PING_S, LiveResponse
from tidings.web.notifier import StoreNotifier
from tidings.web.schemas import ChangedMatches, StatusOut
from tidings.web.stream_phase import ShownPhase

_DESCRIPTION = (
    "Events: `status` (see /api/status), at the start and when it changes; `matches` (a subscription has new ones); "
    "`subscriptions` (some were added or removed); `gone` (the token was revoked)."
)
_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": _DESCRIPTION}
}

router = APIRouter(tags=["live"])


@router.get(
    "/api/live", responses={**_EVENTS, **error_responses(401, 429)}, status_code=200, response_class=LiveResponse
)
async def stream_changes(owner: Owner, request: Request, context: Context) -> LiveResponse:
    """Stream what changes in all your subscriptions. Read the new matches with the cursor that you have."""
    changes = _Changes(context, owner, token_check(context, request, owner))
    events = _iterate_events(changes, context.notifier)
    return LiveResponse(context.live_readers, owner, None, events)


class _State(NamedTuple):
    """What a client knows of the store."""

    number: int
    position: int  # in the log of changes of subscriptions
    ids: list[int]


class _Changes:
    """What has changed for an owner since the last read."""

    def __init__(self, context: AppContext, owner: str, is_allowed: Callable[[], bool]) -> None:
        self._context, self._owner, self._is_allowed = context, owner, is_allowed
        self._phase: ShownPhase | None = None
        self._state: _State | None = None

    async def read(self) -> list[ServerSentEvent]:
        """Return what has changed; `gone` if the token is not valid any more; only `status` while the store is lost."""
        return await self._context.live_reads.run(self._owner, self._read)

    def _read(self) -> list[ServerSentEvent]:
        with suppress(StoreError):
            if not self._is_allowed():
                return [GONE]
            state = self._read_state()
            changed = self._read_changed(state.number)
            last, self._state = self._state, state
            return [*self._read_status(), *_to_events(last, state, changed)]
        return self._read_status()

    def _read_status(self) -> list[ServerSentEvent]:
        last, self._phase = self._phase, self._context.read_phase()
        if self._phase == last:
            return []
        return [ServerSentEvent(event="status", data=StatusOut(stream=self._phase).model_dump_json())]

    def _read_state(self) -> _State:
        store, last = self._context.read_store, self._state
        number, position = store.matches.last_number(), store.subscriptions.position()
        ids = last.ids if last is not None and last.position == position else store.subscriptions.ids(self._owner)
        return _State(number, position, ids)

    def _read_changed(self, number: int) -> dict[int, int]:
        if self._state is None or self._state.number == number:
            return {}
        return self._context.read_store.matches.changed_since(self._owner, self._state.number)


def _to_events(last: _State | None, state: _State, changed: dict[int, int]) -> Iterator[ServerSentEvent]:
    if last is not None and last.ids != state.ids:
        yield ServerSentEvent(event="subscriptions", data="{}")
    for subscription, matches in changed.items():
        content = ChangedMatches(subscription=subscription, matches=matches)
        yield ServerSentEvent(event="matches", data=content.model_dump_json())


async def _iterate_events(changes: _Changes, notifier: StoreNotifier) -> AsyncIterator[ServerSentEvent]:
    """Yield changes until the server stops or the token is revoked."""
    yield ServerSentEvent(comment="tidings", retry=RETRY_MS)
    while not notifier.is_closed:
        version = notifier.version
        for event in await changes.read():
            yield event
            if event is GONE:
                return
        await notifier.wait_for_change(version, PING_S)
