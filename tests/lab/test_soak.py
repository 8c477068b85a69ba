"""The soak, tiny: what it sees, how it judges, what it draws; and one that really runs."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tidings.demo.generate import generate_posts
from tidings.store import open_store
from tidings_lab import bench, figures, results
from tidings_lab.churn import Churn
from tidings_lab.datasets import Posts
from tidings_lab.feeder import MARKER, Feeder
from tidings_lab.soak import Load, measure_soak
from tidings_lab.soak_report import Seen, columns, problems, trends
from tidings_lab.soak_samples import processes
from tidings_lab.thresholds import bars

SEED = 11
WELL = Seen(False, 0, 1_000, 1_000, 10, 10, 333, 0, 0, "", ("stopped: 1,000 posts",))


@pytest.fixture(scope="module")
def posts() -> Posts:
    return Posts(generate_posts(3_000, SEED).select(["id", "text"]), "generated")


def _sample(minute: int) -> dict[str, Any]:
    """A stream whose driver grows by 60 MB an hour, and nothing else."""
    return {
        "at_s": minute * 60.0,
        "driver_mb": 300.0 + minute,
        **dict.fromkeys(("jvm_mb", "workers_mb", "batch_ms", "batch_ms_most"), 700.0),
        **dict.fromkeys(("latency_ms", "latency_ms_most"), 900.0 if minute else None),
        "segments": 4 + minute % 2,
        "cpu_s": 42.0 * minute,
        "disk_mb": {"store": 80.0, "index": 12.0, "temporary": 0.0},
    }


SAMPLES = [_sample(minute) for minute in range(21)]


def _soak() -> dict[str, Any]:
    told = {"minutes": 20, "subscriptions": 5_000, "posts_per_second": 100, "changed_a_minute": 50}
    counts = {"matches": 4_711, "batches": 99, "problems": []}
    return {**told, **counts, "trends": trends(SAMPLES), "samples": columns(SAMPLES)}


def test_a_feeder_numbers_posts_anew_and_marks_as_many_as_told(tmp_path: Path, posts: Posts) -> None:
    feeder = Feeder(tmp_path, posts, rate=2_000, every_s=1.0, marked=2)
    for _ in range(3):  # more than there are: some come again
        feeder.put()
    tables = [pq.read_table(path) for path in sorted(tmp_path.glob("*.parquet"))]
    assert [row for table in tables for row in table["id"].to_pylist()] == list(range(6_000))
    assert [sum(MARKER in text for text in table["text"].to_pylist()) for table in tables] == [2, 2, 2]
    assert (feeder.files, feeder.put_posts, feeder.put_marked) == (3, 6_000, 6)


def test_churn_replaces_subscriptions_and_keeps_their_number(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        first = store.subscribe_many([(f"old{n}",) for n in range(20)])
        churn = Churn(store, first, ["new"], 60, np.random.default_rng(SEED))
        churn.change(12)
        live = list(store.subscriptions())
        assert len(live) == 20
        assert churn.changed == sum(one.query == "new" for one in live) == 12


def test_the_memory_of_a_process_is_seen_and_that_of_one_gone_is_none() -> None:
    assert processes(os.getpid())["driver_mb"] > 10
    assert processes(1 << 22)["driver_mb"] == 0


def test_growth_is_told_an_hour_and_from_the_second_half() -> None:
    found = trends(SAMPLES)
    assert found["driver_mb"]["per_hour"] == pytest.approx(60)
    assert found["driver_mb"]["mean"] == pytest.approx(315)
    assert found["disk_mb"] == {"mean": 92.0, "most": 92.0, "per_hour": pytest.approx(0, abs=1e-6)}
    assert found["segments"]["most"] == 5


def test_a_driver_that_grows_on_misses_its_bar() -> None:
    missed = [bar.name for bar in bars({"soak": _soak()}) if not bar.passed]
    assert len(missed) == 1
    assert "driver" in missed[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"exit_code": 1}, "exit code 1"),
        ({"ended_early": True}, "before its time"),
        ({"posts_taken": 999}, "999 were taken"),
        ({"marked_found": 11}, "11 matches"),
        ({"matches": 0}, "no match"),
        ({"unfinished": 2}, "2 batches"),
        ({"rejected": 3}, "3 rows"),
        ({"load": "disk full"}, "disk full"),
        ({"said": ("tidying up failed",)}, "tidying up failed"),
    ],
)
def test_whatever_goes_wrong_is_told(wrong: dict[str, Any], said: str) -> None:
    assert not list(problems(WELL))
    assert said in " ".join(problems(replace(WELL, **wrong)))


def test_the_soak_is_drawn_and_published(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run = results.new_record("pytest", SEED, quick=False)
    run["parts"]["soak"] = _soak()
    run["bars"] = [bar.described() for bar in bars(run["parts"])]
    results.save(run, tmp_path / "results")
    drawn = figures.draw_all(tmp_path / "results", tmp_path / "docs")
    assert [path.name for path in drawn] == ["bench-soak.png", "benchmarks.md"]
    page = drawn[1].read_text("utf-8")
    assert "4,711 matches" in page
    assert "| driver (Python), MB | 315.0 | 320.0 | +60.0 |" in page
    assert "no batch failed" in page


def test_an_hour_is_run_only_when_asked_for() -> None:
    assert "soak" in bench.PARTS
    assert "soak" not in bench.UNASKED


@pytest.mark.long
def test_a_soak_of_some_seconds_finds_every_marked_post_once(posts: Posts) -> None:
    load = Load(minutes=0.3, subscriptions=2_000, posts_per_second=100)
    soak = measure_soak(posts, load, SEED, lambda line: None)
    assert soak["problems"] == []
    assert soak["matches"] > 0
    assert soak["changed"] > 0
    assert max(filter(None, soak["samples"]["segments"])) > 1
    assert max(soak["samples"]["index_version"]) > 1
    assert min(soak["samples"]["jvm_mb"]) > 0
    assert {"store", "index", "checkpoint", "posts", "temporary"} == set(soak["samples"]["disk_mb"])
