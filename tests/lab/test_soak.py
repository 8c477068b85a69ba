"""The soak test: load, samples, problems, page; a run of some seconds and one of an hour."""

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
from tidings_lab.process_memory import ROLES, measure_processes
from tidings_lab.soak import SoakLoad, measure_soak
from tidings_lab.soak_report import SoakOutcome, compute_trends, find_growth, find_problems, to_columns
from tidings_lab.thresholds import check_thresholds

SEED = 11
SUCCESS = SoakOutcome(False, 0, 1_000, 1_000, 10, 10, 333, 0, 0, "", ("stopped: 1,000 posts",))


@pytest.fixture(scope="module")
def posts() -> Posts:
    return Posts(generate_posts(3_000, SEED).select(["id", "text"]), "generated")


def _sample(minute: int) -> dict[str, Any]:
    """A stream whose driver grows by 60 MB per hour."""
    return {
        "at_s": minute * 60.0,
        **dict.fromkeys(("driver_mb", "jvm_mb", "workers_mb", "batch_ms", "batch_ms_max"), 700.0),
        **{f"{role}_private_mb": 600.0 for role in ROLES},
        "driver_private_mb": 300.0 + minute,
        **dict.fromkeys(("latency_ms", "latency_ms_max"), 900.0 if minute else None),
        "segments": 4 + minute % 2,
        "cpu_s": 42.0 * minute,
        "disk_mb": {"store": 80.0, "index": 12.0, "temporary": 0.0},
    }


SAMPLES = [_sample(minute) for minute in range(21)]


def _soak() -> dict[str, Any]:
    load = {"minutes": 20, "subscriptions": 5_000, "posts_per_second": 100, "changed_per_minute": 50}
    counts = {"matches": 4_711, "batches": 99, "problems": []}
    return {**load, **counts, "trends": compute_trends(SAMPLES), "samples": to_columns(SAMPLES)}


def test_feeder_gives_new_ids_and_marks_the_given_number_of_posts(tmp_path: Path, posts: Posts) -> None:
    feeder = Feeder(tmp_path, posts, rate=2_000, interval_s=1.0, marked=2)
    for _ in range(3):  # more posts than there are: some repeat
        feeder.write_file()
    tables = [pq.read_table(path) for path in sorted(tmp_path.glob("*.parquet"))]
    assert [row for table in tables for row in table["id"].to_pylist()] == list(range(6_000))
    assert [sum(MARKER in text for text in table["text"].to_pylist()) for table in tables] == [2, 2, 2]
    assert (feeder.files, feeder.posts_written, feeder.marked_written) == (3, 6_000, 6)


def test_churn_replaces_subscriptions_and_keeps_their_number(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        first = store.subscriptions.add_many([(f"old{n}",) for n in range(20)])
        churn = Churn(store, first, ["new"], 60, np.random.default_rng(SEED))
        churn.replace(12)
        live = list(store.subscriptions.all())
        assert len(live) == 20
        assert churn.changed == sum(subscription.query == "new" for subscription in live) == 12


def test_memory_of_a_process_is_measured_and_zero_after_its_end() -> None:
    measured = measure_processes(os.getpid())
    assert measured["driver_mb"] > measured["driver_private_mb"] > 10
    assert measure_processes(1 << 22)["driver_mb"] == 0


def test_memory_mapped_from_a_file_is_not_private(tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.ones(1 << 23))
    before = measure_processes(os.getpid())
    mapped = np.load(tmp_path / "array.npy", mmap_mode="r")
    assert mapped.sum() == 1 << 23
    after = measure_processes(os.getpid())
    assert after["driver_mb"] - before["driver_mb"] > 50
    assert after["driver_private_mb"] - before["driver_private_mb"] < 30


def test_growth_is_per_hour_and_of_the_second_half() -> None:
    found = compute_trends(SAMPLES)
    assert found["driver_private_mb"]["per_hour"] == pytest.approx(60)
    assert found["driver_private_mb"]["mean"] == pytest.approx(315)
    assert found["disk_mb"] == {"mean": 92.0, "max": 92.0, "per_hour": pytest.approx(0, abs=1e-6)}
    assert found["segments"]["max"] == 5


def test_single_outlier_does_not_change_the_growth() -> None:
    samples = [*SAMPLES[:15], {**SAMPLES[15], "workers_private_mb": 1_800.0}, *SAMPLES[16:]]
    assert compute_trends(samples)["workers_private_mb"]["per_hour"] == pytest.approx(0)


def test_growing_workers_are_a_problem_unless_the_run_is_short() -> None:
    trends = {"workers_private_mb": {"per_hour": 20.1}}
    assert list(find_growth(trends, minutes=60)) == [
        "the private memory of the Python workers grows by 20.1 MB per hour (at most 20 allowed)"
    ]
    assert list(find_growth(trends, minutes=5)) == []
    assert list(find_growth(compute_trends(SAMPLES), minutes=60)) == []


def test_growing_driver_misses_its_threshold() -> None:
    missed = [item.name for item in check_thresholds("soak", _soak()) if not item.is_met]
    assert len(missed) == 1
    assert "driver" in missed[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exit_code": 1}, "exit code 1"),
        ({"ended_early": True}, "ended early"),
        ({"posts_read": 999}, "999 were read"),
        ({"marked_found": 11}, "11 matches"),
        ({"matches": 0}, "no match"),
        ({"unfinished": 2}, "2 batches"),
        ({"rejected": 3}, "3 rows"),
        ({"load_error": "disk full"}, "disk full"),
        ({"restarts": 1}, "restarted"),
        ({"output_lines": ("merge failed",)}, "merge failed"),
    ],
)
def test_problem_is_reported(change: dict[str, Any], message: str) -> None:
    assert not list(find_problems(SUCCESS))
    assert message in " ".join(find_problems(replace(SUCCESS, **change)))


def test_soak_is_drawn_and_on_the_page(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = results.new_result("benchmark", "soak", "full", "pytest", SEED, {})
    results.save_result({**result, "measured": _soak()}, tmp_path / "results")
    drawn = figures.draw_all(tmp_path / "results", tmp_path / "docs")
    assert [path.name for path in drawn] == ["bench-soak.png", "benchmarks.md"]
    page = drawn[1].read_text("utf-8")
    assert "4,711 matches" in page
    assert "| private memory of the driver, MB | 315.0 | 320.0 | +60.0 |" in page
    assert "no batch failed" in page


def test_soak_is_not_a_default_benchmark() -> None:
    assert "soak" in bench.BENCHMARKS
    assert "soak" not in bench.DEFAULT_BENCHMARKS


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("minutes", [0.3, 60.0])
def test_soak_finds_every_marked_post_once_and_does_not_grow(posts: Posts, minutes: float) -> None:
    load = SoakLoad(minutes, subscriptions=2_000, posts_per_second=100, changed_share=0.5)
    soak = measure_soak(posts, load, SEED, print)
    assert soak["problems"] == []
    assert soak["matches"] > 0
    assert soak["changed"] > 0
    assert max(filter(None, soak["samples"]["segments"])) > 1
    assert max(soak["samples"]["index_version"]) > 1
    assert all(min(soak["samples"][f"{role}_private_mb"]) > 0 for role in ("serve", "driver", "jvm", "workers"))
    assert {"store", "index", "checkpoint", "posts", "temporary"} == set(soak["samples"]["disk_mb"])
