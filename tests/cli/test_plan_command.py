"""`tidings plan`: learned from files of posts, shown, used for matching; and refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.runs import Result, several, tidings

from tidings.demo.generate import DEMO_QUERIES, generate_posts

KEYS = {"algorithm", "matchers", "words", "spread", "imbalance", "cov", "gini", "loads", "throughput"}
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
    "places": [
        *["plan", "learn", "posts.parquet", "--algorithm", "hybrid", "--matchers", "3", "-s", "subs.txt"],
        *["--out", "places.plan", "--json"],
    ],
    "map": ["plan", "show", "places.plan", "--posts", "posts.parquet", "-s", "subs.txt", "--map", "m.svg", "--json"],
    "by places": [*MATCH, "d.csv", "--partitioner", "places.plan"],
    "places for nobody": ["plan", "learn", "posts.parquet", "--algorithm", "grid", "--out", "x.plan"],
    "map of words": ["plan", "show", "w.plan", "--map", "w.svg"],
    "exists": ["plan", "learn", "posts.parquet", "--out", "w.plan"],
    "nothing said": ["plan", "learn", "silent.jsonl", "--out", "s.plan"],
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("plans")
    posts = generate_posts(1500, seed=3)
    pq.write_table(posts, folder / "posts.parquet")
    lines = [json.dumps({"id": row["id"], "text": row["text"]}) for row in posts.select(["id", "text"]).to_pylist()]
    (folder / "posts.jsonl").write_text("\n".join(lines))
    (folder / "silent.jsonl").write_text('{"text": "the and of"}\n{"text": ""}\n')
    (folder / "subs.txt").write_text("\n".join(DEMO_QUERIES.values()))
    results = dict(zip(COMMANDS, several(list(COMMANDS.values()), folder), strict=True))
    results["folder"] = folder  # type: ignore[assignment]
    return results


def test_learning_tells_what_was_learned_and_how_good_it_is(ran):
    told = ran["learn"].summary
    assert told.keys() >= KEYS | {"seconds", "out"}
    assert (told["algorithm"], told["matchers"], told["posts"]) == ("salb+", 6, 1500)
    assert len(told["loads"]) == 6
    assert told["spread"] == pytest.approx(sum(told["loads"]) / 1500, abs=1e-3)
    assert told["throughput"] == pytest.approx(1500 / max(told["loads"]), abs=1e-3)


def test_a_sample_and_subscriptions_narrow_what_is_learned_from(ran):
    told = ran["narrow"].summary
    assert (told["algorithm"], told["matchers"], told["split_words"]) == ("gfcl", 3, 0)
    assert 400 < told["learned_from"] <= 500
    assert told["words"] < ran["learn"].summary["words"] / 4


def test_showing_a_plan_gives_what_learning_gave(ran):
    learned, shown = ran["learn"].summary, ran["show"].summary
    assert {name: learned[name] for name in KEYS} == {name: shown[name] for name in KEYS}
    assert ran["about"].summary.keys() == {"algorithm", "matchers", "words", "split_words", "learned_from"}


def test_a_screen_shows_a_bar_for_every_matcher(ran):
    assert ran["bars"].code == 0
    assert ran["bars"].out.count("█ ") == 6


def test_matching_gives_the_same_by_every_plan(ran):
    folder: Path = ran["folder"]  # type: ignore[assignment]
    found = [sorted((folder / name).read_text().splitlines()) for name in ("a.csv", "b.csv", "c.csv")]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) > 10
    assert (ran["by plan"].summary["matchers"], ran["by default"].summary["matchers"]) == (6, 4)
    assert "words by salb+, subscriptions by lasp" in ran["by default"].summary["why"]


@pytest.mark.parametrize(
    ("name", "said"), [("exists", "w.plan: this exists already"), ("nothing said", "no post says a word that counts")]
)
def test_what_cannot_be_done_is_told_in_one_sentence(ran, name, said):
    assert ran[name].code == 2
    assert said in " ".join(ran[name].err.split())
    assert not (ran["folder"] / "s.plan").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plan", "show", "nope.plan"], "there is no such plan"),
        (["plan", "learn", "nope", "--out", "x.plan"], "no such file or directory"),
        (["plan", "learn", ".", "--out", "x.plan", "--algorithm", "hash"], "There is nothing to learn for 'hash'"),
        (["plan", "learn", ".", "--out", "x.plan", "--matchers", "2000"], "between 1 and 1,024"),
        (["plan", "learn", ".", "--out", "none/x.plan"], "a file cannot be written there"),
        (["match", "p", "-s", "s", "--out", "o", "--partitioner", "astrology"], "no partitioner and no plan called"),
        (["match", "p", "-s", "s", "--out", "o", "--placement", "best"], "There is no placer called 'best'"),
    ],
)
def test_a_wrong_command_is_refused_with_code_2_before_spark_starts(tmp_path, arguments, said):
    done = tidings(*arguments, folder=tmp_path)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_a_plan_of_places_is_learned_shown_drawn_and_used(ran):
    told, shown = ran["places"].summary, ran["map"].summary
    assert (told["algorithm"], told["matchers"], told["posts"], len(told["loads"])) == ("hybrid", 3, 1500, 3)
    assert shown["loads"] == told["loads"], "the same posts and subscriptions"
    assert shown["spread"] == pytest.approx(sum(shown["loads"]) / 1500, abs=1e-3)
    drawn = (Path(ran["folder"]) / "m.svg").read_text("utf-8")
    assert drawn.startswith("<svg")
    assert f"{told['loads'][0]:,} posts" in drawn
    matched = [sorted((Path(ran["folder"]) / file).read_text().splitlines()) for file in ("d.csv", "c.csv")]
    assert matched[0] == matched[1]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("places for nobody", "give them with --subscriptions"), ("map of words", "a plan of words, which has no map")],
)
def test_what_makes_no_sense_for_a_plan_is_told_in_one_sentence(ran, name, sentence):
    assert ran[name].code == 2
    assert sentence in " ".join(ran[name].err.split())
