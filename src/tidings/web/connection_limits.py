"""Limits of HTTP connections, and the count of open connections per client."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address

from tidings.net.allowlist import LOOPBACK, Network

_IPV6_SITE_BITS = 64  # a client has at least 2 ** 64 addresses


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a client may use before it is authenticated.

    Connections from ``trusted_proxies`` are limited only in total: a proxy has all connections of its clients, and
    limits them itself. A body must arrive, and a response be read, at ``min_bytes_per_s`` on average; with pauses of
    up to ``body_s`` and ``response_s``.
    """

    connections: int = 4_000
    connections_per_client: int = 200
    trusted_proxies: tuple[Network, ...] = LOOPBACK
    header_bytes: int = 32 << 10
    header_s: float = 10.0
    body_s: float = 10.0
    response_s: float = 30.0
    min_bytes_per_s: float = 8 << 10
    request_bytes: int = 17 << 20  # as sent: chunks of a few bytes take more than their content
    idle_s: int = 20  # between requests
    unsent_bytes: int = 256 << 20  # of all responses together; beyond that the largest are dropped
    linger_s: float = 3.0  # to receive the rest of a request that was answered early
    pipelined: int = 16


@dataclass(slots=True)
class ConnectionCount:
    """The open connections, in total and per client."""

    limits: ConnectionLimits
    total: int = 0
    per_client: Counter[str] = field(default_factory=Counter)

    def add(self, address: str | None) -> str | None:
        """Count a connection and return its client; return None, and count nothing, if there are too many."""
        client = self._client(address)
        is_over_share = bool(client) and self.per_client[client] >= self.limits.connections_per_client
        if is_over_share or self.total >= self.limits.connections:
            return None
        self.total += 1
        self.per_client[client] += 1
        return client

    def remove(self, client: str) -> None:
        """Count the end of a connection."""
        self.total -= 1
        self.per_client[client] -= 1
        if not self.per_client[client]:
            del self.per_client[client]

    def _client(self, address: str | None) -> str:
        """Return the IPv4 address or the IPv6 network of a client; empty for a trusted proxy and a local socket."""
        parsed = _parse_address(address)
        if parsed is None or any(parsed in network for network in self.limits.trusted_proxies):
            return ""
        return str(parsed) if isinstance(parsed, IPv4Address) else str(int(parsed) >> _IPV6_SITE_BITS)


def _parse_address(address: str | None) -> IPv4Address | IPv6Address | None:
    if address is None:
        return None
    parsed = ip_address(address.partition("%")[0])
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed
