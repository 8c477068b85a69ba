"""Serving measured: a reader that polls every feed again and again with conditional GET, on one machine with the
server. The reader speaks plain HTTP over sockets, so that it costs little beside what it measures."""

from __future__ import annotations

import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from tidings.store import Store, open_store
from tidings_lab.datasets import Posts

Say = Callable[[str], None]
_BATCH_POSTS = 25_000
_MATCHES_A_POST = 5
_START_S = 60
_OPEN = re.compile(rb"open (http://\S+?)/")
_STATUS, _ETAG = re.compile(rb"HTTP/1\.1 (\d+)"), re.compile(rb"\r\netag: ([^\r]+)")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)")


class Load(NamedTuple):
    """How many feeds are polled, by how many connections at once, how often each."""

    feeds: int = 10_000
    connections: int = 16
    rounds: int = 5
    batches: int = 2


QUICK = Load(feeds=200, connections=4, rounds=2, batches=1)


def measure_serving(posts: Posts, load: Load, seed: int, say: Say) -> dict[str, Any]:
    """Answers a second, by round; in the first the reader has nothing, in all others it has everything."""
    with tempfile.TemporaryDirectory(prefix="tidings-bench-serve-") as name:
        folder = Path(name)
        with open_store(folder) as store:
            paths = _filled(store, posts, load, np.random.default_rng([seed, 7]))
            with _served(folder) as (host, port):
                version = _data_version(store)
                rounds = asyncio.run(_polled(host, port, paths, load, say))
                written = _data_version(store) != version
            matches = store.sizes().matches
    rates = [load.feeds / one["seconds"] for one in rounds]
    return {
        **load._asdict(),
        "matches": matches,
        "rounds_run": rounds,
        "first_answers_per_second": rates[0],
        "answers_per_second": statistics.median(rates[1:]),
        "not_modified_share": min(one["statuses"].get("304", 0) for one in rounds[1:]) / load.feeds,
        "wrote": written,
    }


def _filled(store: Store, posts: Posts, load: Load, rng: np.random.Generator) -> list[str]:
    """Feeds with matches of real posts; their paths."""
    ids = store.subscribe_many([(f"word{number}", "bench") for number in range(load.feeds)])
    size = min(_BATCH_POSTS, len(posts))
    for batch in range(load.batches):
        table = posts.table.slice(batch * size % max(1, len(posts) - size + 1), size).select(["id", "text"])
        rows = np.repeat(np.arange(len(table)), _MATCHES_A_POST)
        hit = rng.integers(ids[0], ids[-1] + 1, len(rows))
        store.begin("bench", batch, 1, 1)
        store.commit("bench", batch, table, pa.table({"subscription": hit, "post_row": rows}))
    with store.database.write():  # one transaction instead of one for each
        return [f"/read/{store.addresses.of(one)}/rss" for one in ids]


def _data_version(store: Store) -> int:
    """Changes whenever another connection has changed the file."""
    return int(store.database.rows("PRAGMA data_version")[0][0])


@contextmanager
def _served(folder: Path) -> Iterator[tuple[str, int]]:
    """`tidings serve` as users start it, without its children."""
    command = [sys.executable, "-m", "tidings.cli.main", "serve", "--state", str(folder), "--bind", "127.0.0.1:0"]
    command += ["--no-stream", "--no-crawl", "--no-hooks"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            yield _address(server)
        finally:
            server.terminate()


def _address(server: subprocess.Popen[bytes]) -> tuple[str, int]:
    deadline, assured = time.monotonic() + _START_S, server.stdout
    while assured is not None and time.monotonic() < deadline and (line := assured.readline()):
        if found := _OPEN.search(line):
            parts = urlsplit(found[1].decode())
            return str(parts.hostname), int(parts.port or 80)
    raise RuntimeError("tidings serve did not start")


async def _polled(host: str, port: int, paths: list[str], load: Load, say: Say) -> list[dict[str, Any]]:
    known: dict[str, bytes] = {}
    rounds = []
    for number in range(load.rounds + 1):
        start = time.perf_counter()
        shares = [paths[one :: load.connections] for one in range(load.connections)]
        counts = await asyncio.gather(*(_poll(host, port, share, known) for share in shares))
        seconds = time.perf_counter() - start
        statuses = dict(sum(counts, Counter()))
        rounds.append({"seconds": seconds, "statuses": statuses})
        told = ", ".join(f"{count:,} × {status}" for status, count in statuses.items())
        say(f"  round {number}: {len(paths) / seconds:,.0f} answers/s ({told})")
    return rounds


async def _poll(host: str, port: int, paths: list[str], known: dict[str, bytes]) -> Counter[str]:
    """Ask for each once, over one connection; how often which status came."""
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
