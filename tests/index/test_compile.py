"""Queries of plain words take a shorter way into the index; it leads to the same place as the parser's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.contract.matchers import table
from tests.data import real_queries
from tests.generators import STOP_WORDS, WORDS, queries

from tidings.config import QUERY_LIMITS
from tidings.errors import QueryError
from tidings.index import compile as compiling
from tidings.index.compile import Compiled, GrowingVocabulary, compile_subscriptions
from tidings.index.conjunctions import Conjunctions
from tidings.lab.generate import generate_queries
from tidings.query.parse import parse
from tidings.receive.clean import stop_words

plain_words = st.text(st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"]), min_size=1, max_size=12)
known = st.sampled_from(
    [*WORDS, *STOP_WORDS, "OR", "NOT", "Or", "not", "within", "running", "CATS", "0", "1e9", "www", "http"]
)
spaces = st.sampled_from([" ", "  ", "   "])
plain = st.lists(st.tuples(st.one_of(plain_words, known), spaces).map("".join), min_size=1, max_size=6).map("".join)
almost_plain = st.one_of(plain, plain.map(str.strip), plain.map(" {}".format), queries)


def meaning(compiled: Compiled, vocabulary: GrowingVocabulary) -> dict[int, set]:
    """The conjunctions of every accepted row, in words."""
    terms, found = vocabulary.added.terms(), {}
    part: Conjunctions = compiled.conjunctions
    for number, owner in enumerate(part.owner.tolist()):
        start, end = part.starts[number : number + 2].tolist()
        words = frozenset(terms[term - 1] for term in part.terms[start:end].tolist())
        program = part.programs[part.program[number] - 1] if part.program[number] else None
        also = program and (
            frozenset(terms[term - 1] for term in program.forbidden),
            frozenset((negated, tuple(terms[term - 1] for term in phrase)) for negated, phrase in program.phrases),
            frozenset((negated, *rows_at(part, region)) for negated, region in program.regions),
        )
        found.setdefault(int(compiled.rows[owner]), set()).add((words, also))
    return found


def rows_at(part: Conjunctions, region: int) -> list[float | None]:
    """All rows of a region: a header, whose first number is NaN, says how many there are."""
    first = part.regions[region]
    rows = part.regions[region : region + (int(first[2]) if np.isnan(first[0]) else 1)]
    return [None if np.isnan(number) else number for number in rows.ravel().tolist()]


def both_ways(texts: Sequence[str]) -> tuple[tuple[dict, list], tuple[dict, list]]:
    """What the table compiles to, with the shorter way and without it."""
    ways = []
    for pattern in (compiling._PLAIN, r"[^\s\S]"):  # the second matches nothing, so that all go through the parser
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiling, "_PLAIN", pattern)
            vocabulary = GrowingVocabulary()
            compiled = compile_subscriptions(table(texts), vocabulary)
            ways.append((meaning(compiled, vocabulary), list(compiled.refused)))
    return ways[0], ways[1]


@settings(max_examples=300, deadline=None)
@given(st.lists(almost_plain, max_size=12))
@example(["OR", "NOT", "cat OR", "NOT cat", "cat NOT dog", "ORcat NOTdog", "cat OR dog", "or", "not cat"])
@example(["a" * 64, "a" * 65, "a" * 256, "a" * 257, "cat " * 1024, "cat " * 1025, "x " * 2048, "x " * 2049])
@example([" ".join(f"w{n}" for n in range(600)), " ".join(f"w{n}" for n in range(1025))[:4096], "cat\n", "cat\ndog"])
@example(["the of and", "the cat", "", " ", "cat cats CAT", "don t", "www cat", "http cat"])
def test_the_short_way_agrees_with_the_parser(texts):
    short, parsed = both_ways(texts)
    assert short == parsed


def test_the_short_way_is_taken_by_plain_queries():
    is_plain = compiling._is_plain(
        pa.array(["cat", "white  house 7", "cat -dog", "cat OR dog", '"cat"', "#cat", "café", None])
    )
    assert is_plain.tolist() == [True, True, False, False, False, False, False, False]


def test_the_short_way_agrees_with_the_parser_on_generated_queries():
    short, parsed = both_ways(generate_queries(2000, seed=3))
    assert short == parsed


def test_the_short_way_agrees_with_the_parser_on_real_queries():
    bare = [query.strip('"') for query in real_queries(4000, skip=10_000)]
    short, parsed = both_ways([*bare, *real_queries(1000)])
    assert short == parsed
    assert len(short[0]) > 4000


def test_every_stop_word_alone_is_refused_by_both_ways():
    short, parsed = both_ways(sorted(stop_words()))
    assert short == parsed
    assert not short[0]


def test_what_is_refused_is_named_by_its_row_with_the_parsers_reason():
    texts = ["cat", "(cat", "the", "dog"]
    compiled = compile_subscriptions(table(texts), GrowingVocabulary())
    assert compiled.rows.tolist() == [0, 3]
    for refused in compiled.refused:
        with pytest.raises(QueryError) as caught:
            parse(texts[refused.row])
        assert refused.reason == str(caught.value)


def test_a_query_at_the_limits_is_accepted_and_one_beyond_refused():
    texts = ["x " * (QUERY_LIMITS.characters // 2 - 1) + "xy", "x" * 64 + " " * QUERY_LIMITS.characters]
    short, parsed = both_ways(texts)
    assert short == parsed


def test_a_region_column_is_a_further_demand():
    regions = pa.array([None, [0.0, 0.0, 9.0, 9.0], [9.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 9.0]], pa.list_(pa.float64()))
    with_regions = table(["cat", "cat", "cat", ""]).append_column("region", regions)
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(with_regions, vocabulary)
    assert compiled.rows.tolist() == [0, 1, 3]
    assert [one.row for one in compiled.refused] == [2]
    found = meaning(compiled, vocabulary)
    assert found[0] == {(frozenset([b"cat"]), None)}
    assert found[1] == {(frozenset([b"cat"]), (frozenset(), frozenset(), frozenset([(0, 0.0, 0.0, 9.0, 9.0)])))}
    assert found[3] == {(frozenset(), (frozenset(), frozenset(), frozenset([(0, 0.0, 0.0, 9.0, 9.0)])))}
