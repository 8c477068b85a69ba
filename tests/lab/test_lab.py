"""The lab: experiments are files, throughput is measured on real matchers, verdicts follow from the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidings.balance.word_registry import PARTITIONERS, fit
from tidings.cli.main import run as run_tidings
from tidings.demo.generate import generate_posts
from tidings.errors import InputError
from tidings.routing.shed import Shed
from tidings_lab import datasets, runner
from tidings_lab.claims import FAILS, HOLDS, PARTLY, RULES, UNKNOWN, judge
from tidings_lab.experiment import Claim, experiment, experiments
from tidings_lab.measurements.shedding import _at_best_by_levels
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import Fleet
from tidings_lab.workload import Subscribed, deal, find_topics, numbered_posts, topic_based, tweet_based

SEED = 3


@pytest.fixture(scope="module")
def posts() -> NumberedPosts:
    return numbered_posts(generate_posts(2_000, SEED).column("text").combine_chunks())


def _words(subscribed: Subscribed, number: int) -> set[bytes]:
    starts = subscribed.conjunctions.starts
    return set(subscribed.text_of(subscribed.conjunctions.terms[int(starts[number]) : int(starts[number + 1])]))


def _post_words(posts: NumberedPosts, number: int) -> set[bytes]:
    return {posts.terms[word - 1] for word in posts.words[posts.starts[number] : posts.starts[number + 1]].tolist()}


def _expected(subscribed: Subscribed, posts: NumberedPosts) -> set[tuple[int, int]]:
    """By definition: every word of the subscription is said."""
    wanted = [_words(subscribed, number) for number in range(len(subscribed))]
    said = [_post_words(posts, number) for number in range(len(posts))]
    return {(post, one) for post, words in enumerate(said) for one, asked in enumerate(wanted) if asked <= words}


@pytest.mark.parametrize("algorithm", PARTITIONERS)
@pytest.mark.parametrize("placement", ["rarest", "lasp", "random"])
def test_a_fleet_finds_what_the_definition_says_whatever_the_plan(
    posts: NumberedPosts, algorithm: str, placement: str
) -> None:
    fold = deal(posts, 5, 1, 800, 150, SEED)[0]
    subscribed = topic_based(find_topics(fold.known, 8, 5, SEED), posts.terms, 120, SEED)
    fleet = Fleet(subscribed, fit(algorithm, subscribed.corpus(fold.known), 6), placement, SEED)
    received = subscribed.received(fold.unseen)
    shares = fleet.route(received).shares
    found = {(int(pair >> np.uint64(32)), int(pair & np.uint64(0xFFFFFFFF))) for pair in fleet.found(shares)}
    assert found == _expected(subscribed, fold.unseen)
    assert found
    work = fleet.work(received, 2)
    assert work.loads.sum() == sum(len(share.posts) for share in shares)
    assert work.hits.sum() >= len(found)
    told = work.described()
    assert told["throughput"] == pytest.approx(len(received) / work.seconds.min(axis=0).max())


def test_shedding_only_ever_loses_matches(posts: NumberedPosts) -> None:
    fold = deal(posts, 5, 1, 800, 300, SEED)[0]
    subscribed = tweet_based(fold.known, 200, SEED)
    fleet = Fleet(subscribed, fit("salb+", subscribed.corpus(fold.known), 8), "rarest", SEED)
    received = subscribed.received(fold.unseen)
    everything = set(fleet.found(fleet.route(received).shares).tolist())
    shed = fleet.route(received, Shed("subscription", 1.0, SEED))
    assert set(fleet.found(shed.shares).tolist()) <= everything
    assert shed.withheld is not None


def test_folds_learn_from_nothing_they_are_measured_with(posts: NumberedPosts) -> None:
    numbered = NumberedPosts(np.arange(1, 101, dtype=np.uint32), np.arange(101, dtype=np.int64), [b"x"] * 100)
    folds = deal(numbered, 10, 10, 1_000, 1_000, SEED)
    for fold in folds:
        assert not set(fold.known.words.tolist()) & set(fold.unseen.words.tolist())
        assert len(fold.known) + len(fold.unseen) == 100
    assert sorted(word for fold in folds for word in fold.unseen.words.tolist()) == list(range(1, 101))


def test_a_tweet_based_subscription_is_all_words_of_a_post_and_a_topic_based_one_stays_in_its_topic(
    posts: NumberedPosts,
) -> None:
    said = [_post_words(posts, number) for number in range(len(posts))]
    tweets = tweet_based(posts, 50, SEED)
    assert all(_words(tweets, number) in said for number in range(50))
    found = find_topics(posts, 10, 5, SEED)
    topics = [{posts.terms[word - 1] for word in row} for row in found.tolist()]
    drawn = topic_based(found, posts.terms, 400, SEED)
    lengths = {len(_words(drawn, number)) for number in range(400)}
    assert lengths == {1, 2, 3, 4, 5}
    assert all(any(_words(drawn, number) <= topic for topic in topics) for number in range(400))
    assert np.array_equal(found, find_topics(posts, 10, 5, SEED))


def test_marks_of_repeated_posts_are_no_words() -> None:
    import pyarrow as pa

    made = numbered_posts(pa.array(["RT storm in London", "QT storm"]))
    assert [_post_words(made, number) for number in (0, 1)] == [{b"storm", b"london"}, {b"storm"}]


def _rows(**columns: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _judged(rule: str, rows: list[dict[str, Any]], **arguments: Any) -> tuple[str, str]:
    told = judge(Claim("", "", rule, arguments), rows)
    return told.verdict, told.reason


def test_a_verdict_follows_from_the_rows() -> None:
    rows = _rows(name=["a", "b", "a", "b", "a", "b"], at=[1, 1, 2, 2, 2, 2], speed=[4.0, 2.0, 3.0, 2.0, 5.0, 2.0])
    both = {"measure": "speed", "first": {"name": "a"}, "second": {"name": "b"}, "over": ["at"]}
    assert _judged("times", rows, **both, least=2.0) == (HOLDS, "2 to 2 times; at 2 of 2 places; hardest: at 1")
    assert _judged("times", rows, **both, least=3.0)[0] == PARTLY  # the right way, not by as much
    assert _judged("times", rows, **both, most=1.0)[0] == FAILS
    assert _judged("times", rows, **both, least=1.0, where={"at": 9})[0] == UNKNOWN
    assert _judged("value", rows, measure="speed", where={"name": "b"}, most=2.0)[0] == HOLDS
    assert _judged("value", rows, measure="speed", over=["at"], least=3.0)[0] == HOLDS
    assert _judged("value", rows, measure="speed", where={"name": "b"}, least=3.0)[0] == PARTLY


def test_curves_are_compared_where_both_go() -> None:
    up = _rows(name=["a"] * 3, step=[1, 2, 3], x=[0.0, 0.5, 1.0], y=[1.0, 0.8, 0.0])
    down = _rows(name=["b"] * 2, step=[1, 2], x=[0.0, 1.0], y=[1.0, 0.0])
    curve = {"x": "x", "y": "y", "by": "step", "first": {"name": "a"}}
    assert _judged("curve", up + down, **curve, second={"name": "b"})[0] == HOLDS
    assert _judged("curve", up, **curve, at=0.25, least=0.9) == (HOLDS, "0.9 y at x 0.25")
    assert _judged("curve", up, **curve, at=0.75, least=0.9)[0] == FAILS
    assert _judged("curve", up, **curve, at=2.0, least=0.9)[0] == UNKNOWN


def test_of_several_the_hardest_counts_and_is_named() -> None:
    rows = _rows(name=["a", "b", "c"], speed=[4.0, 2.0, 5.0], cost=[1.0, 1.0, 2.0])
    told = _judged(
        "times",
        rows,
        measure="speed",
        first={"name": "a"},
        second={"name": ["b", "c"]},
        least=1.0,
        because=["cost"],
    )
    assert told == (FAILS, "0.8 times against c; there cost 0.50 ×")


def test_experiments_come_in_the_order_of_their_numbers() -> None:
    assert [one.name for one in experiments()][:2] == ["scalability", "subscriptions"]
    names = [one.name for one in experiments()]
    assert names.index("correlations") < names.index("space-baselines") < names.index("space-switching")
    assert names.index("bandwidth") < names.index("latency")


def test_every_experiment_has_claims_with_known_rules_and_figures() -> None:
    for one in experiments():
        assert one.claims
        assert one.figures
        assert all(claim.rule in RULES for claim in one.claims)
    with pytest.raises(InputError, match="scalability"):
        experiment("nothing")


@pytest.mark.parametrize("name", [one.name for one in experiments()])
def test_a_tiny_run_without_real_data_gives_results_verdicts_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(datasets, "data_folder", lambda: None)
    results, out = tmp_path / "results", tmp_path / "report"
    path, made = runner.conduct(experiment(name), "tiny", results, lambda *told: None)
    assert len(made["rows"]) > 1
    kept = json.loads(path.read_text("utf-8"))
    assert kept["rows"] == json.loads(json.dumps(made["rows"], default=runner.plain))
    assert kept["commit"]
    assert kept["versions"]["tomotopy"]
    assert kept["data"]["source"].startswith(("generated", "calibration"))
    assert run_tidings(["lab", "report", "--results", str(results), "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    page = Path(told["page"]).read_text("utf-8")
    assert all(claim.says in page for claim in experiment(name).claims)
    drawn = {file.name for file in out.glob("*.png")}
    assert drawn == {f"{figure.name}.png" for figure in experiment(name).figures}
    assert run_tidings(["lab", "list", "--results", str(results), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert [one["verdict"] for one in listed if one["name"] == name] == [told["verdicts"][name]]


def test_a_wrong_command_is_told_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["lab", "run"], "--all"),
        (["lab", "run", "nothing"], "no experiment called"),
        (["lab", "run", "shedding", "--set", "speed=9"], "no parameter 'speed'"),
        (["lab", "run", "shedding", "--set", "speed"], "NAME=VALUE"),
        (["lab", "report", "--results", str(tmp_path)], "no results yet"),
    ):
        assert run_tidings(arguments) == 2
        assert said in capsys.readouterr().err


def test_who_knows_all_but_sends_by_levels_keeps_the_best_of_every_post():
    """Three posts, at most one matcher each: 5 + 2 + 1 of 11 matches, three of five sendings."""
    worth = np.array([[5, 3, -1], [2, -1, -1], [0, -1, 1]], np.int32)
    assert _at_best_by_levels(worth, 3.0) == {"accuracy": 1.0, "shed": 0.0}
    assert _at_best_by_levels(worth, 1.0) == {"accuracy": pytest.approx(8 / 11), "shed": pytest.approx(2 / 5)}
    assert _at_best_by_levels(worth, 1.5) == {"accuracy": pytest.approx(9.5 / 11), "shed": pytest.approx(1 / 5)}
    assert _at_best_by_levels(np.full((0, 3), -1, np.int32), 1.0) == {"accuracy": 1.0, "shed": 0.0}
