"""One service per PostgreSQL store: a second one is refused, also after the server was restarted."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from tidings.cli import service_lease as module
from tidings.cli.options.state import StateLocation
from tidings.cli.service_lease import service_lease
from tidings.errors import StoreBusy, StoreError
from tidings.testing.postgres import binaries, running_server


@pytest.fixture(scope="module")
def server():
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    with running_server() as running:
        yield running


class SlowLocation:
    """A database whose server loses the lease immediately and is slow to grant it again."""

    is_database = True

    def __init__(self, work_dir):
        self.work_dir = work_dir
        self.is_asked_again, self.may_answer = threading.Event(), threading.Event()
        self.granted, self.held = [], 0

    @contextmanager
    def open_or_create(self):
        if self.granted:
            self.is_asked_again.set()
            assert self.may_answer.wait(60)
        yield self

    def lease(self, kind):
        self.granted.append(self._hold())  # a reference: only an explicit end counts
        return self.granted[-1]

    @contextmanager
    def _hold(self):
        self.held += 1
        try:
            yield self
        finally:
            self.held -= 1

    def check(self):
        raise StoreError("the server was restarted")


def is_refused(location) -> bool:
    try:
        with service_lease(location):
            return False
    except StoreBusy as error:
        return "The service of PostgreSQL database" in str(error)
    except StoreError:  # the server is starting
        return False


def test_a_second_service_of_a_database_is_refused_also_after_a_restart(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CHECK_S", 0.05)
    first, second = (StateLocation(server.url, tmp_path / name) for name in ("first", "second"))
    with service_lease(first):
        assert is_refused(second)
        server.stop()
        server.start()
        deadline = time.monotonic() + 60
        while not is_refused(second) and time.monotonic() < deadline:  # until the first one has taken it again
            threading.Event().wait(0.5)
        assert is_refused(second)
    assert not is_refused(second)


def test_a_lease_that_is_granted_after_the_end_of_the_service_is_given_back(tmp_path, monkeypatch):
    location = SlowLocation(tmp_path)
    monkeypatch.setattr(module, "_CHECK_S", 0.01)
    monkeypatch.setattr(module, "_JOIN_S", 0.01)
    with service_lease(location):
        assert location.is_asked_again.wait(60)
        [thread] = [thread for thread in threading.enumerate() if thread.name == "tidings-service-lease"]
    assert thread.is_alive()
    location.may_answer.set()
    thread.join(60)
    assert (len(location.granted), location.held) == (2, 0)


def test_one_work_directory_has_one_service(tmp_path):
    location = StateLocation(str(tmp_path), tmp_path)
    with (
        service_lease(location),
        pytest.raises(StoreBusy, match=r"is running already: process \d+"),
        service_lease(location),
    ):
        pass
