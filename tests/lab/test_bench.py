"""The benchmark itself, tiny: contenders agree, both loops find the same, records come back, figures are drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.word_registry import PARTITIONERS
from tidings.demo.generate import generate_posts
from tidings.index.builder import create_index
from tidings.matching import postings_kernel
from tidings.text.reference_analyzer import clean
from tidings_lab import bench, bench_kernels, bench_plans, bench_scale, datasets, figures, native, results
from tidings_lab.bench_pipeline import agree, measure_spine
from tidings_lab.datasets import Posts, Subscriptions
from tidings_lab.errors import ContendersDisagree
from tidings_lab.inputs import Scale
from tidings_lab.joins import Tally
from tidings_lab.sample_queries import MOST, NumberedPosts, by_frequency, draw_rows
from tidings_lab.thresholds import Bar, bars

SEED = 11
TINY_PLANS = bench_plans.Sizes(
    learned=1_000, compared=800, timed_matchers=(4, 64), compared_matchers=(4,), routed=1_000, subscribed=(50, 150, 300)
)
TINY = bench_kernels.Sizes(posts=2_000, from_numbers=(2_000,), from_strings=500, bytes_at=(2_000,))


def _quiet(line: str) -> None:
    """Says nothing."""


@pytest.fixture(scope="module")
def posts() -> Posts:
    return Posts(generate_posts(3_000, SEED).select(["id", "text"]), "generated")


@pytest.fixture(scope="module")
def numbered(posts: Posts) -> NumberedPosts:
    return NumberedPosts.of(posts.texts)


@pytest.fixture(scope="module")
def subscriptions(posts: Posts) -> Subscriptions:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "data_folder", lambda: None)
        drawn = datasets.benchmark_subscriptions(300, SEED, posts)
    queries = [*drawn.table.column("query").to_pylist()[:-3], '"heavy rain"', "storm OR flood", "police -court"]
    return Subscriptions(pa.table({"id": np.arange(1, 301), "query": queries}), 0, SEED)


def test_drawn_words_are_distinct_and_of_one_row() -> None:
    starts = np.array([0, 2, 7, 11], np.int64)  # the first row is too short to be drawn from
    counts = np.tile(np.arange(2, MOST + 1), 300)
    places, bounds = draw_rows(starts, counts, np.random.default_rng(SEED))
    rows = [places[a:b] for a, b in zip(bounds[:-1].astype(int), bounds[1:].astype(int), strict=True)]
    assert [len(row) for row in rows] == counts.tolist()
    assert all(len(set(row.tolist())) == len(row) for row in rows)
    assert {tuple(np.unique(np.searchsorted(starts, row, "right"))) for row in rows} == {(2,), (3,)}
    assert set(places.tolist()) == set(range(2, 11))


def test_a_drawn_query_finds_the_post_it_was_drawn_from(posts: Posts, subscriptions: Subscriptions) -> None:
    said = [clean(text).terms for text in posts.table.column("text").to_pylist()]
    for query in subscriptions.table.column("query").to_pylist()[:20]:
        assert 2 <= len(query.split()) <= MOST
        assert any(clean(query).terms <= terms for terms in said)


def test_numbered_posts_hold_the_words_that_cleaning_finds(posts: Posts, numbered: NumberedPosts) -> None:
    for row, text in enumerate(posts.table.column("text").to_pylist()[:200]):
        words = {
            numbered.terms[n - 1].decode() for n in numbered.words[numbered.starts[row] : numbered.starts[row + 1]]
        }
        assert words == {term for term in clean(text).terms if not term.startswith("#")}


def test_renumbered_posts_keep_only_subscribed_words(numbered: NumberedPosts) -> None:
    conjunctions = numbered.draw(50, SEED)
    numbers, words = by_frequency(conjunctions, len(numbered.terms))
    received = numbered.received(numbers)
    assert len(received) == len(numbered)
    assert set(received.terms.tolist()) == set(range(1, words + 1))


def test_without_the_real_data_posts_are_generated_and_the_record_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_DATA", "/nowhere")
    made = datasets.load_posts(500, SEED)
    assert len(made) == 500
    assert "generated" in made.source
    assert "not there" in made.note


@pytest.mark.skipif(native.compiler() is None, reason="there is no C compiler")
def test_the_loop_in_c_finds_what_numba_finds(tmp_path: Path, posts: Posts, subscriptions: Subscriptions) -> None:
    index, _ = create_index(tmp_path / "index", subscriptions.table)
    segment, terms = index.shard(0)[0].segment, index.manifest.terms
    batch = index.receiver().receive(posts.texts)
    loops = [
        bench_kernels.FindLoop(find, segment, terms) for find in (postings_kernel.find, native.compile_find(tmp_path))
    ]
    for loop in loops:
        loop.pairs = np.empty((64, 2), np.uint32)  # so that both have to grow on the way
    in_numba, in_c = (loop.batch(batch) for loop in loops)
    assert len(in_numba) > 64
    assert np.array_equal(in_numba, in_c)


def test_contenders_agree_and_are_measured(tmp_path: Path, posts: Posts, subscriptions: Subscriptions) -> None:
    spine = measure_spine(tmp_path / "inputs", posts, subscriptions, 1, 500, _quiet)
    names = [one["name"] for one in spine["contenders"]]
    assert names[:4] == ["floor", "tidings-replicated", "tidings-partitioned", "spark-sql"]
    assert {*names, *spine["skipped"]} == set(bench.CONTENDERS)
    assert spine["agreed"]["matches"] > 0
    assert spine["agreed"]["contenders"] == names[1:]
    assert spine["queries_beyond_words"] == 3
    assert all(len(one["seconds"]) == 1 and one["posts_per_second"] > 0 for one in spine["contenders"])
    assert {bar.name.split(",")[0] for bar in bars({"spine": spine})} == {"Tidings partitioned", "Tidings replicated"}


def test_contenders_that_disagree_fail_the_benchmark() -> None:
    class Fixed:
        label = starts_from = note = ""

        def __init__(self, name: str, matches: int) -> None:
            self.name, self.matches = name, matches

        def consume(self, scale: Scale) -> None:
            raise NotImplementedError

        def tally(self, scale: Scale) -> Tally | None:
            return Tally(self.matches, 0) if self.matches else None

    sample = Scale("sample", 10, "", "")
    assert agree([Fixed("floor", 0), Fixed("a", 3), Fixed("b", 3)], sample, _quiet)["matches"] == 3
    with pytest.raises(ContendersDisagree, match="b: 4"):
        agree([Fixed("a", 3), Fixed("b", 4)], sample, _quiet)


@pytest.fixture(scope="module")
def run(posts: Posts, subscriptions: Subscriptions, numbered: NumberedPosts) -> dict[str, Any]:
    """A record with everything but Spark measured."""
    made = results.new_record("pytest", SEED, quick=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "data_folder", lambda: None)
        made["parts"]["kernels"] = bench_kernels.measure_kernels(posts, subscriptions, 2, TINY, _quiet)
    made["parts"]["plans"] = bench_plans.measure_plans(posts, subscriptions, 2, TINY_PLANS, _quiet)
    made["parts"]["growth"] = bench_scale.measure_growth(numbered, SEED, (200, 2_000), _quiet)
    made["parts"]["spine"] = _made_up_spine()
    made["bars"] = [bar.described() for bar in bars(made["parts"])]
    made["data"] = posts.described()
    return made


def _made_up_spine() -> dict[str, Any]:
    rates = {"floor": 500_000.0, "tidings-replicated": 290_000.0, "spark-sql": 20_000.0}
    return {
        "cores": 2,
        "posts": 1_000,
        "subscriptions": {"subscriptions": 300, "real_queries": 0},
        "agreed": {"posts": 100, "matches": 7},
        "skipped": {"trie": "tidings.matching.trie is not there"},
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


def test_kernels_and_growth_tell_every_repetition(run: dict[str, Any]) -> None:
    measured = run["parts"]["kernels"]
    assert len(measured["matching"]["seconds"]) == len(measured["matching"]["cpu_seconds"]) == 2
    assert measured["matching"]["matches"] > 0
    grown = run["parts"]["growth"]
    assert [one["subscriptions"] for one in grown] == [200, 2_000]
    assert all(0 < one["peak_before_build_bytes"] <= one["peak_bytes"] for one in grown)
    assert all(one["matches_per_post"] > 0 and one["bytes_per_subscription"] > 0 for one in grown)


def test_plans_are_compared_by_every_partitioner_with_hot_words_whole_and_split(run: dict[str, Any]) -> None:
    measured = run["parts"]["plans"]
    told = [(one["algorithm"], one["split"]) for one in measured["compared"]]
    assert told == [(name, split) for split in (False, True) for name in PARTITIONERS]
    assert all(one["throughput"] >= 1 and 0 < one["spread"] <= 4 for one in measured["compared"])
    assert [one["matchers"] for one in measured["learning"]] == [4, 64, 4, 64]
    assert all(one["best_ns"] > 0 for one in measured["routing"])
    words = [point["words"] for point in measured["cost"]["points"]]
    assert len(words) == 3
    assert words == sorted(words)
    bars_told = [bar["name"] for bar in run["bars"] if bar["name"].startswith("plans")]
    assert any("salb+ for 4" in name for name in bars_told)


def test_a_record_says_what_it_was_run_with_but_not_where(run: dict[str, Any]) -> None:
    assert {"python", "pyspark", "pyarrow", "numpy", "numba", "java", "polars", "duckdb"} <= set(run["versions"])
    assert {"cpu", "cores", "memory_bytes"} <= set(run["host"])
    assert len(run["commit"]) in (len("unknown"), 40)
    assert not {"node", "name", "hostname"} & set(run["host"])


def test_records_come_back_the_newest_full_one_first(tmp_path: Path, run: dict[str, Any]) -> None:
    later_but_quick = {**run, "started": "2999-01-01T00:00:00+00:00", "quick": True}
    newer = {**run, "started": "2998-01-01T00:00:00+00:00", "parts": {"growth": run["parts"]["growth"]}}
    for one in (later_but_quick, newer, run):
        results.save(one, tmp_path)
    (tmp_path / "foreign.json").write_text("[1]")
    assert len(results.load_all(tmp_path)) == 3
    found = [results.newest(tmp_path, part) for part in ("growth", "spine", "nothing")]
    assert [one[1]["started"] if one else None for one in found] == [newer["started"], run["started"], None]


def test_figures_and_the_page_are_rebuilt_from_the_raw_results(tmp_path: Path, run: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    path = results.save(run, tmp_path / "results")
    docs = tmp_path / "docs"
    for drawn in figures.draw_all(tmp_path / "results", docs):
        assert drawn.stat().st_size > 500
    assert {image.name for image in (docs / "images").iterdir()} == {
        "bench-spine.png",
        "bench-growth.png",
        "bench-cost.png",
    }
    page = (docs / "benchmarks.md").read_text("utf-8")
    assert "generated" in page.splitlines()[0].lower()
    assert path.name in page
    assert run["commit"][:10] in page
    assert "290,000" in page
    assert "## Word plans" in page


def test_a_bar_is_passed_from_its_side() -> None:
    assert Bar("speed", 0.5, 0.45).passed
    assert not Bar("speed", 0.4, 0.45).passed
    assert Bar("bytes", 60, 64, at_least=False).passed
    assert "FAIL" in str(Bar("bytes", 65, 64, at_least=False))
    assert json.dumps(Bar("bytes", 65, 64, at_least=False).described())


def test_the_command_names_what_it_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--only", "everything"])
    assert "tidings-replicated" in capsys.readouterr().err
