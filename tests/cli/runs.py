"""Run commands: in this process, in a process of their own, or several in one process that has its own JVM."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIDINGS = (sys.executable, "-m", "tidings.cli.main")
_TIMEOUT_S = 800
_RUN_COMMANDS = """
import contextlib, io, json, sys
from tidings.cli.main import run
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

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


def run_command(*arguments: object, folder: Path | None = None, command: tuple[str, ...] = TIDINGS) -> CommandResult:
    """Run one command in a process of its own."""
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


def run_commands(commands: list[list[str]], folder: Path) -> list[CommandResult]:
    """Run commands in turn, in one new process."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN_COMMANDS],
        cwd=folder,
        env=environment(),
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [CommandResult(*json.loads(line)) for line in done.stdout.splitlines()]


def run_here(commands: Sequence[Sequence[object]], folder: Path, spark=None) -> list[CommandResult]:
    """Run commands in turn in this process; batch commands use a new session of the shared Spark context."""
    from tidings.cli.main import run

    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        if spark is not None:
            _use_session(patch, spark)
        for arguments in commands:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run([str(argument) for argument in arguments])
            results.append(CommandResult(code, out.getvalue(), err.getvalue()))
    return results


def _use_session(patch: pytest.MonkeyPatch, spark) -> None:
    from tidings.batch import correlate_files, match_files, trend_samples
    from tidings.spark.post_reader import READER_SETTINGS

    @contextlib.contextmanager
    def shared_session(master: str | None) -> Iterator[object]:
        session = spark.newSession()
        for name, value in READER_SETTINGS.items():
            session.conf.set(name, value)
        yield session

    for module in (match_files, correlate_files, trend_samples):
        patch.setattr(module, "batch_session", shared_session)
