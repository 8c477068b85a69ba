"""Running the command as users do, in a process of its own; several commands can share one, and so one JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIDINGS = (sys.executable, "-m", "tidings.cli.main")
_SECONDS = 800
_SEVERAL = """
import contextlib, io, json, sys
from tidings.cli.main import run
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict:
        assert self.code == 0, self.err
        assert self.out.count("\n") == 1, "--json prints one line and nothing else"
        return json.loads(self.out)


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    return {**os.environ, "PYTHONPATH": path, "TIDINGS_MASTER": "local[2]"}


def tidings(*arguments: object, folder: Path | None = None, command: tuple[str, ...] = TIDINGS) -> Result:
    """One command in a process of its own."""
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def several(commands: list[list[str]], folder: Path) -> list[Result]:
    """Some commands one after the other, in one process."""
    done = subprocess.run(
        [sys.executable, "-c", _SEVERAL],
        cwd=folder,
        env=environment(),
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Result(*json.loads(line)) for line in done.stdout.splitlines()]
