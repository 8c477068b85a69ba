"""A PostgreSQL server for tests and benchmarks, from Debian's packages: made and stopped in a temporary directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_QUICK = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=20 -c shared_buffers=32MB"


def binaries() -> Path | None:
    """Where `initdb` and `pg_ctl` are; Debian keeps them off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _run(*command: str | Path) -> None:
    """As the user postgres when we are root: the server refuses to run as root."""
    user = "postgres" if os.getuid() == 0 else None
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60, user=user, cwd="/")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that listens on a Unix socket only."""

    home: Path
    bin: Path

    @property
    def url(self) -> str:
        return f"postgresql://tidings@/postgres?host={self.home}"

    def start(self) -> None:
        options = f"-k {self.home} -c listen_addresses='' {_QUICK}"
        _run(self.bin / "pg_ctl", "-D", self.home / "data", "-w", "-l", self.home / "log", "-o", options, "start")

    def stop(self) -> None:
        """Whoever is connected; what was committed is kept."""
        _run(self.bin / "pg_ctl", "-D", self.home / "data", "-m", "fast", "-w", "stop")


@contextmanager
def running_server() -> Iterator[Server]:
    """A server that runs; afterwards it is stopped, if it is not yet, and all it held is deleted."""
    bin_ = binaries()
    if bin_ is None:
        raise FileNotFoundError("there is no PostgreSQL server; Debian has it as the package postgresql")
    home = Path(tempfile.mkdtemp(prefix="tidings-pg-", dir="/tmp"))  # a socket's path must be short
    if os.getuid() == 0:
        shutil.chown(home, "postgres")
    try:
        _run(bin_ / "initdb", "-D", home / "data", "-U", "tidings", "-A", "trust", "-E", "UTF8", "--no-sync")
        server = Server(home, bin_)
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
    """The URL of a running server."""
    with running_server() as server:
        yield server.url
