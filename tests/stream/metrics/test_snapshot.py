"""A snapshot is read as it was written, and interpreted."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import pytest

from tidings.matching.load import MatcherLoad
from tidings.stream.metrics import snapshot
from tidings.stream.metrics.health import Condition, bookkeeping_share, format_duration, health, is_alive
from tidings.stream.metrics.snapshot import FILE, StreamSnapshot, load_snapshot, recorded_failure, save_snapshot

LOAD = MatcherLoad(0, 1, 2, 3.0)
SNAPSHOT = StreamSnapshot(1, "here", "s", "posts/", 1.0, 2.0, matchers=(LOAD,), batch_matchers=(LOAD,))


def test_a_saved_snapshot_is_loaded_unchanged(tmp_path):
    save_snapshot(tmp_path, SNAPSHOT)
    assert load_snapshot(tmp_path) == SNAPSHOT
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_unknown_fields_are_ignored(tmp_path):
    save_snapshot(tmp_path, SNAPSHOT)
    content = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**content, "mood": "good"}))
    assert load_snapshot(tmp_path) == SNAPSHOT


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_the_end_of_a_run_is_recorded_on_a_full_disk(tmp_path, monkeypatch, state):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    save_snapshot(tmp_path, SNAPSHOT)
    monkeypatch.setattr(snapshot, "write_atomically", fail)
    ended = replace(SNAPSHOT, state=state, failure="full")
    save_snapshot(tmp_path, ended)
    assert load_snapshot(tmp_path) == ended
    with pytest.raises(OSError, match="No space"):  # a reader must not see half of the metrics of a run
        save_snapshot(tmp_path, replace(SNAPSHOT, batches=1))
    assert load_snapshot(tmp_path) == ended


def test_an_error_before_the_first_batch_is_recorded(tmp_path):
    save_snapshot(tmp_path, replace(SNAPSHOT, state="stopped"))
    with pytest.raises(ValueError), recorded_failure(tmp_path, "other/"):
        raise ValueError("no such plan")
    recorded = load_snapshot(tmp_path)
    assert (recorded.state, recorded.failure, recorded.stream, recorded.source, recorded.pid) == (
        "failed", "no such plan", "s", "other/", os.getpid(),
    )  # fmt: skip
    assert "no such plan" in health(recorded, recorded.updated_at).sentence


def test_the_failure_that_the_metrics_report_stays(tmp_path):
    reported = replace(SNAPSHOT, started_at=time.time() + 1, state="failed", failure="the disk is full", posts=7)
    save_snapshot(tmp_path, reported)
    with pytest.raises(ValueError), recorded_failure(tmp_path, "posts/"):
        raise ValueError("later")
    assert load_snapshot(tmp_path) == reported


@pytest.mark.parametrize("content", [None, "", "{", "\xff", "[]", "{}", '{"matchers": [1]}'])
def test_a_missing_or_damaged_file_is_no_snapshot(tmp_path, content):
    if content is not None:
        (tmp_path / FILE).write_text(content, "latin-1")
    assert load_snapshot(tmp_path) is None
    assert health(None, 0.0).condition is Condition.never


def test_bookkeeping_is_the_time_outside_add_batch():
    assert bookkeeping_share({"triggerExecution": 200, "addBatch": 150, "store": 40}) == pytest.approx(0.25)
    assert bookkeeping_share({"triggerExecution": 100, "addBatch": 120}) == 0
    assert bookkeeping_share({"addBatch": 120}) is None
    assert bookkeeping_share({}) is None


def test_is_alive_checks_the_process_id():
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(2**22 + 1)
    assert not is_alive(2**80)


def test_durations_have_a_natural_unit():
    durations = [format_duration(seconds) for seconds in (-1, 3.4, 90, 150, 7300, 400_000)]
    assert durations == ["0 s", "3 s", "90 s", "2 min", "2 h", "5 days"]
