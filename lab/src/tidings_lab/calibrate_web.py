"""What a reflector's answers cost: a process of its own serves the feeds of some subscriptions, and is asked for them.

``python -m tidings_lab.calibrate_web FOLDER`` is that process: it prints its port, and ends with its standard input.
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

from tidings.provision.costs import Measured
from tidings.store import open_store
from tidings_lab.bench_store import made

_FEW, _MANY = 10, 100  # entries of the two kinds of feeds
_REQUEST = (
    "GET /read/{secret}/rss HTTP/1.1\r\nHost: tidings.example\r\nUser-Agent: FeedReader/1.0 (+https://reader.example)\r\n"
    "Accept: application/rss+xml, application/atom+xml, application/feed+json\r\nAccept-Encoding: gzip\r\n"
    "{validators}\r\n"
)


def web_costs(texts: Sequence[str], answers: int) -> Measured:
    """Of so many answers of each kind; posts say these texts."""
    with tempfile.TemporaryDirectory(prefix="tidings-costs-") as name:
        secrets = _stored(Path(name), texts)
        with _serving(Path(name)) as (process, port):
            few = _asked(process, port, secrets[_FEW], "", answers)
            many = _asked(process, port, secrets[_MANY], "", answers)
            validators = f"If-None-Match: {many.etag}\r\nIf-Modified-Since: {many.modified}\r\n"
            unchanged = _asked(process, port, secrets[_MANY], validators, 4 * answers)
            memory = float(process.memory_full_info().uss)
    more = _MANY - _FEW
    item_bytes, item_cpu = (many.bytes - few.bytes) / more, max(0.0, (many.cpu_s - few.cpu_s) / more)
    how = f"measured: RSS of {_FEW} and of {_MANY} entries, {answers:,} answers each"
    return {
        "answer_unchanged_bytes": (unchanged.bytes, f"measured: {4 * answers:,} answers"),
        "answer_unchanged_cpu_s": (unchanged.cpu_s, f"measured: {4 * answers:,} answers"),
        "answer_bytes": (max(0.0, few.bytes - _FEW * item_bytes), how),
        "answer_item_bytes": (item_bytes, how),
        "answer_cpu_s": (max(0.0, few.cpu_s - _FEW * item_cpu), how),
        "answer_item_cpu_s": (item_cpu, how),
        "reader_request_bytes": (float(unchanged.request_bytes), "measured: a request with both validators"),
        "reflector_bytes": (memory, "measured: the process, after these"),
    }


@dataclass(frozen=True, slots=True)
class _Answered:
    """What an answer took, in the middle, and the validators of the last one."""

    bytes: float
    cpu_s: float
    request_bytes: int
    etag: str
    modified: str


def _stored(folder: Path, texts: Sequence[str]) -> dict[int, str]:
    """A store with two subscriptions that have few and many hits; their secret addresses."""
    with open_store(folder) as store:
        posts, _ = made(0, _MANY, np.random.default_rng(1))
        posts = posts.set_column(1, "text", pa.array([texts[row % len(texts)] for row in range(_MANY)], pa.string()))
        few, many = store.subscribe("storm"), store.subscribe("flood")
        rows = [(few, row) for row in range(_FEW)] + [(many, row) for row in range(_MANY)]
        store.begin("s", 0, 1, 1)
        columns = list(zip(*rows, strict=True))
        store.commit("s", 0, posts, pa.table({"subscription": columns[0], "post_row": columns[1]}))
        return {count: store.addresses.of(one) for count, one in ((_FEW, few), (_MANY, many))}


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[psutil.Process, int]]:
    command = [sys.executable, "-m", "tidings_lab.calibrate_web", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            yield psutil.Process(child.pid), int(child.stdout.readline())
        finally:
            child.stdin.close()


def _asked(process: psutil.Process, port: int, secret: str, validators: str, answers: int) -> _Answered:
    request = _REQUEST.format(secret=secret, validators=validators).encode()
    asyncio.run(_ask(port, request, max(10, answers // 10)))  # what the first ones cost is not what one costs
    before = sum(process.cpu_times()[:2])
    total, headers = asyncio.run(_ask(port, request, answers))
    spent = sum(process.cpu_times()[:2]) - before
    return _Answered(
        total / answers, spent / answers, len(request), headers.get("etag", ""), headers.get("last-modified", "")
    )


async def _ask(port: int, request: bytes, times: int) -> tuple[int, dict[str, str]]:
    """The bytes of all answers, on one connection, and the headers of the last."""
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
    from tidings.web.context import Service
    from tidings.web.notifier import Pulse
    from tidings.web.server import answering, bound
    from tidings.web.volume_estimate import History

    listener = bound("127.0.0.1", 0)
    listener.listen()  # who reads the port may ask at once
    with open_store(folder) as writing, open_store(folder) as reading:
        pulse = Pulse(reading.last_number)
        service = Service(reading, writing, folder / "inbox", History(folder / "history"), pulse, "http://localhost")
        async with answering(service, listener):
            print(listener.getsockname()[1], flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
