"""Latencies between sites and hosts in milliseconds, from a file or measured."""

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
from tidings.net.allowlist import PUBLIC_ONLY, AllowedNetworks
from tidings.net.ssrf_guard import GuardedResolver
from tidings.net.urls import host_of
from tidings.text.csv_cells import neutralize_cell, restore_cell

COLUMNS = ("site", "host", "ms")
ATTEMPTS, TIMEOUT_S, MAX_CONNECTIONS = 3, 3.0, 100
_MAX_LINES_IN_ERROR = 3
Connect = Callable[[str, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Latencies:
    """Known milliseconds from sites to hosts."""

    ms: Mapping[tuple[str, str], float]  # by site and host

    def to_matrix(self, hosts: Sequence[str], sites: Sequence[str]) -> NDArray[np.float64]:
        """Return (host, site) milliseconds. Unknown ones are the median of the site, or of all sites."""
        known = np.array([[self.ms.get((site, host), np.nan) for site in sites] for host in hosts], np.float64)
        known = known.reshape(len(hosts), len(sites))
        overall = float(np.median(list(self.ms.values()))) if self.ms else 0.0
        by_site = [[ms for (at, _), ms in self.ms.items() if at == site] for site in sites]
        guesses = np.array([float(np.median(found)) if found else overall for found in by_site])
        return np.where(np.isnan(known), guesses, known)


def read_latencies(path: Path) -> Latencies:
    """Read a CSV file with the columns site, host and ms. Raises InputError with the first invalid lines."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if rows.fieldnames is None or not set(COLUMNS) <= set(rows.fieldnames):
                raise InputError(f"{path}: the first line must name the columns {', '.join(COLUMNS)}.")
            return Latencies(_read(path, rows))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from error


def _read(path: Path, rows: csv.DictReader[str]) -> dict[tuple[str, str], float]:
    latencies, invalid = {}, list[str]()
    for row in rows:
        try:
            ms = float(row["ms"] or "")
        except (TypeError, ValueError):
            ms = -1.0
        if not row["site"] or not row["host"] or not 0 <= ms < float("inf"):
            invalid.append(str(rows.line_num))
        else:
            latencies[restore_cell(row["site"]), restore_cell(row["host"]).lower()] = ms
    if invalid:
        more = f" and {len(invalid) - _MAX_LINES_IN_ERROR:,} more" if len(invalid) > _MAX_LINES_IN_ERROR else ""
        raise InputError(
            f"{path}: line {', '.join(invalid[:_MAX_LINES_IN_ERROR])}{more} has no site, no host or no milliseconds "
            "of at least 0."
        )
    return latencies


def write_latencies(latencies: Latencies, path: Path) -> None:
    """Write a file for `read_latencies`, sorted."""
    with path.open("w", encoding="utf-8", newline="") as file:
        write_csv(latencies, file)


def write_csv(latencies: Latencies, file: TextIO) -> None:
    """Write the latencies as CSV to an open file."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    for (site, host), ms in sorted(latencies.ms.items()):
        rows.writerow((neutralize_cell(site), neutralize_cell(host), f"{ms:.3f}"))


async def measure_connects(
    site: str, addresses: Mapping[str, tuple[str, int]], connect: Connect, attempts: int = ATTEMPTS
) -> Latencies:
    """Measure the time to connect to each host: the fastest of some attempts, because others only waited.

    `connect` opens and closes one connection to an address and port. A host that does not answer has no entry.
    """
    gate = asyncio.Semaphore(MAX_CONNECTIONS)

    async def probe(name: str, address: str, port: int) -> tuple[str, float | None]:
        async with gate:
            times = [await _connect_ms(connect, address, port) for _ in range(attempts)]
        answered = [ms for ms in times if ms is not None]
        return name.lower(), min(answered, default=None)

    found = await asyncio.gather(*(probe(name, *address) for name, address in addresses.items()))
    return Latencies({(site, name): ms for name, ms in found if ms is not None})


async def measure_feeds(site: str, urls: Iterable[str], allow: AllowedNetworks = PUBLIC_ONLY) -> tuple[Latencies, int]:
    """Measure the time to connect to the hosts of feeds; return it with the number of hosts.

    Hosts that may not be crawled are not probed. Name lookups are not measured, because crawlers cache them.
    """
    hosts = {host_of(url): urlsplit(url) for url in urls}
    resolver, gate = GuardedResolver(allow), asyncio.Semaphore(MAX_CONNECTIONS)

    async def resolve(parts: SplitResult) -> tuple[str, int] | None:
        port = parts.port or {"http": 80}.get(parts.scheme, 443)
        try:
            async with gate, asyncio.timeout(TIMEOUT_S):
                found = await resolver.resolve(parts.hostname or "", port)
        except (OSError, TimeoutError):  # not allowed, or not found
            return None
        return (found[0]["host"], port) if found else None

    try:
        found = await asyncio.gather(*map(resolve, hosts.values()))
    finally:
        await resolver.close()
    addresses = {name: address for name, address in zip(hosts, found, strict=True) if address is not None}
    return await measure_connects(site, addresses, connect_once), len(hosts)


async def _connect_ms(connect: Connect, host: str, port: int) -> float | None:
    start = time.perf_counter()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await connect(host, port)
    except (OSError, TimeoutError):
        return None
    return (time.perf_counter() - start) * 1000


async def connect_once(host: str, port: int) -> None:
    """Open and close a connection to an address that was checked before."""
    _, writer = await asyncio.open_connection(host, port)
    writer.close()
    await writer.wait_closed()
