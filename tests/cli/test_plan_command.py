"""`tidings plan`: learn from files of posts, show, use for matching; invalid commands."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.runs import CommandResult, run_here

from tidings.balance.spatial_registry import CANDIDATES
from tidings.demo.generate import DEMO_QUERIES, generate_posts

KEYS = {"algorithm", "matchers", "terms", "spread", "imbalance", "cov", "gini", "loads", "throughput"}
MATCH = ["match", "posts.parquet", "-s", "subs.txt", "--json", "--plan", "partitioned", "--out"]
COMMANDS = {
    "learn": ["plan", "learn", "posts.parquet", "--matchers", "6", "--out", "w.plan", "--json"],
    "narrow": [
        *["plan", "learn", "posts.jsonl", "--algorithm", "gfcl", "--matchers", "3", "--subscriptions", "subs.txt"],
        *["--sample", "500", "--no-split", "--out", "narrow.plan", "--json"],
    ],
    "show": ["plan", "show", "w.plan", "--posts", "posts.parquet", "--json"],
    "bars": ["plan", "show", "w.plan", "--posts", "posts.parquet"],
    "about": ["plan", "show", "w.plan", "--json"],
    "by plan": [*MATCH, "a.csv", "--partitioner", "w.plan"],
    "by default": [*MATCH, "b.csv", "--matchers", "4", "--placement", "lasp"],
    "by hash": [*MATCH, "c.csv", "--partitioner", "hash", "--matchers", "4", "--placement", "random"],
    "by trie": [*MATCH, "e.csv", "--matchers", "3", "--matcher", "trie"],
    "places": [
        *["plan", "learn", "posts.parquet", "--algorithm", "hybrid", "--matchers", "3", "-s", "subs.txt"],
        *["--out", "places.plan", "--json"],
    ],
    "tree": [
        *["plan", "learn", "posts.parquet", "--algorithm", "kdt", "--matchers", "3", "-s", "subs.txt"],
        *["--sigma", "1.5", "--theta", "4", "--out", "tree.plan", "--json"],
    ],
    "shown tree": ["plan", "show", "tree.plan", "--json"],
    "shown places": ["plan", "show", "places.plan", "--posts", "posts.parquet", "-s", "subs.txt"],
    "map": ["plan", "show", "places.plan", "--posts", "posts.parquet", "-s", "subs.txt", "--map", "m.svg", "--json"],
    "by places": [*MATCH, "d.csv", "--partitioner", "places.plan"],
    "no subscriptions": ["plan", "learn", "posts.parquet", "--algorithm", "grid", "--out", "x.plan"],
    "map of words": ["plan", "show", "w.plan", "--map", "w.svg"],
    "exists": ["plan", "learn", "posts.parquet", "--out", "w.plan"],
    "no terms": ["plan", "learn", "silent.jsonl", "--out", "s.plan"],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory, spark) -> dict[str, CommandResult]:
    folder = tmp_path_factory.mktemp("plans")
    posts = generate_posts(1500, seed=3)
    pq.write_table(posts, folder / "posts.parquet")
    lines = [json.dumps({"id": row["id"], "text": row["text"]}) for row in posts.select(["id", "text"]).to_pylist()]
    (folder / "posts.jsonl").write_text("\n".join(lines))
    (folder / "silent.jsonl").write_text('{"text": "the and of"}\n{"text": ""}\n')
    (folder / "subs.txt").write_text("\n".join(DEMO_QUERIES.values()))
    all_results = dict(zip(COMMANDS, run_here(list(COMMANDS.values()), folder, spark), strict=True))
    all_results["folder"] = folder
    return all_results


def test_learn_prints_the_plan_and_its_quality(results):
    summary = results["learn"].summary
    assert summary.keys() >= KEYS | {"seconds", "out"}
    assert (summary["algorithm"], summary["matchers"], summary["posts"]) == ("salb+", 6, 1500)
    assert len(summary["loads"]) == 6
    assert summary["spread"] == pytest.approx(sum(summary["loads"]) / 1500, abs=1e-3)
    assert summary["throughput"] == pytest.approx(1500 / max(summary["loads"]), abs=1e-3)


def test_sample_and_subscriptions_limit_the_input(results):
    summary = results["narrow"].summary
    assert (summary["algorithm"], summary["matchers"], summary["split_terms"]) == ("gfcl", 3, 0)
    assert 400 < summary["learned_from"] <= 500
    assert summary["terms"] < results["learn"].summary["terms"] / 4


def test_show_prints_the_same_as_learn(results):
    learned, shown = results["learn"].summary, results["show"].summary
    assert {name: learned[name] for name in KEYS} == {name: shown[name] for name in KEYS}
    assert results["about"].summary.keys() == {"algorithm", "matchers", "terms", "split_terms", "learned_from"}


def test_text_output_has_a_bar_per_matcher(results):
    assert results["bars"].code == 0
    assert results["bars"].out.count("█ ") == 6


def test_all_plans_give_the_same_matches(results):
    folder: Path = results["folder"]
    found = [sorted((folder / f"{name}.csv").read_text().splitlines()) for name in "abce"]
    assert found[1:] == found[:1] * 3
    assert len(found[0]) > 10
    assert (results["by plan"].summary["matchers"], results["by default"].summary["matchers"]) == (6, 4)
    assert "terms by salb+, subscriptions by lasp" in results["by default"].summary["why"]


@pytest.mark.parametrize(
    ("name", "sentence"), [("exists", "w.plan: exists already"), ("no terms", "no post has a usable term")]
)
def test_errors_are_reported_in_one_sentence(results, name, sentence):
    assert results[name].code == 2
    assert sentence in " ".join(results[name].err.split())
    assert not (results["folder"] / "s.plan").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["plan", "show", "nope.plan"], "no such plan"),
        (["plan", "learn", "nope", "--out", "x.plan"], "no such file or directory"),
        (
            ["plan", "learn", ".", "--out", "x.plan", "--algorithm", "hash"],
            "--algorithm hash: not a partitioner that learns",
        ),
        (["plan", "learn", ".", "--out", "x.plan", "--matchers", "2000"], "matchers: 2,000 is out of range"),
        (
            ["plan", "learn", ".", "--out", "x.plan", "--algorithm", "kdt", "--sigma", "0.5"],
            "--sigma: 0.5 is out of range. Choose a number at least 1",
        ),
        (["plan", "learn", ".", "--out", "x.plan", "--theta", "4"], "--theta: salb+ has no such parameter"),
        (["plan", "learn", ".", "--out", "none/x.plan"], "a file cannot be written there"),
        (["match", "p", "-s", "s", "--out", "o", "--partitioner", "astrology"], "neither an algorithm nor a plan file"),
        (["match", "p", "-s", "s", "--out", "o", "--placement", "best"], "no placer is called 'best'"),
    ],
)
def test_invalid_command_exits_with_2_before_spark_starts(tmp_path, arguments, sentence):
    (done,) = run_here([arguments], tmp_path)
    assert done.code == 2
    assert sentence in " ".join(done.err.split())


def test_tree_and_its_parameters_are_stored_and_shown(results):
    for summary in (results["tree"].summary, results["shown tree"].summary):
        assert (summary["algorithm"], summary["tree"]) == ("kdt", "kdt")
        assert [summary[name] for name in ("sigma", "delta", "epsilon", "theta")] == [1.5, 0.6, 0.02, 4]
    chosen = results["places"].summary["tree"]
    assert chosen in CANDIDATES
    assert results["map"].summary["tree"] == chosen
    assert f"tree {chosen}" in " ".join(results["shown places"].out.split())


def test_time_of_every_matcher_is_predicted(results):
    summary, shown = results["places"].summary, results["map"].summary
    assert len(summary["predicted_ms"]) == 3
    assert shown["predicted_ms"] == summary["predicted_ms"]
    slowest_s = max(summary["predicted_ms"]) / 1000
    assert summary["predicted_posts_per_second"] == pytest.approx(1500 / slowest_s, rel=0.01)
    assert f"{summary['predicted_ms'][0]:,.3g} ms" in results["shown places"].out


def test_spatial_plan_is_learned_shown_drawn_and_used(results):
    summary, shown = results["places"].summary, results["map"].summary
    assert (summary["algorithm"], summary["matchers"], summary["posts"], len(summary["loads"])) == (
        "hybrid",
        3,
        1500,
        3,
    )
    assert shown["loads"] == summary["loads"], "the same posts and subscriptions"
    assert shown["spread"] == pytest.approx(sum(shown["loads"]) / 1500, abs=1e-3)
    drawn = (Path(results["folder"]) / "m.svg").read_text("utf-8")
    assert drawn.startswith("<svg")
    assert f"{summary['loads'][0]:,} posts" in drawn
    matched = [sorted((Path(results["folder"]) / file).read_text().splitlines()) for file in ("d.csv", "c.csv")]
    assert matched[0] == matched[1]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("no subscriptions", "Give them with --subscriptions"), ("map of words", "a word plan has no map")],
)
def test_options_that_do_not_apply_are_rejected_in_one_sentence(results, name, sentence):
    assert results[name].code == 2
    assert sentence in " ".join(results[name].err.split())
