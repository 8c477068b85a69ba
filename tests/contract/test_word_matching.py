"""Every word partitioner and placer gives exactly the matches of the scan, with hot terms in several splits.

The index has changed since it was created, in additions, replacements and removals, and is merged or not.
"""

from __future__ import annotations

from functools import cache

import pytest
from tests.contract.matchers import create_changed_index, word_plan_fitter

from tidings.balance.word_registry import DEFAULT_PARTITIONER, WORD_PARTITIONERS
from tidings.demo.generate import generate_posts, generate_queries
from tidings.index.builder import merge_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.matching.brute_force import RawPost
from tidings.matching.registry import MATCHERS
from tidings.plan.placement.placer import PLACERS
from tidings.testing import examples
from tidings.testing.oracles import Matches, expected_matches
from tidings.testing.pipeline import match_index

MATCHER_COUNT = 8
merged_or_not = pytest.mark.parametrize("is_merged", [False, True], ids=["changed", "merged"])


@cache
def workload() -> tuple[list[str], list[RawPost], Matches]:
    """Return queries and posts, of which some repeat words; `the` and `storm` are in most posts."""
    table = generate_posts(120, seed=8)
    generated = list(zip(*(table[name].to_pylist() for name in ("text", "lat", "lon")), strict=True))
    texts = [
        f"{text} storm" if n % 3 else f"{text} {text} storm storm rain" for n, (text, _, _) in enumerate(generated)
    ]
    posts = [RawPost(text, lat, lon) for text, (_, lat, lon) in zip(texts, generated, strict=True)]
    queries = [*generate_queries(300, seed=8), *examples.QUERIES, "storm", "storm rain", "rain -hail", "storm OR rain"]
    posts += examples.POSTS
    expected = expected_matches(queries, posts)
    assert len(expected) > 500
    return queries, posts, expected


def build_index(folder, partitioner: str, placer: str, is_merged: bool) -> Index:
    queries, posts, _ = workload()
    record = PlanRecord(partitioner, MATCHER_COUNT, 7, placer)
    fit = word_plan_fitter(partitioner, posts, MATCHER_COUNT)
    index = create_changed_index(folder / "index", queries, record, fit)
    views = [view for number in range(MATCHER_COUNT) for view in index.open_shard(number)]
    assert any(len(view.split_terms) for view in views), "no term is hot"
    assert any(len(view.removed) for view in views)
    return merge_index(index) if is_merged else index


def assert_finds_all(index: Index, matcher: str) -> None:
    _, posts, expected = workload()
    for batch_size in (1, 1000):
        assert match_index(index, posts, batch_size, matcher=matcher) == expected


@merged_or_not
@pytest.mark.parametrize("partitioner", WORD_PARTITIONERS)
def test_every_word_partitioner_finds_what_the_scan_finds(tmp_path, partitioner, is_merged):
    assert_finds_all(build_index(tmp_path, partitioner, "anchor", is_merged), "kernel")


@merged_or_not
@pytest.mark.parametrize("placer", PLACERS)
def test_every_placer_finds_what_the_scan_finds(tmp_path, placer, is_merged):
    index = build_index(tmp_path, DEFAULT_PARTITIONER, placer, is_merged)
    for matcher in MATCHERS:
        assert_finds_all(index, matcher)
