"""What the routes share: the stores and services of the application, and the owner of a request."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tidings.net.allowlist import PUBLIC_ONLY, AllowedNetworks
from tidings.store import Store
from tidings.web.errors import unauthorized_error
from tidings.web.notifier import StoreNotifier
from tidings.web.volume_estimate import VolumeEstimator

MAX_RESPONSE_CHARACTERS = 4 << 20
"""Of the matches in one response: a thousand posts may have a gigabyte."""
_BEARER = HTTPBearer(auto_error=False, description="The token that `tidings owners add NAME` printed.")


@dataclass(frozen=True, slots=True)
class AppContext:
    """One store through two connections, so that readers do not wait while a writer waits for the stream's commit.

    ``feed_lock`` is held between counting an owner's feeds and adding one. ``live_readers`` counts per subscription.
    ``testing_owners`` are those with a running webhook test, which may reach the networks of ``allow``.
    """

    read_store: Store
    write_store: Store
    inbox: Path
    volume: VolumeEstimator
    notifier: StoreNotifier
    public_url: str
    feed_lock: Lock = field(default_factory=Lock)
    live_readers: Counter[int] = field(default_factory=Counter)
    testing_owners: set[str] = field(default_factory=set)
    allow: AllowedNetworks = PUBLIC_ONLY


async def _get_context(request: Request) -> AppContext:
    context: AppContext = request.app.state.context
    return context


Context = Annotated[AppContext, Depends(_get_context)]


async def _authenticate(
    context: Context, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
) -> str:
    """Return the owner of the token of a request; answer 401 if the token is missing or not valid."""
    owner = None if credentials is None else context.read_store.accounts.owner_of(credentials.credentials)
    if owner is None:
        raise unauthorized_error()
    return owner


Owner = Annotated[str, Depends(_authenticate)]
