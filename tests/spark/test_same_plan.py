"""`tidings plan learn --subscriptions` learns the plan that `match` and `run` learn from the same posts."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.runs import run_here

from tidings.balance.plan_comparison import hold_out, learn_and_compare
from tidings.balance.spec import PlanSpec
from tidings.demo.generate import DEMO_QUERIES, generate_posts
from tidings.index.builder import compile_for_plan
from tidings.index.plan_files import load_word_plan
from tidings.ingest.subscription_files import read_subscriptions
from tidings.plan.words import HashPlan, LearnedPlan, read_word_plan
from tidings.spark.execution_mode import build_index_for_mode
from tidings.spark.sample import sample_random_posts
from tidings.text.term_statistics import TermStatistics

POSTS, MATCHERS = 5_000, 4
SUBSCRIPTIONS = ["leaks", "phone", "police", "train delays", "storm", *DEMO_QUERIES.values()]


def to_dict(plan: LearnedPlan) -> dict[bytes, list[int]]:
    starts = plan.splits.starts.astype(int).tolist()
    rows = zip(plan.vocabulary.terms(), starts, starts[1:], strict=False)
    return {term: plan.splits.matchers[start:end].tolist() for term, start, end in rows}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("same")
    pq.write_table(generate_posts(POSTS, seed=3), folder / "posts.parquet")
    (folder / "subs.txt").write_text("\n".join(SUBSCRIPTIONS))
    return folder


@pytest.fixture(scope="module")
def learned(folder, spark):
    command = ["plan", "learn", "posts.parquet", "--matchers", str(MATCHERS), "--subscriptions", "subs.txt"]
    (result,) = run_here([[*command, "--sample", "100000", "--out", "w.plan", "--json"]], folder, spark)
    assert result.code == 0, result.err
    return result.summary, to_dict(read_word_plan(folder / "w.plan"))


def test_match_learns_the_same_plan(folder, spark, learned):
    posts, table = spark.read.parquet(str(folder / "posts.parquet")), read_subscriptions(folder / "subs.txt").table
    spec = PlanSpec.parse("salb+", MATCHERS, "anchor")
    sample = partial(sample_random_posts, posts, 100_000)
    index = build_index_for_mode(folder / "index", table, "partitioned", spec, sample).index
    plan = load_word_plan(index.folder, index.manifest.plan)
    assert to_dict(plan) == learned[1]
    assert len(learned[1]) > 10


def test_a_stream_learns_the_same_plan_from_the_posts_that_are_not_held_out(folder, spark, learned):
    texts, positions = sample_random_posts(spark.read.parquet(str(folder / "posts.parquet")), 100_000)
    table = read_subscriptions(folder / "subs.txt").table
    arguments = compile_for_plan(table, lambda: TermStatistics.of(texts))
    spec = PlanSpec.parse("salb+", MATCHERS, "anchor")
    assert to_dict(spec.refit(lambda: (texts, positions))(*arguments)) == learned[1]
    learned_from = texts.filter(pa.array(~hold_out(len(texts))))
    streamed, _ = learn_and_compare("salb+", texts, *arguments, HashPlan(MATCHERS))
    assert to_dict(streamed) == to_dict(spec.refit(lambda: (learned_from, positions))(*arguments))


def test_the_summary_is_what_the_index_does(learned):
    summary, _ = learned
    lists = ("loads", "matches", "subscriptions", "predicted_ms")
    assert [len(summary[name]) for name in lists] == [MATCHERS] * 4
    assert sum(summary["subscriptions"]) >= len(SUBSCRIPTIONS)
    assert 0 < max(summary["loads"]) < POSTS / 2, "only posts that can match are sent"
    slowest_ms, rounding_ms = max(summary["predicted_ms"]), 0.0005  # times have three decimals
    low, high = (1000 * POSTS / (slowest_ms + error) for error in (rounding_ms, -rounding_ms))
    assert low - 1 <= summary["predicted_posts_per_second"] <= high + 1
