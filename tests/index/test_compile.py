"""Simple queries are compiled without the parser, with the same result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.data import real_queries

from tidings.config import QUERY_LIMITS
from tidings.demo.generate import generate_queries
from tidings.errors import QueryError
from tidings.index import bulk_parse
from tidings.index.compile import CompiledSubscriptions, GrowingVocabulary, compile_subscriptions
from tidings.query.conjunctions import Conjunctions
from tidings.query.parse import parse
from tidings.query.residual import BaseResidual
from tidings.testing.pipeline import subscription_table
from tidings.testing.strategies import STOP_WORDS, WORDS, queries
from tidings.text.reference_analyzer import stop_words

plain_words = st.text(st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"]), min_size=1, max_size=12)
known = st.sampled_from(
    [*WORDS, *STOP_WORDS, "OR", "NOT", "Or", "not", "within", "running", "CATS", "0", "1e9", "www", "http"]
)
spaces = st.sampled_from([" ", "  ", "   "])
plain = st.lists(st.tuples(st.one_of(plain_words, known), spaces).map("".join), min_size=1, max_size=6).map("".join)
almost_plain = st.one_of(plain, plain.map(str.strip), plain.map(" {}".format), queries)


def meaning(compiled: CompiledSubscriptions, vocabulary: GrowingVocabulary) -> dict[int, set]:
    """Return the conjunctions of every valid row, with terms instead of numbers."""
    terms, found = vocabulary.added.terms(), {}
    part: Conjunctions = compiled.conjunctions
    for number, owner in enumerate(part.subscription.tolist()):
        start, end = part.starts[number : number + 2].tolist()
        words = frozenset(terms[term - 1] for term in part.terms[start:end].tolist())
        anchor = int(part.anchor_region[number])
        alone = BaseResidual((), (), ((0, anchor),)) if anchor >= 0 else None
        residual = part.residuals[part.residual[number] - 1] if part.residual[number] else alone
        also = residual and (
            frozenset(terms[term - 1] for term in residual.forbidden),
            frozenset((negated, tuple(terms[term - 1] for term in phrase)) for negated, phrase in residual.phrases),
            frozenset((negated, *rows_at(part, region)) for negated, region in residual.regions),
        )
        found.setdefault(int(compiled.rows[owner]), set()).add((words, also))
    return found


def rows_at(part: Conjunctions, region: int) -> list[float | None]:
    """Return all rows of a region: a header, whose first number is NaN, has their number."""
    first = part.regions[region]
    rows = part.regions[region : region + (int(first[2]) if np.isnan(first[0]) else 1)]
    return [None if np.isnan(number) else number for number in rows.ravel().tolist()]


NOTHING = r"[^\s\S]"  # matches nothing, so that all queries go through the parser


def compile_twice(
    texts: Sequence[str], regions: Sequence[list | None] = ()
) -> tuple[tuple[dict, list], tuple[dict, list]]:
    """Compile a table with and without the fast path."""
    results, given_table = [], subscription_table(texts)
    if regions:
        given_table = given_table.append_column("region", pa.array(regions, pa.list_(pa.float64())))
    for patterns in ({}, {"_ALL": NOTHING, "_ANY": NOTHING}):
        with pytest.MonkeyPatch.context() as patch:
            for name, pattern in patterns.items():
                patch.setattr(bulk_parse, name, pattern)
            vocabulary = GrowingVocabulary()
            compiled = compile_subscriptions(given_table, vocabulary)
            results.append((meaning(compiled, vocabulary), list(compiled.invalid)))
    return results[0], results[1]


@settings(max_examples=300, deadline=None)
@given(st.lists(almost_plain, max_size=12))
@example(["OR", "NOT", "cat OR", "NOT cat", "cat NOT dog", "ORcat NOTdog", "cat OR dog", "or", "not cat"])
@example(["a" * 64, "a" * 65, "a" * 256, "a" * 257, "cat " * 1024, "cat " * 1025, "x " * 2048, "x " * 2049])
@example([" ".join(f"w{n}" for n in range(600)), " ".join(f"w{n}" for n in range(1025))[:4096], "cat\n", "cat\ndog"])
@example(["the of and", "the cat", "", " ", "cat cats CAT", "don t", "www cat", "http cat"])
def test_the_fast_path_agrees_with_the_parser(texts):
    fast, parsed = compile_twice(texts)
    assert fast == parsed


forms = st.sampled_from(["{}", "({})", "( {} )", "(({}))", "{} OR", "-{}"])
joined_words = st.lists(st.one_of(plain_words, known), min_size=1, max_size=4).flatmap(
    lambda words: st.sampled_from([" ", " OR ", "  OR  ", " OR OR ", " NOT ", " or "]).map(lambda by: by.join(words))
)
region_words = st.sampled_from(
    [
        "",
        " within:1,2,3,4",
        " within:3,2,1,4",
        " within:1,2,3",
        "  near:5,5,100",
        " near:5,5,-1",
        " within:1,2,3,4 cat",
        " near:5,5,1e2",
        " WITHIN:1,2,3,4",
        " -within:1,2,3,4",
        " within:-0,-0,0,0",
        " near:91,0,5",
        " OR near:1,2,3",
    ]
)
queries_with_region = st.tuples(forms, joined_words, region_words).map(
    lambda parts: parts[0].format(parts[1]) + parts[2]
)
columns = st.sampled_from(
    [
        None,
        None,
        [1.0, 2.0, 3.0, 4.0],
        [3.0, 2.0, 1.0, 4.0],
        [1.0, 2.0, 3.0, 90.0],
        [-180.0, -90.0, 180.0, 4.0],
        [1.0, 4.0, 3.0, 2.0],
        [0.0, -0.0, 0.0, 0.0],
        [1.0, 2.0],
        [1.0, None, 3.0, 4.0],
        [1.0, 1.0, 4.0, 0.0, 0.0, 4.0, 0.0, 0.0, 4.0, 0.0, 0.0],
        [float("nan"), 0.0, 1.0, 1.0],
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(queries_with_region, columns), max_size=8))
@example([("x " * 2040 + " within:1,2,3,4", None), ("cat " * 1023, [1.0, 2.0, 3.0, 4.0]), ("cat " * 1024, [1.0] * 4)])
@example([(" OR ".join(f"w{n}" for n in range(450)), [1.0, 2.0, 3.0, 4.0]), ("the OR cat", None), ("the OR of", None)])
@example([("cat", [1.0, 2.0, 3.0, 4.0]), ("#cat", [0.0, 0.0, 5.0, 5.0]), ("dog", [2.0, 2.0, 3.0, 3.0])])
def test_the_fast_path_agrees_with_the_parser_on_or_and_regions(rows):
    fast, parsed = compile_twice([text for text, _ in rows], [region for _, region in rows])
    assert fast == parsed


def test_simple_queries_take_the_fast_path():
    texts = ["cat", "white  house 7", "cat OR dog", "cat within:1,2,3,4", "(cat OR dog) near:1,2,3", "cat dog"]
    others = ["cat -dog", '"cat"', "#cat", "café", None, "cat OR dog within:1,2,3,4", "cat (dog)", "cat within:1,2,3,4"]
    regions = [*[None] * 5, [1.0, 2.0, 3.0, 4.0], *[None] * 7, [1.0, 2.0, 3.0, 4.0]]
    simple = bulk_parse.parse_simple(pa.array([*texts, *others]), pa.array(regions), GrowingVocabulary())
    assert (simple.sizes > 0).tolist() == [True] * len(texts) + [False] * len(others)
    assert sorted(simple.regions) == [3, 4]
    assert np.flatnonzero(~np.isnan(simple.boxes[:, 0])).tolist() == [5]


def test_the_fast_path_agrees_with_the_parser_on_generated_queries():
    fast, parsed = compile_twice(generate_queries(2000, seed=3))
    assert fast == parsed


@pytest.mark.real_data
def test_the_fast_path_agrees_with_the_parser_on_real_queries():
    bare = [query.strip('"') for query in real_queries(4000, skip=10_000)]
    fast, parsed = compile_twice([*bare, *real_queries(1000)])
    assert fast == parsed
    assert len(fast[0]) > 4000


def test_every_single_stop_word_is_invalid_on_both_paths():
    fast, parsed = compile_twice(sorted(stop_words()))
    assert fast == parsed
    assert not fast[0]


def test_invalid_queries_have_their_row_and_the_reason_of_the_parser():
    texts = ["cat", "(cat", "the", "dog"]
    compiled = compile_subscriptions(subscription_table(texts), GrowingVocabulary())
    assert compiled.rows.tolist() == [0, 3]
    for invalid in compiled.invalid:
        with pytest.raises(QueryError) as caught:
            parse(texts[invalid.row])
        assert invalid.reason == str(caught.value)


def test_both_paths_agree_at_the_limits():
    texts = ["x " * (QUERY_LIMITS.characters // 2 - 1) + "xy", "x" * 64 + " " * QUERY_LIMITS.characters]
    fast, parsed = compile_twice(texts)
    assert fast == parsed


def test_a_region_column_is_a_further_requirement():
    regions = pa.array([None, [0.0, 0.0, 9.0, 9.0], [9.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 9.0]], pa.list_(pa.float64()))
    with_regions = subscription_table(["cat", "cat", "cat", ""]).append_column("region", regions)
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(with_regions, vocabulary)
    assert compiled.rows.tolist() == [0, 1, 3]
    assert [invalid.row for invalid in compiled.invalid] == [2]
    found = meaning(compiled, vocabulary)
    assert found[0] == {(frozenset([b"cat"]), None)}
    assert found[1] == {(frozenset([b"cat"]), (frozenset(), frozenset(), frozenset([(0, 0.0, 0.0, 9.0, 9.0)])))}
    assert found[3] == {(frozenset(), (frozenset(), frozenset(), frozenset([(0, 0.0, 0.0, 9.0, 9.0)])))}
