"""Serving benchmark: a reader polls every feed repeatedly with conditional GET, on the machine of the server.

The reader writes plain HTTP to sockets, so that it uses little CPU itself.
"""

from __future__ import annotations

import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from tidings.store import Store, open_store
from tidings_lab.datasets import Posts
from tidings_lab.progress import Report

_BATCH_POSTS = 25_000
_MATCHES_PER_POST = 5
_START_TIMEOUT_S = 60
_OPEN = re.compile(rb"open (http://\S+?)/")
_STATUS, _ETAG = re.compile(rb"HTTP/1\.1 (\d+)"), re.compile(rb"\r\netag: ([^\r]+)")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)")


class ServingLoad(NamedTuple):
    """The number of feeds, of simultaneous connections, and of rounds."""

    feeds: int = 10_000
    connections: int = 16
    rounds: int = 5
    batches: int = 2


QUICK = ServingLoad(feeds=200, connections=4, rounds=2, batches=1)


def measure_serving(posts: Posts, load: ServingLoad, seed: int, report: Report) -> dict[str, Any]:
    """Measure responses/s per round. The reader fetches everything in the first round; nothing is new later."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-serve-") as name:
        folder = Path(name)
        with open_store(folder) as store:
            paths = _fill_store(store, posts, load, np.random.default_rng([seed, 7]))
            with _running_server(folder) as (host, port):
                version = _data_version(store)
                rounds = asyncio.run(_poll_rounds(host, port, paths, load, report))
                written = _data_version(store) != version
            matches = store.sizes().matches
    rates = [load.feeds / round_["seconds"] for round_ in rounds]
    return {
        **load._asdict(),
        "matches": matches,
        "rounds_run": rounds,
        "first_answers_per_second": rates[0],
        "answers_per_second": statistics.median(rates[1:]),
        "not_modified_share": min(round_["statuses"].get("304", 0) for round_ in rounds[1:]) / load.feeds,
        "wrote": written,
    }


def _fill_store(store: Store, posts: Posts, load: ServingLoad, rng: np.random.Generator) -> list[str]:
    """Create feeds with matches of real posts. Returns their paths."""
    ids = store.subscriptions.add_many([(f"word{number}", "bench") for number in range(load.feeds)])
    size = min(_BATCH_POSTS, len(posts))
    for batch in range(load.batches):
        table = posts.table.slice(batch * size % max(1, len(posts) - size + 1), size).select(["id", "text"])
        rows = np.repeat(np.arange(len(table)), _MATCHES_PER_POST)
        hit = rng.integers(ids[0], ids[-1] + 1, len(rows))
        store.batches.begin("bench", batch, 1, 1)
        store.batches.commit("bench", batch, table, pa.table({"subscription": hit, "post_row": rows}))
    with store.database.transaction():  # one transaction for all
        return [f"/read/{store.feed_urls.get_or_create(subscription)}/rss" for subscription in ids]


def _data_version(store: Store) -> int:
    """Return SQLite's data version; it changes when another connection writes."""
    return int(store.database.fetch("PRAGMA data_version")[0][0])


@contextmanager
def _running_server(folder: Path) -> Iterator[tuple[str, int]]:
    """`tidings serve` without its child processes; yields host and port."""
    command = [sys.executable, "-m", "tidings.cli.main", "serve", "--state", str(folder), "--bind", "127.0.0.1:0"]
    command += ["--no-stream", "--no-crawl", "--no-webhooks"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            yield _address(server)
        finally:
            server.terminate()


def _address(server: subprocess.Popen[bytes]) -> tuple[str, int]:
    deadline, output = time.monotonic() + _START_TIMEOUT_S, server.stdout
    while output is not None and time.monotonic() < deadline and (line := output.readline()):
        if found := _OPEN.search(line):
            parts = urlsplit(found[1].decode())
            return str(parts.hostname), int(parts.port or 80)
    raise RuntimeError("tidings serve did not start")


async def _poll_rounds(
    host: str, port: int, paths: list[str], load: ServingLoad, report: Report
) -> list[dict[str, Any]]:
    known: dict[str, bytes] = {}
    rounds = []
    for number in range(load.rounds + 1):
        start = time.perf_counter()
        shares = [paths[first :: load.connections] for first in range(load.connections)]
        counts = await asyncio.gather(*(_poll(host, port, share, known) for share in shares))
        seconds = time.perf_counter() - start
        statuses = dict(sum(counts, Counter()))
        rounds.append({"seconds": seconds, "statuses": statuses})
        counts_text = ", ".join(f"{count:,} × {status}" for status, count in statuses.items())
        report(f"  round {number}: {len(paths) / seconds:,.0f} responses/s ({counts_text})")
    return rounds


async def _poll(host: str, port: int, paths: list[str], known: dict[str, bytes]) -> Counter[str]:
    """Request each path once over one connection. Returns the number of responses per status."""
    reader, writer = await asyncio.open_connection(host, port)
    statuses: Counter[str] = Counter()
    for path in paths:
        tag = known.get(path)
        condition = b"" if tag is None else b"If-None-Match: " + tag + b"\r\n"
        writer.write(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: bench\r\n" + condition + b"\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if length is not None and int(length[1]):
            await reader.readexactly(int(length[1]))
        status, etag = _STATUS.match(head), _ETAG.search(head)
        statuses[status[1].decode() if status else "none"] += 1
        if etag is not None:
            known[path] = etag[1]
    writer.close()
    await writer.wait_closed()
    return statuses
