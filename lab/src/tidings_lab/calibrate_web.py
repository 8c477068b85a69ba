"""Cost of the responses of a reflector: a separate process serves the feeds of some subscriptions.

`python -m tidings_lab.calibrate_web FOLDER` is that process: it prints its port and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from tidings.provision.costs import MeasuredCosts
from tidings.store import open_store
from tidings_lab.bench_store import generate_batch

_SMALL_FEED, _LARGE_FEED = 10, 100  # entries
_REQUEST = (
    "GET /read/{secret}/rss HTTP/1.1\r\nHost: tidings.example\r\nUser-Agent: FeedReader/1.0 (+https://reader.example)\r\n"
    "Accept: application/rss+xml, application/atom+xml, application/feed+json\r\nAccept-Encoding: gzip\r\n"
    "{validators}\r\n"
)


def web_costs(texts: Sequence[str], answers: int) -> MeasuredCosts:
    """Measure the given number of responses of each kind. The posts have these texts."""
    with tempfile.TemporaryDirectory(prefix="tidings-costs-") as name:
        secrets = _fill_store(Path(name), texts)
        with _server_process(Path(name)) as (process, port):
            few = _measure_responses(process, port, secrets[_SMALL_FEED], "", answers)
            many = _measure_responses(process, port, secrets[_LARGE_FEED], "", answers)
            validators = f"If-None-Match: {many.etag}\r\nIf-Modified-Since: {many.modified}\r\n"
            unchanged = _measure_responses(process, port, secrets[_LARGE_FEED], validators, 4 * answers)
            memory = float(process.memory_full_info().uss)
    more = _LARGE_FEED - _SMALL_FEED
    item_bytes, item_cpu = (many.bytes - few.bytes) / more, max(0.0, (many.cpu_s - few.cpu_s) / more)
    how = f"measured: RSS of {_SMALL_FEED} and of {_LARGE_FEED} entries, {answers:,} responses each"
    return {
        "answer_unchanged_bytes": (unchanged.bytes, f"measured: {4 * answers:,} responses"),
        "answer_unchanged_cpu_s": (unchanged.cpu_s, f"measured: {4 * answers:,} responses"),
        "answer_bytes": (max(0.0, few.bytes - _SMALL_FEED * item_bytes), how),
        "answer_item_bytes": (item_bytes, how),
        "answer_cpu_s": (max(0.0, few.cpu_s - _SMALL_FEED * item_cpu), how),
        "answer_item_cpu_s": (item_cpu, how),
        "reader_request_bytes": (float(unchanged.request_bytes), "measured: a request with both validators"),
        "reflector_bytes": (memory, "measured: the process after these responses"),
    }


@dataclass(frozen=True, slots=True)
class _ResponseCost:
    """Mean cost of a response, and the validators of the last one."""

    bytes: float
    cpu_s: float
    request_bytes: int
    etag: str
    modified: str


def _fill_store(folder: Path, texts: Sequence[str]) -> dict[int, str]:
    """Create a store with two subscriptions that have few and many matches. Returns their feed secrets."""
    with open_store(folder) as store:
        posts, _ = generate_batch(0, _LARGE_FEED, np.random.default_rng(1))
        posts = posts.set_column(
            1, "text", pa.array([texts[row % len(texts)] for row in range(_LARGE_FEED)], pa.string())
        )
        few, many = store.subscriptions.add("storm"), store.subscriptions.add("flood")
        rows = [(few, row) for row in range(_SMALL_FEED)] + [(many, row) for row in range(_LARGE_FEED)]
        store.batches.begin("s", 0, 1, 1)
        columns = list(zip(*rows, strict=True))
        store.batches.commit("s", 0, posts, pa.table({"subscription": columns[0], "post_row": columns[1]}))
        return {
            count: store.feed_urls.get_or_create(subscription)
            for count, subscription in ((_SMALL_FEED, few), (_LARGE_FEED, many))
        }


@contextmanager
def _server_process(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    command = [sys.executable, "-m", "tidings_lab.calibrate_web", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield psutil.Process(child.pid), int(child.stdout.readline())
        finally:
            child.stdin.close()


def _measure_responses(process: psutil.Process, port: int, secret: str, validators: str, answers: int) -> _ResponseCost:
    request = _REQUEST.format(secret=secret, validators=validators).encode()
    asyncio.run(_request(port, request, max(10, answers // 10)))  # warm-up
    before = sum(process.cpu_times()[:2])
    total, headers = asyncio.run(_request(port, request, answers))
    spent = sum(process.cpu_times()[:2]) - before
    return _ResponseCost(
        total / answers, spent / answers, len(request), headers.get("etag", ""), headers.get("last-modified", "")
    )


async def _request(port: int, request: bytes, times: int) -> tuple[int, dict[str, str]]:
    """Send a request several times over one connection. Returns the bytes of all responses and the last headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    total, headers = 0, dict[str, str]()
    for _ in range(times):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        total += len(head) + len(body)
    writer.close()
    await writer.wait_closed()
    return total, headers


async def _serve(folder: Path) -> None:
    from tidings.web.context import AppContext
    from tidings.web.listener import open_listener
    from tidings.web.notifier import build_notifier
    from tidings.web.query_check import QueryChecker
    from tidings.web.server import http_server
    from tidings.web.stream_phase import external_phase
    from tidings.web.volume_estimate import VolumeEstimator

    listener = open_listener("127.0.0.1", 0)
    listener.listen()  # clients may connect as soon as they know the port
    with open_store(folder) as writing, open_store(folder) as reading:
        notifier = build_notifier(reading, external_phase)
        checker = QueryChecker(VolumeEstimator(folder / "history"))
        service = AppContext(reading, writing, folder / "inbox", checker, notifier, "http://localhost")
        async with http_server(service, listener):
            print(listener.getsockname()[1], flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
