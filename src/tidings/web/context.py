"""What the routes work with, and who asks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tidings.net.allowlist import PUBLIC_ONLY, Allowed
from tidings.store import Store
from tidings.web.errors import unauthorised
from tidings.web.notifier import Pulse
from tidings.web.volume_estimate import History

MOST_CHARACTERS = 4 << 20
"""Of matches in one answer: a thousand posts may have a gigabyte."""
_BEARER = HTTPBearer(auto_error=False, description="The token that `tidings owner add NAME` printed.")


@dataclass(frozen=True, slots=True)
class Service:
    """One store through two connections: a writer may wait for the stream's commit, and readers must not wait for it.

    ``adding_feeds`` is held between counting an owner's feeds and adding one; ``listening`` counts the live readers of
    each subscription; ``trying`` are the owners who try out a webhook just now, which may be in a network of ``allow``.
    """

    reading: Store
    writing: Store
    inbox: Path
    history: History
    pulse: Pulse
    public_url: str
    adding_feeds: Lock = field(default_factory=Lock)
    listening: Counter[int] = field(default_factory=Counter)
    trying: set[str] = field(default_factory=set)
    allow: Allowed = PUBLIC_ONLY


def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


async def _owner(
    request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)]
) -> str:
    """Whose token the request shows; 401 if nobody's."""
    name = None
    if credentials is not None:
        name = _service(request).reading.accounts.owner_of(credentials.credentials)
    if name is None:
        raise unauthorised()
    return name


async def _here(request: Request) -> Service:
    return _service(request)


Here = Annotated[Service, Depends(_here)]
Owner = Annotated[str, Depends(_owner)]
