"""Anchors are the terms that fewest posts of a sample contain: in bases, in deltas and after merges."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from tests.data import real_tweets, shared

from tidings.index import builder
from tidings.index.builder import apply_changes, create_index, merge_index
from tidings.index.decompile import decompile
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.query.anchors import anchor_terms
from tidings.testing.pipeline import subscription_table
from tidings.text.term_statistics import TermStatistics

both_plans = pytest.mark.parametrize("plan", [None, PlanRecord("hash", 3, 7)], ids=["replicated", "partitioned"])
# Most subscriptions contain `zebra`, most posts `storm` and `flood`; no subscription contains `flood` at first.
QUERIES = ["zebra storm", "zebra cat", "zebra dog", "zebra fish"]
POSTS = pa.array(["storm flood"] * 50 + ["storm flood zebra"] * 5 + ["storm cat"] * 9, pa.large_string())


def anchors_by_id(index: Index) -> dict[int, list[str]]:
    """Return the anchors of each subscription; those of the router must be the same."""
    anchors: dict[int, list[str]] = {}
    for number in range(len(index.manifest.shards)):
        for view in index.open_shard(number):
            conjunctions = decompile(view.segment, view.removed)
            terms = anchor_terms(conjunctions)
            if index.manifest.plan is not None:
                assert set(terms.tolist()) <= set(view.anchors.terms.tolist())
            ids = view.segment.ids.to_numpy()[conjunctions.subscription]
            for subscription, term in zip(ids.tolist(), terms.tolist(), strict=True):
                anchors.setdefault(subscription, []).append(index.vocabulary.text_of(term).decode())
    return anchors


@pytest.fixture(autouse=True)
def _count_for_any_size(monkeypatch):
    monkeypatch.setattr(builder, "MIN_CHOICES", 1)


@both_plans
def test_anchor_is_the_term_of_fewest_posts(tmp_path, plan):
    by_subscriptions, _ = create_index(tmp_path / "a", subscription_table(QUERIES), plan)
    assert anchors_by_id(by_subscriptions)[0] == ["storm"]
    index, _ = create_index(
        tmp_path / "b", subscription_table(QUERIES), plan, count_terms=lambda: TermStatistics.of(POSTS)
    )
    assert anchors_by_id(index) == {0: ["zebra"], 1: ["zebra"], 2: ["dog"], 3: ["fish"]}
    assert anchors_by_id(Index.open(index.folder, thoroughly=True)) == anchors_by_id(index)


@both_plans
def test_deltas_use_the_statistics_of_the_base(tmp_path, plan):
    base, _ = create_index(
        tmp_path / "index", subscription_table(QUERIES), plan, count_terms=lambda: TermStatistics.of(POSTS)
    )
    index, _ = apply_changes(base, subscription_table(["flood zebra OR flood cat", "flood unseen"], [10, 11]))
    expected = {**anchors_by_id(base), 10: ["zebra", "cat"], 11: ["unseen"]}
    assert {key: sorted(anchors) for key, anchors in anchors_by_id(index).items()} == {
        key: sorted(anchors) for key, anchors in expected.items()
    }
    merged = merge_index(index)
    assert merged.statistics.posts == len(POSTS)
    assert {key: sorted(anchors) for key, anchors in anchors_by_id(merged).items()} == {
        key: sorted(anchors) for key, anchors in expected.items()
    }


@both_plans
def test_merge_refreshes_the_statistics(tmp_path, plan):
    index, _ = create_index(
        tmp_path / "index", subscription_table(QUERIES), plan, count_terms=lambda: TermStatistics.of(POSTS)
    )
    later = TermStatistics.of(pa.array(["zebra dog"] * 20, pa.large_string()))
    merged = merge_index(index, later)
    assert merged.statistics.posts == 20
    assert anchors_by_id(merged)[0] == ["storm"]
    delta, _ = apply_changes(merged, subscription_table(["zebra newword", "dog storm"], [10, 11]))
    assert anchors_by_id(delta)[11] == ["storm"]


def test_posts_are_not_counted_if_few_conjunctions_have_a_choice(tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "MIN_CHOICES", 5)

    def count_terms() -> TermStatistics:
        raise AssertionError("counted")

    index, _ = create_index(tmp_path / "index", subscription_table(QUERIES), count_terms=count_terms)
    assert not index.statistics.posts


@pytest.mark.real_data
@both_plans
def test_anchors_of_real_subscriptions_have_nearly_the_fewest_posts(tmp_path, plan):
    queries = shared("queries.txt").read_text("utf-8").splitlines()[:20_000]
    known, unseen = real_tweets(40_000)[::2], real_tweets(40_000)[1::2]
    ratios = []
    for name, count_terms in (("before", None), ("after", lambda: TermStatistics.of(pa.array(known)))):
        index, _ = create_index(tmp_path / name, subscription_table(queries), plan, count_terms=count_terms)
        ratios.append(anchor_ratio(index, unseen))
    assert ratios[0] > 1.5
    assert ratios[1] < 1.03


def anchor_ratio(index: Index, texts: list[str]) -> float:
    """Return the posts of all anchors, relative to those of the terms that fewest posts contain."""
    analyzed = index.analyzer().analyze(pa.array(texts))
    counts = np.zeros(index.manifest.terms + 1, np.int64)
    for start, end in analyzed.bounds.tolist():
        counts[np.unique(analyzed.terms[start:end])] += 1
    chosen = fewest = 0
    for number in range(len(index.manifest.shards)):
        for view in index.open_shard(number):
            conjunctions = decompile(view.segment, view.removed)
            chosen += int(counts[anchor_terms(conjunctions)].sum())
            bounds = itertools.pairwise(conjunctions.starts.tolist())
            fewest += sum(int(counts[conjunctions.terms[a:b]].min()) for a, b in bounds if a < b)
    return chosen / fewest
