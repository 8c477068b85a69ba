"""Figures are read as they were written, and understood."""

from __future__ import annotations

import json
import os

import pytest

from tidings.matching.load import MatcherLoad
from tidings.stream.metrics.health import Condition, bookkeeping_share, duration, health, is_alive
from tidings.stream.metrics.snapshot import FILE, StreamFigures, load_figures, save_figures

LOAD = MatcherLoad(0, 1, 2, 3.0)
FIGURES = StreamFigures(1, "here", "s", "posts/", 1.0, 2.0, matchers=(LOAD,), batch_matchers=(LOAD,))


def test_figures_come_back_as_they_were_saved(tmp_path):
    save_figures(tmp_path, FIGURES)
    assert load_figures(tmp_path) == FIGURES
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_fields_of_a_newer_program_are_left_out(tmp_path):
    save_figures(tmp_path, FIGURES)
    told = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**told, "mood": "good"}))
    assert load_figures(tmp_path) == FIGURES


@pytest.mark.parametrize("content", [None, "", "{", "\xff", "[]", "{}", '{"matchers": [1]}'])
def test_where_there_are_no_figures_there_are_none(tmp_path, content):
    if content is not None:
        (tmp_path / FILE).write_text(content, "latin-1")
    assert load_figures(tmp_path) is None
    assert health(None, 0.0).condition is Condition.never


def test_bookkeeping_is_what_is_not_the_batch_itself():
    assert bookkeeping_share({"triggerExecution": 200, "addBatch": 150, "store": 40}) == pytest.approx(0.25)
    assert bookkeeping_share({"triggerExecution": 100, "addBatch": 120}) == 0
    assert bookkeeping_share({"addBatch": 120}) is None
    assert bookkeeping_share({}) is None


def test_a_process_is_alive_or_not():
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(2**22 + 1)
    assert not is_alive(2**80)


def test_times_are_told_in_the_unit_people_use():
    told = [duration(seconds) for seconds in (-1, 3.4, 90, 150, 7300, 400_000)]
    assert told == ["0 s", "3 s", "90 s", "2 min", "2 h", "5 days"]
