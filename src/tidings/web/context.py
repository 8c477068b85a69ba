"""What the routes share: the stores and services of the application, and the owner of a request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tidings.net.allowlist import PUBLIC_ONLY, AllowedNetworks
from tidings.store import Store
from tidings.web.errors import unauthorized_error
from tidings.web.fair_reads import FairReads
from tidings.web.large_bodies import LargeBodies
from tidings.web.live_readers import LiveReaders
from tidings.web.notifier import StoreNotifier
from tidings.web.owner_turns import OwnerTurns
from tidings.web.query_check import Checker
from tidings.web.stream_phase import ShownPhase, external_phase

MAX_RESPONSE_CHARACTERS = 4 << 20
"""Of the matches in one response: a thousand posts may have a gigabyte."""
_TURNS_PER_OWNER, _FEED_TURNS_PER_OWNER, _MAX_REQUESTS_PER_OWNER = 4, 2, 100
_BEARER = HTTPBearer(auto_error=False, description="The token that `tidings owners add NAME` printed.")


@dataclass(frozen=True, slots=True)
class AppContext:
    """One store through two connections, so that readers do not wait while a writer waits for the stream's commit.

    Feed documents have turns of their own, so that readers of a feed URL cannot take those of its owner. ``checks``
    lets the owners take turns at the ``checker``, which checks one query at a time.
    ``importing_owners`` are those with a running import of feeds. ``read_phase`` returns the phase of the stream.
    ``testing_owners`` are those with a running webhook test, which may reach the networks of ``allow``.
    """

    read_store: Store
    write_store: Store
    inbox: Path
    checker: Checker
    notifier: StoreNotifier
    public_url: str
    feed_locks: dict[str, Lock] = field(default_factory=dict)
    importing_owners: set[str] = field(default_factory=set)
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    turns: OwnerTurns = field(default_factory=lambda: OwnerTurns(_TURNS_PER_OWNER, _MAX_REQUESTS_PER_OWNER))
    feed_turns: OwnerTurns = field(default_factory=lambda: OwnerTurns(_FEED_TURNS_PER_OWNER, _MAX_REQUESTS_PER_OWNER))
    live_readers: LiveReaders = field(default_factory=LiveReaders)
    live_reads: FairReads = field(default_factory=FairReads)
    checks: FairReads = field(default_factory=lambda: FairReads(threads=1))
    read_phase: Callable[[], ShownPhase] = external_phase
    testing_owners: set[str] = field(default_factory=set)
    allow: AllowedNetworks = PUBLIC_ONLY

    def feed_lock(self, owner: str) -> Lock:
        """Return the lock to hold between counting the feeds of an owner and adding one."""
        return self.feed_locks.setdefault(owner, Lock())


async def _get_context(request: Request) -> AppContext:
    context: AppContext = request.app.state.context
    return context


Context = Annotated[AppContext, Depends(_get_context)]


def _authenticate(
    context: Context, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
) -> str:
    """Return the owner of the token of a request; answer 401 if the token is missing or not valid.

    It runs in a thread: the store may be busy or far away.
    """
    owner = None if credentials is None else context.read_store.accounts.owner_of(credentials.credentials)
    if owner is None:
        raise unauthorized_error()
    return owner


Owner = Annotated[str, Depends(_authenticate)]


async def _take_turn(owner: Owner, context: Context) -> AsyncIterator[str]:
    async with context.turns.turn(owner):
        yield owner


OwnerInTurn = Annotated[str, Depends(_take_turn)]
"""The owner of a request that works in a thread: few of an owner at once, so that threads remain for other owners.

A route takes its body before this, so that slow uploads take no turns.
"""
