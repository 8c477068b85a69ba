"""Large ORs are not multiplied out: what is indexed of a query is small, and still equivalent to the query."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import QueryError
from tidings.matching.brute_force import RawPost, conjunction_holds
from tidings.query.condition import LiteralTest, compile_condition, decode_tests, encode_tests, pass_tests
from tidings.query.cover import MAX_ENTRIES_OF_PRODUCT, Entry
from tidings.query.dnf import Has
from tidings.query.parse import parse, parse_entries, parse_tree
from tidings.testing.hostile_queries import ten_pairs
from tidings.testing.oracles import evaluate_tree
from tidings.testing.strategies import post_lists, product_queries, rich_queries
from tidings.text.reference_analyzer import AnalyzedText, analyze

queries = st.one_of(product_queries, rich_queries)


def holds(entry: Entry, post: AnalyzedText, lat: float | None, lon: float | None) -> bool:
    is_true = entry.condition is None or evaluate_tree(entry.condition, post, lat, lon)
    return is_true and conjunction_holds(entry.conjunction, post, lat, lon)


def check_equivalence(query: str, posts: list[RawPost]) -> None:
    try:
        entries, tree = parse_entries(query), parse_tree(query).tree
    except QueryError as error:
        with pytest.raises(QueryError, match="^" + str(error).partition(".")[0][:30]):
            parse(query)
        return
    assert all(entry.conjunction.required for entry in entries), "an entry cannot be found"
    for text, lat, lon in posts:
        post = analyze(text)
        assert any(holds(entry, post, lat, lon) for entry in entries) == evaluate_tree(tree, post, lat, lon)


@given(query=queries, posts=post_lists)
def test_the_entries_of_a_query_are_equivalent_to_the_query(query: str, posts: list[RawPost]) -> None:
    check_equivalence(query, posts)


def test_the_entries_are_equivalent_if_nothing_is_multiplied_out(nothing_multiplied: None) -> None:
    settings(deadline=None)(given(query=queries, posts=post_lists)(check_equivalence))()


@given(query=queries)
def test_the_tests_of_a_condition_survive_their_code(query: str) -> None:
    try:
        tree = parse_tree(query).tree
    except QueryError:
        return
    tests = compile_condition(tree, len, lambda region: len(repr(region)))
    assert decode_tests(encode_tests(tests)) == tests
    targets = [(number, target) for number, test in enumerate(tests) for target in (test.if_true, test.if_false)]
    assert all(target < 0 or target > number for number, target in targets), "a test is made twice"


@pytest.mark.parametrize("words", [set(), {"a"}, {"b"}, {"a", "c"}, {"b", "c"}, {"a", "b", "c"}])
def test_a_condition_is_evaluated_by_jumping_over_what_is_decided(words: set[str]) -> None:
    numbers = {"a": 1, "b": 2, "c": 3}
    tests = compile_condition(parse_tree("(a1 OR b1) -(a1 c1) c1 OR a1 -c1").tree, lambda term: numbers[term[0]], id)
    made = []

    def has(test: LiteralTest) -> bool:
        made.append(test)
        return "?abc"[test.terms[0]] in words

    a, b, c = ("abc"[n] in words for n in range(3))
    assert pass_tests(tests, has) == (((a or b) and not (a and c) and c) or (a and not c))
    assert len(made) == len(set(map(id, made))), "a test was made twice"


def test_a_query_of_ten_pairs_has_few_entries() -> None:
    query = ten_pairs(0)
    entries = parse_entries(query)
    assert len(parse(query).conjunctions) == 1024
    assert len(entries) <= MAX_ENTRIES_OF_PRODUCT


@pytest.mark.parametrize(
    ("query", "entries"),
    [
        ("storm rain", 1),
        ("storm OR rain OR wind", 3),
        ("storm (" + " OR ".join(f"w{n}" for n in range(20)) + ")", 20),
        ("(a1 OR b1) (c1 OR d1) (e1 OR f1) (g1 OR h1)", 16),
    ],
)
def test_small_queries_are_multiplied_out_as_before(query: str, entries: int) -> None:
    found = parse_entries(query)
    assert len(found) == entries
    assert all(entry.condition is None for entry in found)
    assert tuple(entry.conjunction for entry in found) == parse(query).conjunctions


def test_an_entry_is_found_by_a_word_rather_than_by_a_region_alone() -> None:
    groups = " ".join(f"(a{n} OR b{n})" for n in range(10))
    entries = parse_entries(f"within:-180,-90,180,90 {groups}")
    assert all(any(isinstance(literal, Has) for literal in entry.conjunction.required) for entry in entries)
