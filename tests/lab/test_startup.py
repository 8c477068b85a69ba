"""The benchmark of the start: a real restart of both commands; its page and its thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tidings.demo.generate import generate_posts
from tidings_lab import results
from tidings_lab.bench_startup import COMMANDS, FIRST_MATCH, QUICK, measure_startup
from tidings_lab.datasets import Posts
from tidings_lab.tables import write_page
from tidings_lab.thresholds import check_thresholds

SEED = 11


def _startup(serve_s: float, serve_cpu_s: float) -> dict[str, Any]:
    rows = [("run", "baseline", 20.0, 30.0), ("run", "this", 8.0, 12.0)]
    rows += [("serve", "baseline", 24.0, 40.0), ("serve", "this", serve_s, serve_cpu_s)]
    names = ("command", "version", "first_match_s", "first_match_cpu_s")
    return {**QUICK._asdict(), "medians": [dict(zip(names, row, strict=True)) for row in rows]}


@pytest.mark.parametrize(
    ("serve_s", "serve_cpu_s", "missed"), [(12.0, 20.0, 0), (12.1, 20.0, 1), (15.1, 20.0, 2), (15.1, 20.1, 3)]
)
def test_slow_start_misses_its_thresholds(serve_s: float, serve_cpu_s: float, missed: int) -> None:
    thresholds = check_thresholds("startup", _startup(serve_s, serve_cpu_s))
    assert [item.is_met for item in thresholds].count(False) == missed


def test_start_is_on_the_page(tmp_path: Path) -> None:
    result = results.new_result("benchmark", "startup", "full", "pytest", SEED, {})
    results.save_result({**result, "measured": _startup(9.0, 20.0)}, tmp_path / "results")
    assert "| `tidings serve` | this | 9.0 | 20.0 |" in write_page(tmp_path / "results", tmp_path).read_text("utf-8")


@pytest.mark.long
def test_both_commands_match_the_new_post_after_a_restart() -> None:
    posts = Posts(generate_posts(3_000, SEED).select(["id", "text"]), "generated")
    measured = measure_startup(posts, QUICK, SEED, lambda line: None)
    assert [run["command"] for run in measured["runs"]] == list(COMMANDS)
    for run in measured["runs"]:
        events = [row["event"] for row in run["timeline"]]
        assert events[-1] == FIRST_MATCH
        assert "stream started" in events
        assert run["exit_code"] == 0
