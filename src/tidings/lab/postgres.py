"""A PostgreSQL server for tests and benchmarks, from Debian's packages: made and stopped in a temporary directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a running server that listens on a Unix socket only."""
    bin_ = binaries()
    if bin_ is None:
        raise FileNotFoundError("there is no PostgreSQL server; Debian has it as the package postgresql")
    home = Path(tempfile.mkdtemp(prefix="tidings-pg-", dir="/tmp"))  # a socket's path must be short
    if os.getuid() == 0:
        shutil.chown(home, "postgres")
    try:
        _run(bin_ / "initdb", "-D", home / "data", "-U", "tidings", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {home} -c listen_addresses='' {_QUICK}"
        _run(bin_ / "pg_ctl", "-D", home / "data", "-w", "-l", home / "log", "-o", options, "start")
        try:
            yield f"postgresql://tidings@/postgres?host={home}"
        finally:
            _run(bin_ / "pg_ctl", "-D", home / "data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(home, ignore_errors=True)
