"""Children are started again when they end, with growing patience, and all end when told to."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from tidings.web import supervise
from tidings.web.supervise import Child, keep_going


def child(code, name="child"):
    return Child(name, (sys.executable, "-c", code), {"TIDINGS_TRIED": "yes"})


def supervised(seconds, *children):
    """What was said in so many seconds, and how long ending took."""
    said = []

    async def run():
        stop = asyncio.Event()
        tasks = [asyncio.create_task(keep_going(one, stop, said.append)) for one in children]
        await asyncio.sleep(seconds)
        began = time.monotonic()
        stop.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 15)
        return time.monotonic() - began

    return said, asyncio.run(run())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(supervise, "FIRST_WAIT_S", 0.1)
    monkeypatch.setattr(supervise, "_END_S", 1.0)


def test_who_ends_is_started_again_after_a_while_that_doubles():
    said, _ = supervised(2.5, child("import os, sys; print('hello', os.environ['TIDINGS_TRIED']); sys.exit(3)"))
    endings = [line for line in said if "ended" in line]
    assert endings[:2] == [
        "child: ended (code 3); again in 0.1 s. It said: hello yes",
        "child: ended (code 3); again in 0.2 s. It said: hello yes",
    ]
    assert sum("started" in line for line in said) >= 3


def test_who_is_killed_is_named_by_its_signal():
    said, _ = supervised(1.0, child("import os; os.kill(os.getpid(), 9)"))
    assert any("ended (SIGKILL)" in line for line in said)


def test_all_end_together_also_who_does_not_want_to():
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    said, seconds = supervised(1.5, child("import time; time.sleep(60)"), child(stubborn, "deaf"))
    assert "deaf: deaf" in said
    assert seconds < 5
    assert not any("ended" in line for line in said)


def test_a_line_without_end_does_not_end_the_listening():
    said, _ = supervised(1.5, child("print('x' * 1_000_000); print('after', flush=True); import time; time.sleep(60)"))
    assert "child: after" in said


def test_who_cannot_be_started_is_tried_again():
    said, _ = supervised(0.5, Child("nobody", ("/nonexistent/program",)))
    assert said[:2] == [
        "nobody: cannot be started (No such file or directory); again in 0.1 s",
        "nobody: cannot be started (No such file or directory); again in 0.2 s",
    ]
