"""A door to the Internet that does not lead back inside: every address is judged when it is connected to.

A name is judged by what it resolves to, and once more the address a socket is made for: a name that resolves to
something else the second time, a redirect, or an address written as a number gains nothing.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from tidings.net.allowlist import PUBLIC_ONLY, Allowed
from tidings.version import __version__

USER_AGENT = f"Tidings/{__version__} (feed reader and alerts; standing queries over posts)"
_LOOKUPS = 64  # names that are asked for at once: a name server that never answers must not keep the others waiting
_CONNECTIONS = 256
_AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]


class AddressRefused(OSError):
    """A server at an address we are not to be sent to."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__(f"{host} is at {address}, which is not a public address")
        self.host = host
        self.address = address

    def __reduce__(self) -> tuple[type[AddressRefused], tuple[str, str]]:
        return AddressRefused, (self.host, self.address)


class GuardedResolver(AbstractResolver):
    """Resolves names as the system does, and keeps back the addresses that are refused."""

    def __init__(self, allow: Allowed = PUBLIC_ONLY) -> None:
        self._allow = allow
        self._threads = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="tidings-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self.lookup(host, port, family)
        good = [one for one in found if self._allow.reaches(one["host"])]
        if found and not good:
            raise AddressRefused(host, found[0]["host"])
        return good

    async def lookup(self, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        """What the system says, unjudged."""
        loop = asyncio.get_running_loop()
        kind = socket.SOCK_STREAM
        infos = await loop.run_in_executor(self._threads, lambda: socket.getaddrinfo(host, port, family, kind))
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=kin, proto=proto, flags=0)
            for kin, _, proto, _, address in infos
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def guarded_session(
    allow: Allowed = PUBLIC_ONLY,
    *,
    user_agent: str = USER_AGENT,
    timeout_s: float = 20.0,
    connections: int = _CONNECTIONS,
    resolver: AbstractResolver | None = None,
    **options: Any,
) -> aiohttp.ClientSession:
    """A session that reaches public addresses, and those allowed; close it as any other.

    No cookies, no proxies from the environment. Redirects are followed only by who asks for it, and are judged alike. A
    refused address raises aiohttp.ClientConnectorError, in which `os_error` is AddressRefused: see `refusal`.
    """

    def made(info: _AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if not allow.reaches(str(address[0])):
            raise AddressRefused(str(address[0]), str(address[0]))
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        resolver=resolver or GuardedResolver(allow),
        socket_factory=made,
        use_dns_cache=False,
        limit=connections,
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": user_agent},
        trust_env=False,
        **options,
    )


def refusal(error: BaseException) -> AddressRefused | None:
    """The refusal behind an error of a request, if that is what it was."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, AddressRefused):
            return seen
        seen = getattr(seen, "os_error", None) or seen.__cause__
    return None
