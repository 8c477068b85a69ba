"""The options of `tidings serve` for HTTP connections."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tidings.web.connection_limits import ConnectionLimits

_OTHER_FILES = 192  # stores, children, the inbox


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How many connections clients may open."""

    PANEL = "Connections"

    max_connections: Annotated[
        int, typer.Option(metavar="N", min=1, help="Open connections in total, live readers included.")
    ] = 4_000
    max_connections_per_client: Annotated[
        int, typer.Option(metavar="N", min=1, help="Open connections per client address (IPv6: per /64 network).")
    ] = 200
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NETWORK",
            help="A proxy in front, which limits its clients itself: CIDR or loopback. Repeatable.",
            show_default="loopback",
        ),
    ] = None

    def limits(self) -> ConnectionLimits:
        """Return the limits, within the open files that the system allows. Raises InputError for a wrong network."""
        from tidings.net.allowlist import AllowedNetworks
        from tidings.web.connection_limits import ConnectionLimits

        networks = ["loopback"] if self.trusted_proxy is None else self.trusted_proxy
        return ConnectionLimits(
            connections=min(self.max_connections, allow_open_files(self.max_connections + _OTHER_FILES) - _OTHER_FILES),
            connections_per_client=self.max_connections_per_client,
            trusted_proxies=AllowedNetworks.parse(networks).networks,
        )


def allow_open_files(count: int) -> int:
    """Raise the limit of open files of this process if necessary and possible; return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
    return max(soft, limit)
