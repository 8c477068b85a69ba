"""A real `tidings serve` with its child processes, for tests: start, request, kill, restart.

with running_service(tmp_path) as service:
    made = service.request("POST", "/api/subscriptions", {"query": "storm"})
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from tidings.errors import InputError
from tidings.store import Store, open_store
from tidings.store.accounts import Quotas
from tidings.testing.processes import descendants, find_processes
from tidings.testing.spark import lean_spark_environment

OWNER = "tester"
TIMEOUT_S = 600.0
_POLL_S = 0.1
_REQUEST_S = 30.0
_COMMAND = (sys.executable, "-m", "tidings.cli.main", "serve")
_URL = re.compile(r"open (http://[^\s/]+)")
_MANY = Quotas(subscriptions=100_000, feeds=100_000, posts_per_day=10_000_000)
_Result = TypeVar("_Result")


class ServiceProcess:
    """A service on `folder`/state, or in the database at `database` with `folder`/work for files.

    It starts with the block of `running_service`, and again with `start` after `kill` or `stop`. The port stays.
    """

    def __init__(self, folder: Path, database: str | None = None, options: Sequence[str] = ()) -> None:
        self.state, self.work_dir = database or str(folder / "state"), folder / ("work" if database else "state")
        self.log, self._options = folder / "serve.log", options
        self._places = ("--state", self.state, *(("--work-dir", str(self.work_dir)) if database else ()))
        self.address, self._bind = "", "127.0.0.1:0"
        self.token = self.add_owner(OWNER)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def inbox(self) -> Path:
        return self.work_dir / "inbox"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the service was not started"
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def open_store(self) -> Store:
        return open_store(self.state)

    def add_owner(self, name: str) -> str:
        """Add an owner with large quotas and return a token."""
        with self.open_store() as store:
            with suppress(InputError):  # it exists already
                return store.accounts.add(name, _MANY)
            return store.accounts.add_token(name)

    def start(self) -> None:
        """Start it and wait until it answers. The stream starts later."""
        already = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*_COMMAND, *self._places, "--bind", self._bind, "--allow", "loopback", *self._options],
                env={"TIDINGS_MASTER": "local[2]", **os.environ, **lean_spark_environment()},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.address = self.wait_until(lambda: _URL.search(self.read_log(already)), "the address")[1]
        self._bind = self.address.removeprefix("http://")
        self.wait_until(self._answers, "an answer")

    def _answers(self) -> bool:
        with suppress(OSError):
            return bool(self.request("GET", "/api/me"))
        return False

    def read_log(self, start: int = 0) -> str:
        return self.log.read_bytes()[start:].decode("utf-8", "replace")

    def wait_until(self, condition: Callable[[], _Result | None], what: str, timeout_s: float = TIMEOUT_S) -> _Result:
        """Wait for a condition and return its result; fail if it takes too long or the service ends."""
        deadline = time.monotonic() + timeout_s
        while not (result := condition()):
            assert self.is_running, f"the service ended before: {what}\n{self.read_log()[-4000:]}"
            assert time.monotonic() < deadline, f"waited {timeout_s} s for: {what}\n{self.read_log()[-4000:]}"
            time.sleep(_POLL_S)
        return result

    def request(
        self, method: str, path: str, body: object = None, token: str | None = None, timeout_s: float = _REQUEST_S
    ) -> Any:
        """Send a request as the owner, or with another token; return the JSON of the response, None if it is empty."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return json.loads(response.read() or b"null")

    def find_processes(self, role: str) -> list[int]:
        """Return the process ids of a role: serve, driver, jvm, daemon, worker, crawler or sender."""
        return find_processes(self.pid, role)

    def kill(self) -> None:
        """Kill the service itself; its children notice it. Wait until they have ended, as a supervisor would."""
        children = descendants(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        assert self.process is not None
        self.process.wait()
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline and any(map(_is_alive, children)):
            time.sleep(_POLL_S)
        assert not any(map(_is_alive, children)), "the children of a killed service do not end"

    def stop(self) -> int:
        """Stop it with SIGTERM and return the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_S)

    def kill_everything(self) -> None:
        """Kill the service and all its descendants: the end of a test."""
        if self.process is not None:
            for pid in (*reversed(descendants(self.pid)), self.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def running_service(folder: Path, database: str | None = None, options: Sequence[str] = ()) -> Iterator[ServiceProcess]:
    """A running service; at the latest on exit, it and its descendants are killed."""
    service = ServiceProcess(folder, database, options)
    try:
        service.start()
        yield service
    finally:
        service.kill_everything()
