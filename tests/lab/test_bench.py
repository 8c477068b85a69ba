"""Benchmarks in tiny sizes: contenders agree, both loops find the same pairs, pages and figures are generated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.word_registry import WORD_PARTITIONERS
from tidings.demo.generate import generate_posts
from tidings.index.builder import create_index
from tidings.matching import postings_kernel
from tidings.plan.load_model import POSTS_PER_UPDATE
from tidings.store import NewSubscription, open_store
from tidings.text.reference_analyzer import analyze
from tidings_lab import (
    bench,
    bench_hot_spot,
    bench_kernels,
    bench_modes,
    bench_plans,
    bench_scale,
    bench_spatial,
    cli,
    datasets,
    figures,
    native,
    results,
    tables,
)
from tidings_lab.bench_pipeline import check_agreement, measure_spine
from tidings_lab.datasets import Posts, SubscriptionSet
from tidings_lab.errors import ContendersDisagree
from tidings_lab.inputs import Scale
from tidings_lab.joins import MatchTally
from tidings_lab.provenance import BENCHMARK_MODULES, code_digests
from tidings_lab.sample_queries import MAX_TERMS, NumberedPosts, draw_rows, number_by_frequency
from tidings_lab.thresholds import Threshold, check_thresholds

SEED = 11
TINY_PLANS = bench_plans.PlanSizes(
    learned=1_000, compared=800, timed_matchers=(4, 64), compared_matchers=(4,), routed=1_000, subscribed=(50, 150, 300)
)
TINY = bench_kernels.KernelSizes(posts=2_000, from_numbers=(2_000,), from_strings=500, bytes_at=(2_000,))


def _ignore(line: str) -> None:
    pass


@pytest.fixture(scope="module")
def posts() -> Posts:
    return Posts(generate_posts(3_000, SEED).select(["id", "text"]), "generated")


@pytest.fixture(scope="module")
def numbered(posts: Posts) -> NumberedPosts:
    return NumberedPosts.of(posts.texts)


@pytest.fixture(scope="module")
def subscriptions(posts: Posts) -> SubscriptionSet:
    drawn = datasets.benchmark_subscriptions(300, SEED, posts)
    queries = [*drawn.table.column("query").to_pylist()[:-3], '"heavy rain"', "storm OR flood", "police -court"]
    return SubscriptionSet(pa.table({"id": np.arange(1, 301), "query": queries}), 0, SEED)


def test_drawn_terms_are_distinct_and_of_one_row() -> None:
    starts = np.array([0, 2, 7, 11], np.int64)  # the first row is too short to be drawn from
    counts = np.tile(np.arange(2, MAX_TERMS + 1), 300)
    places, bounds = draw_rows(starts, counts, np.random.default_rng(SEED))
    rows = [places[a:b] for a, b in zip(bounds[:-1].astype(int), bounds[1:].astype(int), strict=True)]
    assert [len(row) for row in rows] == counts.tolist()
    assert all(len(set(row.tolist())) == len(row) for row in rows)
    assert {tuple(np.unique(np.searchsorted(starts, row, "right"))) for row in rows} == {(2,), (3,)}
    assert set(places.tolist()) == set(range(2, 11))


def test_drawn_query_matches_the_post_it_was_drawn_from(posts: Posts, subscriptions: SubscriptionSet) -> None:
    terms_of_posts = [analyze(text).terms for text in posts.table.column("text").to_pylist()]
    for query in subscriptions.table.column("query").to_pylist()[:20]:
        assert 2 <= len(query.split()) <= MAX_TERMS
        assert any(analyze(query).terms <= terms for terms in terms_of_posts)


def test_numbered_posts_have_the_terms_of_the_reference_analyzer(posts: Posts, numbered: NumberedPosts) -> None:
    for row, text in enumerate(posts.table.column("text").to_pylist()[:200]):
        words = {
            numbered.terms[n - 1].decode() for n in numbered.words[numbered.starts[row] : numbered.starts[row + 1]]
        }
        assert words == {term for term in analyze(text).terms if not term.startswith("#")}


def test_renumbered_posts_keep_only_subscribed_terms(numbered: NumberedPosts) -> None:
    conjunctions = numbered.draw(50, SEED)
    numbers, words = number_by_frequency(conjunctions, len(numbered.terms))
    received = numbered.to_batch(numbers)
    assert len(received) == len(numbered)
    assert set(received.terms.tolist()) == set(range(1, words + 1))


@pytest.mark.parametrize("folder", ["/nowhere", "none"])
def test_posts_are_generated_and_noted_if_the_real_data_is_missing(
    monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("TIDINGS_DATA", folder)
    posts = datasets.load_posts(500, SEED)
    assert len(posts) == 500
    assert "generated" in posts.source
    assert "missing" in posts.note


@pytest.mark.skipif(native.find_compiler() is None, reason="no C compiler found")
def test_loop_in_c_finds_the_same_pairs_as_numba(tmp_path: Path, posts: Posts, subscriptions: SubscriptionSet) -> None:
    index, _ = create_index(tmp_path / "index", subscriptions.table)
    segment, terms = index.open_shard(0)[0].segment, index.manifest.terms
    batch = index.analyzer().analyze(posts.texts)
    loops = [
        bench_kernels.FindLoop(find, segment, terms)
        for find in (postings_kernel.find_candidates, native.compile_find(tmp_path))
    ]
    for loop in loops:
        loop.pairs = np.empty((64, 2), np.uint32)  # small, so that both must grow them
    in_numba, in_c = (loop.batch(batch) for loop in loops)
    assert len(in_numba) > 64
    assert np.array_equal(in_numba, in_c)


@pytest.mark.long
def test_contenders_agree_and_are_measured(tmp_path: Path, posts: Posts, subscriptions: SubscriptionSet) -> None:
    spine = measure_spine(tmp_path / "inputs", posts, subscriptions, 1, 500, _ignore)
    names = [contender["name"] for contender in spine["contenders"]]
    assert names[:4] == ["floor", "tidings-replicated", "tidings-partitioned", "spark-sql"]
    assert {*names, *spine["skipped"]} == set(bench.CONTENDERS)
    assert spine["agreed"]["matches"] > 0
    assert spine["agreed"]["contenders"] == names[1:]
    assert spine["queries_beyond_words"] == 3
    assert all(len(row["seconds"]) == 1 and row["posts_per_second"] > 0 for row in spine["contenders"])
    thresholds = {threshold.name.split(" / ")[0] for threshold in check_thresholds("spine", spine)}
    assert thresholds == {"Tidings partitioned", "Tidings replicated"}


def test_disagreeing_contenders_fail_the_benchmark() -> None:
    class Fixed:
        label = starts_from = note = ""

        def __init__(self, name: str, matches: int) -> None:
            self.name, self.matches = name, matches

        def consume(self, scale: Scale) -> None:
            raise NotImplementedError

        def count_matches(self, scale: Scale) -> MatchTally | None:
            return MatchTally(self.matches, 0) if self.matches else None

    sample = Scale("sample", 10, "", "")
    assert check_agreement([Fixed("floor", 0), Fixed("a", 3), Fixed("b", 3)], sample, _ignore)["matches"] == 3
    with pytest.raises(ContendersDisagree, match="b: 4"):
        check_agreement([Fixed("a", 3), Fixed("b", 4)], sample, _ignore)


@pytest.fixture(scope="module")
def measured(posts: Posts, subscriptions: SubscriptionSet, numbered: NumberedPosts) -> dict[str, Any]:
    """Measurements of all benchmarks without Spark, and invented ones of the pipeline."""
    return {
        "kernels": bench_kernels.measure_kernels(posts, subscriptions, 2, TINY, _ignore),
        "plans": bench_plans.measure_plans(posts, subscriptions, 2, TINY_PLANS, _ignore),
        "growth": bench_scale.measure_growth(numbered, SEED, (200, 2_000), _ignore),
        "spine": _invented_spine(),
    }


def _invented_spine() -> dict[str, Any]:
    rates = {"floor": 500_000.0, "tidings-replicated": 290_000.0, "spark-sql": 20_000.0}
    return {
        "cores": 2,
        "posts": 1_000,
        "subscriptions": {"subscriptions": 300, "real_queries": 0},
        "agreed": {"posts": 100, "matches": 7},
        "skipped": {"trie": "tidings.matching.trie is missing"},
        "contenders": [
            {
                "name": name,
                "label": name,
                "starts_from": "text",
                "note": "",
                "posts": 1_000,
                "extrapolated": name == "spark-sql",
                "seconds": [1_000 / rate] * 2,
                "posts_per_second": rate,
                "ratios_to_floor": [rate / 5e5] * 2,
                "ratio_to_floor": rate / 5e5,
            }
            for name, rate in rates.items()
        ],
    }


@pytest.mark.long
def test_kernels_and_growth_store_every_repetition(measured: dict[str, Any]) -> None:
    kernels = measured["kernels"]
    assert len(kernels["matching"]["seconds"]) == len(kernels["matching"]["cpu_seconds"]) == 2
    assert kernels["matching"]["matches"] > 0
    growth = measured["growth"]
    assert [row["subscriptions"] for row in growth] == [200, 2_000]
    assert all(0 < row["peak_before_build_bytes"] <= row["peak_bytes"] for row in growth)
    assert all(row["matches_per_post"] > 0 and row["bytes_per_subscription"] > 0 for row in growth)


@pytest.mark.long
def test_plans_of_every_partitioner_are_compared_with_hot_terms_whole_and_split(measured: dict[str, Any]) -> None:
    plans = measured["plans"]
    compared = [(row["algorithm"], row["split"]) for row in plans["compared"]]
    assert compared == [(name, split) for split in (False, True) for name in WORD_PARTITIONERS]
    assert all(row["throughput"] >= 1 and 0 < row["spread"] <= 4 for row in plans["compared"])
    assert [row["matchers"] for row in plans["learning"]] == [4, 64, 4, 64]
    assert [(row["algorithm"], row["matchers"]) for row in plans["routing"]] == [
        ("hash", 8),
        ("hash", 64),
        ("salb+", 8),
        ("salb+", 64),
    ]
    assert all(row["best_ns"] > 0 for row in plans["routing"])
    assert [row["matchers"] for row in plans["placing"]] == [16, 256, 1024]
    words = [point["words"] for point in plans["cost"]["points"]]
    assert len(words) == 3
    assert words == sorted(words)
    assert any("`salb+` / best other plan, 4" in item.name for item in check_thresholds("plans", plans))


@pytest.mark.long
def test_figures_and_page_are_generated_from_measured_results(tmp_path: Path, measured: dict[str, Any]) -> None:
    for name, values in measured.items():
        _save(tmp_path / "results", name, values)
    drawn = figures.draw_all(tmp_path / "results", tmp_path / "docs")
    assert all(path.stat().st_size > 500 for path in drawn)
    assert {path.name for path in drawn} == {"bench-spine.png", "bench-growth.png", "bench-cost.png", "benchmarks.md"}
    assert "## Word plans" in drawn[-1].read_text("utf-8")


def test_page_names_result_file_commit_and_numbers(tmp_path: Path) -> None:
    result = _save(tmp_path / "results", "spine", _invented_spine())
    page = figures.draw_all(tmp_path / "results", tmp_path / "docs")[-1].read_text("utf-8")
    assert "Generated" in page.splitlines()[0]
    assert "benchmark-spine-full-" in page
    assert result["commit"][:10] in page
    assert "290,000" in page
    assert "| Tidings replicated / floor | 0.58 | ≥ 0.45 | met |" in page
    assert all(len(line) <= 100 for line in page.splitlines() if not line.startswith(("|", "<!--")))


def _save(folder: Path, name: str, measured: Any) -> results.Result:
    result = results.new_result("benchmark", name, "full", "pytest", SEED, {})
    result |= {"measured": measured, "data": {"posts": 3_000, "source": "generated", "note": ""}}
    result["code"] = code_digests(BENCHMARK_MODULES[name])
    results.save_result(result, folder)
    return result


def test_threshold_is_met_from_its_side() -> None:
    assert Threshold("speed", 0.5, 0.45).is_met
    assert not Threshold("speed", 0.4, 0.45).is_met
    assert Threshold("bytes", 60, 64, at_least=False).is_met
    assert "FAIL" in str(Threshold("bytes", 65, 64, at_least=False))


def test_unknown_benchmark_is_rejected_with_the_known_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "--only", "everything"]) == 2
    assert "tidings-replicated" in capsys.readouterr().err


def test_contenders_select_the_pipeline_benchmark() -> None:
    assert bench.BenchOptions(only=("floor", "stream")).benchmarks == ["spine", "stream"]
    assert bench.BenchOptions(only=("floor",)).contenders == ["floor"]
    assert bench.BenchOptions().benchmarks == list(bench.DEFAULT_BENCHMARKS)


@pytest.mark.long
def test_modes_find_the_same_matches_and_are_compared_turn_by_turn(tmp_path: Path, posts: Posts) -> None:
    found = bench_modes.measure_modes(tmp_path, posts, bench_modes.ModeSizes(2_000, 500), 2, SEED, _ignore)
    for workload in found["workloads"]:
        arms = [row["arm"] for row in workload["rows"] if row["form"] == "store"]
        assert arms == ["replicated", "replicated again", *bench_modes.PARTITIONERS[workload["workload"]]]
        assert all(len(row["seconds_ratios"]) == 2 and row["matches_per_post"] > 0 for row in workload["rows"])
    assert len(check_thresholds("modes", found)) == 4
    assert any("hybrid" in line for line in tables.write_benchmark("modes", found))


@pytest.mark.long
def test_updates_reach_the_index_of_both_modes_and_they_find_the_same_matches(tmp_path: Path) -> None:
    found = bench_spatial.measure_space(tmp_path, 400, 2_000, 2, SEED, _ignore, batch_posts=1_000)
    assert [row["arm"] for row in found["rows"]] == ["hybrid", "replicated"]
    assert found["matches_per_post"] > 0
    for row in found["rows"]:
        assert [turn["batches"] for turn in row["turns"]] == [2, 2]
        assert row["updates_per_post"] == pytest.approx(1 / POSTS_PER_UPDATE, rel=0.2)
        assert row["tuples_per_second"] > row["posts_per_second"] > 0
    assert [item.limit for item in check_thresholds("space", found)] == [100_000]
    assert any("hybrid" in line for line in tables.write_benchmark("space", found))


def test_updates_remove_a_subscription_after_as_many_insertions_as_it_lives(tmp_path: Path) -> None:
    new = [NewSubscription(f"word{number}") for number in range(30)]
    updates = bench_spatial.Updates(new, np.array([2, 1, 11, 12]), np.array([0, 4, 5, 29]))
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([("old",)] * 10)
        assert updates.apply(store, 0, 5) == 5 + 2
        assert store.subscriptions.ids("") == [*range(3, 16)]
        assert updates.apply(store, 5, 5) == 5 + 1
        assert store.subscriptions.ids("") == [*range(3, 11), *range(12, 21)]


@pytest.mark.long
def test_hot_spot_is_measured_with_and_without_rebalancing(tmp_path: Path) -> None:
    sizes = bench_hot_spot.HotSpotSizes(subscriptions=300, learned=2_000, phases=2, batches=7, batch_posts=2_000)
    found = bench_hot_spot.measure_hot_spot(tmp_path, sizes, SEED, _ignore)
    rows = {(row["workload"], row["arm"]): row for row in found["rows"]}
    assert len(rows) == 6
    changed, unchanged = (rows["hot spot", arm] for arm in ("rebalanced", "unchanged"))
    assert unchanged["steps"] == unchanged["bytes_written"] == 0
    assert changed["steps"] > 0
    assert changed["bytes_written"] > 0
    assert all(phase["posts"] == 14_000 and phase["throughput"] > 0 for phase in changed["phases"])
    assert unchanged["time_imbalance"] > rows["balanced", "unchanged"]["time_imbalance"]
    assert [item.at_least for item in check_thresholds("hot-spot", found)] == [True, False]
    assert any("hot spot" in line for line in tables.write_benchmark("hot-spot", found))
