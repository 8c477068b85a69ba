"""One service per PostgreSQL store: a second one is refused, also after the server was restarted."""

from __future__ import annotations

import threading
import time

import pytest

from tidings.cli import service_lease as module
from tidings.cli.options.state import StateLocation
from tidings.cli.service_lease import service_lease
from tidings.errors import StoreBusy, StoreError
from tidings.testing.postgres import binaries, running_server

pytestmark = pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed")


@pytest.fixture(scope="module")
def server():
    with running_server() as running:
        yield running


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


def test_one_work_directory_has_one_service(tmp_path):
    location = StateLocation(str(tmp_path), tmp_path)
    with (
        service_lease(location),
        pytest.raises(StoreBusy, match=r"is running already: process \d+"),
        service_lease(location),
    ):
        pass
