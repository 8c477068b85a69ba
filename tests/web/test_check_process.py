"""The process that checks queries: same answers as in the server, restarted if it ends, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from tests.web.conftest import wait_until

from tidings.errors import QueryError
from tidings.ingest.inbox import write_posts
from tidings.testing.hostile_queries import ten_pairs
from tidings.web import check_process
from tidings.web.check_process import CheckProcess
from tidings.web.errors import HttpError
from tidings.web.query_check import QueryChecker
from tidings.web.volume_estimate import VolumeEstimator


@pytest.fixture
def folder(tmp_path):
    estimator = VolumeEstimator(tmp_path / "history")
    estimator.add_posts([json.dumps({"text": text}) for text in ("storm ahead", "rain again", "sunshine")])
    estimator.save()
    return tmp_path


@pytest.fixture
def process(folder):
    with CheckProcess(folder / "inbox", folder / "history") as running:
        wait_until(lambda: answer_of(running, "storm")["sampled_posts"])
        yield running


def answer_of(checker, query, box=None):
    return json.loads(checker.check(query, box))


def is_restarted(process, pid):
    try:
        return process.pid != pid and process.check("storm", None)
    except HttpError:
        return False


def test_answers_are_those_of_the_same_check_without_a_process(process, folder):
    here = QueryChecker(VolumeEstimator(folder / "history"))
    here.volume.load()
    for query, box in (("storm OR rain the", None), ("storm", (3.0, 50.0, 8.0, 55.0)), (ten_pairs(1), None)):
        expected, answer = answer_of(here, query, box), answer_of(process, query, box)
        volatile = dict.fromkeys(("matches_per_day", "posts_per_day", "history_hours"), 0)  # they follow the clock
        assert answer | volatile == expected | volatile
    for checker in (here, process):
        with pytest.raises(QueryError) as raised:
            checker.check("storm (rain", None)
        assert raised.value.position == 6


def test_posts_of_the_inbox_are_sampled_and_saved_at_the_end(folder):
    with CheckProcess(folder / "inbox", folder / "history") as process:
        wait_until(lambda: answer_of(process, "storm")["sampled_posts"] == 3)
        write_posts(folder / "inbox", "new", [{"text": "storm"}])
        wait_until(lambda: answer_of(process, "storm")["sampled_posts"] == 4)
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    saved = VolumeEstimator(folder / "history")
    saved.load()
    assert answer_of(QueryChecker(saved), "storm")["sampled_posts"] == 4


def test_a_killed_process_is_restarted(process, caplog):
    pid = process.pid
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: is_restarted(process, pid))
    assert caplog.messages == ["query check process restarted exit_code=-9"]


def test_a_process_that_hangs_is_replaced(process, monkeypatch):
    monkeypatch.setattr(check_process, "_ANSWER_S", 0.2)
    pid = process.pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(HttpError, match="could not be checked now") as raised:
        process.check("storm", None)
    assert raised.value.status == 503
    monkeypatch.undo()
    wait_until(lambda: is_restarted(process, pid))


def test_a_hostile_query_takes_no_time_of_the_caller(process, folder):
    """Its Python would hold the interpreter lock, so that all requests would wait."""
    here = QueryChecker(VolumeEstimator(folder / "history"))
    assert _cpu_s(process) < _cpu_s(here) / 3


def _cpu_s(checker):
    started_s = time.process_time()
    for seed in range(20):
        checker.check(ten_pairs(seed), None)
    return time.process_time() - started_s
