"""Child processes are restarted with growing delays, and all stop together."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

import pytest

from tidings.web import supervise
from tidings.web.supervise import Child, keep_running


def python_child(code: str, name: str = "child") -> Child:
    return Child(name, (sys.executable, "-c", code), {"TIDINGS_TEST": "yes"})


def run_until(condition: Callable[[list[str]], bool], *children: Child) -> tuple[list[str], float]:
    """Run children until the condition holds for the reports; return these and the seconds that stopping took."""
    reports: list[str] = []

    async def run() -> float:
        stop = asyncio.Event()
        tasks = [asyncio.create_task(keep_running(child, stop, reports.append)) for child in children]
        async with asyncio.timeout(120):
            while not condition(reports):
                await asyncio.sleep(0.02)
            started = time.monotonic()
            stop.set()
            await asyncio.gather(*tasks)
        return time.monotonic() - started

    return reports, asyncio.run(run())


def count(word: str, reports: list[str]) -> int:
    return sum(word in line for line in reports)


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch):
    monkeypatch.setattr(supervise, "FIRST_DELAY_S", 0.1)
    monkeypatch.setattr(supervise, "_STOP_S", 1.0)


def test_a_child_that_exits_is_restarted_after_a_doubled_delay():
    code = "import os, sys; print('hello', os.environ['TIDINGS_TEST']); sys.exit(3)"
    reports, _ = run_until(lambda reports: count("started", reports) >= 3, python_child(code))
    assert [line for line in reports if "exited" in line][:2] == [
        "child: exited (code 3); restart in 0.1 s. Last line: hello yes",
        "child: exited (code 3); restart in 0.2 s. Last line: hello yes",
    ]


def test_a_killed_child_is_reported_with_its_signal():
    reports, _ = run_until(
        lambda reports: count("exited", reports) >= 1, python_child("import os; os.kill(os.getpid(), 9)")
    )
    assert count("exited (SIGKILL)", reports) >= 1


def test_a_child_is_alive_until_it_exits():
    child, states = python_child("import time; print('ready', flush=True); time.sleep(600)"), []
    run_until(lambda reports: "child: ready" in reports and not states.append(child.is_alive()), child)
    assert states == [True]
    assert not child.is_alive()


def test_all_children_stop_together_also_one_that_ignores_sigterm():
    ignoring = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
    waiting = "import time; print('ready', flush=True); time.sleep(600)"
    reports, seconds = run_until(
        lambda reports: count("ready", reports) == 2, python_child(waiting), python_child(ignoring, "stubborn")
    )
    assert seconds < 60
    assert count("exited", reports) == 0


def test_a_very_long_line_does_not_stop_the_reports():
    code = "print('x' * 1_000_000); print('after', flush=True); import time; time.sleep(600)"
    reports, _ = run_until(lambda reports: "child: after" in reports, python_child(code))
    assert "child: after" in reports


def test_a_child_that_cannot_be_started_is_tried_again():
    reports, _ = run_until(lambda reports: len(reports) >= 2, Child("missing", ("/nonexistent/program",)))
    assert reports[:2] == [
        "missing: cannot be started (No such file or directory); restart in 0.1 s",
        "missing: cannot be started (No such file or directory); restart in 0.2 s",
    ]
