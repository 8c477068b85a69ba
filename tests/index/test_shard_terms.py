"""The word map of LASP is maintained from version to version, and always equals the one built from the files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.index.builder import apply_changes, create_index, merge_index, prepare_addition
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.plan.placement.lasp import place_by_load
from tidings.plan.placement.shard_terms import ShardTerms
from tidings.query.conjunctions import Conjunctions
from tidings.testing.pipeline import subscription_table

MATCHERS = 5


def known_terms(index: Index) -> list[list[int]] | None:
    """Return the terms of every shard in the map that the index has, which keeps it."""
    known = index._shard_terms
    if known is None:
        return None
    terms = [known.terms_of(matcher).tolist() for matcher in range(MATCHERS)]
    assert known.sizes.tolist() == [len(some) for some in terms]
    return terms


def read_terms(index: Index) -> list[list[int]]:
    views = [index.open_shard(matcher) for matcher in range(MATCHERS)]
    return [sorted({int(term) for view in shard for term in view.terms}) for shard in views]


def draw_queries(rng: np.random.Generator, count: int) -> list[str]:
    words = [f"w{number}" for number in range(60)]
    queries = [" ".join(rng.choice(words, rng.integers(1, 5))) for _ in range(count)]
    return [query if n % 5 else f'{query} -"{words[n % 60]} x{n}"' for n, query in enumerate(queries)]


@pytest.mark.parametrize("seed", range(4))
def test_the_map_equals_the_rebuilt_one_after_additions_removals_and_merges(tmp_path, seed):
    rng = np.random.default_rng(seed)
    table = subscription_table(draw_queries(rng, 40))
    index, _ = create_index(tmp_path / "index", table, PlanRecord("hash", MATCHERS, 7, "lasp"))
    assert known_terms(index) == read_terms(index)
    first, shrunk = 40, 0
    for step in range(14):
        before = known_terms(index)
        count = int(rng.integers(1, 12))
        added = subscription_table(draw_queries(rng, count), range(first, first + count))
        removed = pa.array(rng.choice(first, 6, replace=False), pa.int64())
        index, _ = apply_changes(index, added if step % 5 else None, removed)
        first += count
        assert known_terms(index) == read_terms(index)
        shrunk += any(set(old) - set(new) for old, new in zip(before, known_terms(index), strict=True))
        if step == 9:
            index = merge_index(index)
            assert known_terms(index) == read_terms(index)
    assert shrunk, "no merge dropped a term"
    index = prepare_addition(index, subscription_table(["w1 new"], [first])).publish(index.version + 1)
    assert known_terms(index) == read_terms(index)


def test_a_reopened_index_places_as_one_that_kept_its_map(tmp_path):
    rng = np.random.default_rng(3)
    record = PlanRecord("hash", MATCHERS, 7, "lasp")
    folders, changes = [tmp_path / "kept", tmp_path / "reopened"], [draw_queries(rng, 9) for _ in range(5)]
    indexes = [
        create_index(folder, subscription_table(draw_queries(rng, 0) or ["w1"]), record)[0] for folder in folders
    ]
    for step, queries in enumerate(changes):
        table = subscription_table(queries, range(10 * step + 10, 10 * step + 19))
        indexes[1] = Index.open(folders[1])
        assert known_terms(indexes[1]) is None
        indexes = [apply_changes(index, table)[0] for index in indexes]
        assert read_terms(indexes[0]) == read_terms(indexes[1]) == known_terms(indexes[0])


def test_placing_does_not_depend_on_the_size_of_the_map(tmp_path):
    """100,000 terms and 1,024 matchers: the map has 13 MB; reading all of it takes milliseconds."""
    rng, matchers, terms = np.random.default_rng(1), 1024, 100_000
    table = [(n, rng.choice(terms, 300, replace=False).astype(np.uint32) + np.uint32(1)) for n in range(matchers)]
    current = ShardTerms.of(table, terms, matchers)
    matcher_of = rng.integers(0, matchers, terms + 1).astype(np.uint16)
    bits, sizes = current.bits, current.sizes
    query = Conjunctions(
        np.array([7, 500, 99_000], np.uint32),
        np.array([0, 3], np.uint64),
        np.zeros(1, np.uint32),
        np.zeros(1, np.uint32),
        [],
        np.zeros((0, 4)),
        np.array([-1]),
    )
    chosen = place_by_load(query, matcher_of, matchers, 0, lambda: current)
    assert chosen[0] in matcher_of[query.terms]
    current.add(int(chosen[0]), query.terms)
    assert current.bits is bits
    assert current.sizes is sizes
