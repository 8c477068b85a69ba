"""How far feeds are from crawlers: milliseconds between sites and hosts, from a file or from measured connects."""

from __future__ import annotations

import asyncio
import csv
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.net.allowlist import PUBLIC_ONLY, Allowed
from tidings.net.ssrf_guard import GuardedResolver
from tidings.net.urls import host_of

COLUMNS = ("site", "host", "ms")
ATTEMPTS, TIMEOUT_S, AT_ONCE = 3, 3.0, 100
_SHOWN = 3  # bad lines named in the refusal
Connect = Callable[[str, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Latencies:
    """Milliseconds from sites to hosts, as far as they are known."""

    ms: Mapping[tuple[str, str], float]  # by site and host

    def between(self, hosts: Sequence[str], sites: Sequence[str]) -> NDArray[np.float64]:
        """(host, site) milliseconds; what is unknown is guessed by what the site is to other hosts, as a median.

        A site of which nothing is known is as far as the median of all.
        """
        known = np.array([[self.ms.get((site, host), np.nan) for site in sites] for host in hosts], np.float64)
        known = known.reshape(len(hosts), len(sites))
        overall = float(np.median(list(self.ms.values()))) if self.ms else 0.0
        by_site = [[ms for (at, _), ms in self.ms.items() if at == site] for site in sites]
        guesses = np.array([float(np.median(found)) if found else overall for found in by_site])
        return np.where(np.isnan(known), guesses, known)


def read_latencies(path: Path) -> Latencies:
    """A CSV file with the columns site, host and ms; InputError, with the first bad lines, when it is none."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames is None or not set(COLUMNS) <= set(rows.fieldnames):
                raise InputError(f"{path}: the first line must name the columns {', '.join(COLUMNS)}.")
            return Latencies(_read(path, rows))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: it cannot be read ({getattr(error, 'strerror', None) or error}).") from error


def _read(path: Path, rows: csv.DictReader[str]) -> dict[tuple[str, str], float]:
    found, bad = {}, list[str]()
    for row in rows:
        try:
            ms = float(row["ms"] or "")
        except (TypeError, ValueError):
            ms = -1.0
        if not row["site"] or not row["host"] or not 0 <= ms < float("inf"):
            bad.append(str(rows.line_num))
        else:
            found[row["site"], row["host"].lower()] = ms
    if bad:
        more = f" and {len(bad) - _SHOWN:,} more" if len(bad) > _SHOWN else ""
        raise InputError(
            f"{path}: line {', '.join(bad[:_SHOWN])}{more} has no site, no host or no milliseconds from 0 on."
        )
    return found


def write_latencies(latencies: Latencies, path: Path) -> None:
    """As `read_latencies` reads them, in order."""
    with path.open("w", encoding="utf-8", newline="") as file:
        print_latencies(latencies, file)


def print_latencies(latencies: Latencies, file: TextIO) -> None:
    """The same, to a file that is open."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows((site, host, f"{ms:.3f}") for (site, host), ms in sorted(latencies.ms.items()))


async def measure_connects(
    site: str, places: Mapping[str, tuple[str, int]], connect: Connect, attempts: int = ATTEMPTS
) -> Latencies:
    """What connecting from here takes, by the names of hosts: the fastest of some attempts, as others only waited.

    `connect` opens and closes one connection to an address and port. A host that does not answer has no entry.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def probe(name: str, address: str, port: int) -> tuple[str, float | None]:
        async with gate:
            times = [await _connect_ms(connect, address, port) for _ in range(attempts)]
        answered = [ms for ms in times if ms is not None]
        return name.lower(), min(answered, default=None)

    found = await asyncio.gather(*(probe(name, *place) for name, place in places.items()))
    return Latencies({(site, name): ms for name, ms in found if ms is not None})


async def measure_feeds(site: str, urls: Iterable[str], allow: Allowed = PUBLIC_ONLY) -> tuple[Latencies, int]:
    """What connecting to the hosts of feeds takes, and how many hosts there are; what may not be crawled is not probed.

    Names are looked up before, and do not count: crawlers remember them.
    """
    hosts = {host_of(url): urlsplit(url) for url in urls}
    resolver, gate = GuardedResolver(allow), asyncio.Semaphore(AT_ONCE)

    async def place(parts: SplitResult) -> tuple[str, int] | None:
        port = parts.port or {"http": 80}.get(parts.scheme, 443)
        try:
            async with gate, asyncio.timeout(TIMEOUT_S):
                found = await resolver.resolve(parts.hostname or "", port)
        except (OSError, TimeoutError):  # refused, or unknown
            return None
        return (found[0]["host"], port) if found else None

    try:
        found = await asyncio.gather(*map(place, hosts.values()))
    finally:
        await resolver.close()
    places = {name: one for name, one in zip(hosts, found, strict=True) if one is not None}
    return await measure_connects(site, places, open_and_close), len(hosts)


async def _connect_ms(connect: Connect, host: str, port: int) -> float | None:
    start = time.perf_counter()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await connect(host, port)
    except (OSError, TimeoutError):
        return None
    return (time.perf_counter() - start) * 1000


async def open_and_close(host: str, port: int) -> None:
    """A plain connection, to addresses that were checked before."""
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    await writer.wait_closed()
