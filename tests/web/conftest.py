"""Fixtures: an application context on a store of its own, two owners, and a client for each."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.store.batches import posts as post_table
from tests.store.batches import run_batch

from tidings.store import open_store
from tidings.web.app import build_application
from tidings.web.connection_limits import ConnectionLimits
from tidings.web.context import AppContext
from tidings.web.listener import open_listener
from tidings.web.notifier import build_notifier
from tidings.web.query_check import QueryChecker
from tidings.web.server import http_server
from tidings.web.stream_phase import phase_reader
from tidings.web.volume_estimate import VolumeEstimator

ADDRESS = "http://tidings.test"


@contextmanager
def open_context(folder: Path, location: str | None = None) -> Iterator[AppContext]:
    with open_store(location or folder) as write_store, open_store(location or folder) as read_store:
        checker = QueryChecker(VolumeEstimator(folder / "history"))
        read_phase = phase_reader(folder, is_alive=lambda: False)
        notifier = build_notifier(read_store, read_phase, 0.02)
        inbox = folder / "inbox"
        yield AppContext(read_store, write_store, inbox, checker, notifier, ADDRESS, read_phase=read_phase)


@pytest.fixture
def context(tmp_path: Path) -> Iterator[AppContext]:
    with open_context(tmp_path) as opened:
        yield opened


def client(context: AppContext, token: str | None) -> TestClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return TestClient(build_application(context), base_url=ADDRESS, headers=headers)


@pytest.fixture
def anonymous(context: AppContext) -> TestClient:
    return client(context, None)


@pytest.fixture
def ann(context: AppContext) -> TestClient:
    return client(context, context.write_store.accounts.add("ann"))


@pytest.fixture
def bob(context: AppContext) -> TestClient:
    return client(context, context.write_store.accounts.add("bob"))


@pytest.fixture
def store_matches(context: AppContext) -> Callable[..., None]:
    """Return a function that stores posts as matches of a subscription, like a batch of the stream."""
    batches = iter(range(10_000))

    def commit(subscription: int, ids: list[str], **columns: object) -> None:
        pairs = [(subscription, row) for row in range(len(ids))]
        run_batch(context.write_store, next(batches), post_table(ids, **columns), pairs)

    return commit


@contextmanager
def live_server(context: AppContext, limits: ConnectionLimits = ConnectionLimits(), port: int = 0) -> Iterator[str]:
    """Serve on a real socket, in a thread; yield the URL."""
    listener, ready, running = open_listener("127.0.0.1", port), threading.Event(), []

    async def serve() -> None:
        stop = asyncio.Event()
        running.append((asyncio.get_running_loop(), stop))
        async with http_server(context, listener, limits):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), name="serve")
    thread.start()
    assert ready.wait(60)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop, stop = running[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        listener.close()


def wait_until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
