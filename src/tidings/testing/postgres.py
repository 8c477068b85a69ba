"""A temporary PostgreSQL server for tests and benchmarks, from the packages of Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tidings.testing.processes import descendants, read_arguments

_QUICK = "-c fsync=off -c full_page_writes=off -c max_connections=40 -c shared_buffers=32MB"
_FORGETFUL = "-c synchronous_commit=off"  # a crash of the server loses the last commits


def binaries() -> Path | None:
    """Return the folder of `initdb` and `pg_ctl`, or None. Debian does not put them on the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _run(*command: str | Path) -> None:
    """Run a command; as user postgres if we are root, because the server does not run as root."""
    user = "postgres" if os.getuid() == 0 else None
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60, user=user, cwd="/")


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A server that listens on a Unix socket only."""

    home: Path
    bin: Path
    survives_crash: bool = False  # commits survive `crash`, but not a crash of the machine

    @property
    def url(self) -> str:
        return f"postgresql://tidings@/postgres?host={self.home}"

    def start(self) -> None:
        options = f"-k {self.home} -c listen_addresses='' {_QUICK} {'' if self.survives_crash else _FORGETFUL}"
        _run(self.bin / "pg_ctl", "-D", self.home / "data", "-w", "-l", self.home / "log", "-o", options, "start")

    def stop(self) -> None:
        """Stop the server and disconnect all clients. Committed data stays."""
        _run(self.bin / "pg_ctl", "-D", self.home / "data", "-m", "fast", "-w", "stop")

    def crash(self) -> None:
        """Stop the server at once, as if it had crashed; the next start recovers."""
        _run(self.bin / "pg_ctl", "-D", self.home / "data", "-m", "immediate", "-w", "stop")

    def list_backends(self) -> list[int]:
        """Return the processes that serve a client."""
        postmaster = int((self.home / "data" / "postmaster.pid").read_text().split()[0])
        titles = {pid: " ".join(read_arguments(pid)) for pid in descendants(postmaster)}
        return [pid for pid, title in titles.items() if title.startswith("postgres: tidings ")]


@contextmanager
def running_server(survives_crash: bool = False) -> Iterator[PostgresServer]:
    """A running server; it is stopped and its data deleted on exit. One that survives a crash commits slower."""
    bin_ = binaries()
    if bin_ is None:
        raise FileNotFoundError("PostgreSQL is not installed. Install the Debian package postgresql.")
    home = Path(tempfile.mkdtemp(prefix="tidings-pg-", dir="/tmp"))  # the path of a socket must be short
    if os.getuid() == 0:
        shutil.chown(home, "postgres")
    try:
        _run(bin_ / "initdb", "-D", home / "data", "-U", "tidings", "-A", "trust", "-E", "UTF8", "--no-sync")
        server = PostgresServer(home, bin_, survives_crash)
        server.start()
        try:
            yield server
        finally:
            with suppress(subprocess.CalledProcessError):
                server.stop()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def postgres() -> Iterator[str]:
    """A running server; yields its URL."""
    with running_server() as server:
        yield server.url
