"""Network addresses that user-supplied URLs may reach: public ones, and those the configuration allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from tidings.errors import InputError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_NOT_GLOBAL: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT, and the metadata of Alibaba Cloud
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's wire server: a public address with an internal service
            "169.254.0.0/16",  # link-local, and the metadata of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, and the metadata of Oracle Cloud
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",  # private
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_GLOBAL_V6 = ip_network("2000::/3")  # all public unicast; private, link-local, mapped … are outside
_NOT_GLOBAL_V6: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks; Teredo carries an IPv4 address
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: carries an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)


@dataclass(frozen=True, slots=True)
class AllowedNetworks:
    """Networks that may be reached although they are not public."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, values: Iterable[str]) -> AllowedNetworks:
        """Parse addresses, networks (`10.1.0.0/16`) and the word `loopback`. Raises InputError for other values."""
        networks: list[Network] = []
        for value in values:
            try:
                networks += LOOPBACK if value == "loopback" else (ip_network(value, strict=False),)
            except ValueError:
                raise InputError(
                    f"{value!r}: not a network. Write it like 10.1.0.0/16 or fd00::/8, or use `loopback`."
                ) from None
        return cls(tuple(networks))

    def permits(self, address: str) -> bool:
        """Return whether a connection to this IP address is permitted: it is public, or in an allowed network."""
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        plain = parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed
        return is_public(plain) or any(plain in network or parsed in network for network in self.networks)


PUBLIC_ONLY = AllowedNetworks()


def is_public(address: Address) -> bool:
    """Return whether an address is on the public Internet. IPv6 addresses that embed IPv4 addresses are not."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_GLOBAL)
    return address in _GLOBAL_V6 and not any(address in network for network in _NOT_GLOBAL_V6)
