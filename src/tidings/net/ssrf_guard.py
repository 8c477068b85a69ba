"""HTTP sessions that cannot reach internal networks (server-side request forgery).

Addresses are checked after name resolution and again when a socket is created. This covers names that resolve
differently the second time, redirects, and addresses written as numbers.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from tidings.net.allowlist import PUBLIC_ONLY, AllowedNetworks
from tidings.net.interim_limit import LimitedResponse
from tidings.version import __version__

USER_AGENT = f"Tidings/{__version__} (feed reader and alerts; standing queries over posts)"
_MAX_CONNECTIONS = 256
_AddressInfo = tuple[Any, Any, int, str, tuple[Any, ...]]


class AddressRefused(OSError):
    """A host at an address that is not permitted. The message reveals nothing about the address."""

    def __init__(self, host: str, address: str) -> None:
        super().__init__("This address is on a private network; the administrator can allow it.")
        self.host = host
        self.address = address

    def __reduce__(self) -> tuple[type[AddressRefused], tuple[str, str]]:
        return AddressRefused, (self.host, self.address)


class GuardedResolver(AbstractResolver):
    """Resolve names with the system resolver and drop addresses that are not permitted.

    With a thread per connection, no lookup waits for others whose name server never answers.
    """

    def __init__(self, allow: AllowedNetworks = PUBLIC_ONLY, threads: int = _MAX_CONNECTIONS) -> None:
        self._allow = allow
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="tidings-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        results = await self.lookup(host, port, family)
        permitted = [result for result in results if self._allow.permits(result["host"])]
        if results and not permitted:
            raise AddressRefused(host, results[0]["host"])
        return permitted

    async def lookup(self, host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
        """Return all addresses of a host, unchecked."""
        loop = asyncio.get_running_loop()
        kind = socket.SOCK_STREAM
        infos = await loop.run_in_executor(self._threads, lambda: socket.getaddrinfo(host, port, family, kind))
        return [
            ResolveResult(hostname=host, host=str(address[0]), port=port, family=address_family, proto=proto, flags=0)
            for address_family, _, proto, _, address in infos
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def guarded_session(
    allow: AllowedNetworks = PUBLIC_ONLY,
    *,
    user_agent: str = USER_AGENT,
    timeout_s: float = 20.0,
    connections: int = _MAX_CONNECTIONS,
    resolver: AbstractResolver | None = None,
    **options: Any,
) -> aiohttp.ClientSession:
    """Return a session that connects only to public and allowed addresses; the caller closes it.

    It uses no cookies and no proxies from the environment. Redirects are checked too. A refused address raises
    aiohttp.ClientConnectorError with AddressRefused as `os_error`, see `find_refusal`. A server that sends interim
    responses without an end raises TooManyInterimResponses.
    """

    def create_socket(info: _AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        if not allow.permits(str(address[0])):
            raise AddressRefused(str(address[0]), str(address[0]))
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        resolver=resolver or GuardedResolver(allow, connections or _MAX_CONNECTIONS),  # 0: no limit
        socket_factory=create_socket,
        use_dns_cache=False,
        limit=connections,
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout_s),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": user_agent},
        trust_env=False,
        response_class=LimitedResponse,
        **options,
    )


def find_refusal(error: BaseException) -> AddressRefused | None:
    """Return the AddressRefused that caused an error, or None."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, AddressRefused):
            return cause
        cause = getattr(cause, "os_error", None) or cause.__cause__
    return None
