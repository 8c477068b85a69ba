"""A service on a store of its own, two owners, and a client for each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.store.batches import posts as post_table
from tests.store.batches import run

from tidings.store import open_store
from tidings.web.app import application
from tidings.web.context import Service
from tidings.web.notifier import Pulse
from tidings.web.server import answering, bound
from tidings.web.volume_estimate import History

ADDRESS = "http://tidings.test"


@contextmanager
def opened(folder: Path, where: str | None = None) -> Iterator[Service]:
    with open_store(where or folder) as writing, open_store(where or folder) as reading:
        history = History(folder / "history")
        yield Service(reading, writing, folder / "inbox", history, Pulse(reading.last_number, 0.02), ADDRESS)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as made:
        yield made


def client(service: Service, token: str | None) -> TestClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return TestClient(application(service), base_url=ADDRESS, headers=headers)


@pytest.fixture
def anonymous(service: Service) -> TestClient:
    return client(service, None)


@pytest.fixture
def ann(service: Service) -> TestClient:
    return client(service, service.writing.accounts.add("ann"))


@pytest.fixture
def bob(service: Service) -> TestClient:
    return client(service, service.writing.accounts.add("bob"))


@pytest.fixture
def found(service: Service) -> Callable[..., None]:
    """Stores posts as found for a subscription, as a batch of the stream would."""
    batches = iter(range(10_000))

    def store(subscription: int, ids: list[str], **columns: object) -> None:
        pairs = [(subscription, row) for row in range(len(ids))]
        run(service.writing, next(batches), post_table(ids, **columns), pairs)

    return store


@contextmanager
def listening(service: Service) -> Iterator[str]:
    """The service behind a real socket, in a thread; its address."""
    listener, ready, told = bound("127.0.0.1", 0), threading.Event(), []

    async def serve() -> None:
        stop = asyncio.Event()
        told.append((asyncio.get_running_loop(), stop))
        async with answering(service, listener):
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(10)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop, stop = told[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        listener.close()
