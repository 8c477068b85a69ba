"""Any text is a query or a QueryError within 50 ms, and the DNF is equivalent to the tree."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import QueryError
from tidings.matching.brute_force import evaluate
from tidings.query.dnf import Query
from tidings.query.parse import parse, parse_tree
from tidings.testing.oracles import evaluate_tree
from tidings.text.reference_analyzer import analyze

WORDS = ["cat", "dog", "fish", "bird"]
BOXES = [(0.0, 0.0, 10.0, 10.0), (5.0, -5.0, 20.0, 5.0)]
SEMANTIC = ("nothing to search for", "without any required", "never match", "combinations", "deep")

words = st.sampled_from([*WORDS, "the"])
atoms = st.one_of(
    st.tuples(st.just("word"), words),
    st.tuples(st.just("tag"), st.sampled_from(WORDS)),
    st.tuples(st.just("phrase"), st.lists(words, min_size=1, max_size=3)),
    st.tuples(st.just("within"), st.sampled_from(BOXES)),
)
trees = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("and"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("or"), st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=12,
)
Post = tuple[list[str], tuple[float, float] | None]
posts = st.tuples(
    st.lists(st.sampled_from([*WORDS, "the", *("#" + word for word in WORDS)]), max_size=8),
    st.none() | st.tuples(st.sampled_from([-7.0, 0.0, 3.0, 5.0, 10.0]), st.sampled_from([0.0, 7.0, 10.0, 20.0, 30.0])),
)


def attempt(text: str) -> Query | QueryError:
    try:
        return parse(text)
    except QueryError as error:
        return error


def render(tree: Any, minus: bool) -> str:
    kind, value = tree
    if kind in ("and", "or"):
        return "(" + {"and": " ", "or": " OR "}[kind].join(render(child, minus) for child in value) + ")"
    if kind == "not":
        return ("-" if minus else "NOT ") + render(value, minus)
    if kind == "phrase":
        return '"' + " ".join(value) + '"'
    return (
        {"word": "{}", "tag": "#{}"}[kind].format(value) if kind != "within" else "within:" + ",".join(map(str, value))
    )


def meaning(tree: Any, post: Post) -> bool | None:
    """Evaluate the generated tree directly; None for ignored parts."""
    kind, value = tree
    tokens, position = post
    plain = [word.removeprefix("#") for word in tokens]
    if kind == "word":
        return None if value == "the" else value in plain
    if kind == "tag":
        return "#" + value in tokens
    if kind == "phrase":
        if set(value) == {"the"}:
            return None
        return any(plain[at : at + len(value)] == value for at in range(len(plain)))
    if kind == "within":
        west, south, east, north = value
        return position is not None and south <= position[0] <= north and west <= position[1] <= east
    if kind == "not":
        answer = meaning(value, post)
        return None if answer is None else not answer
    answers = [answer for answer in (meaning(child, post) for child in value) if answer is not None]
    return None if not answers else (all if kind == "and" else any)(answers)


@settings(max_examples=300, deadline=None)
@given(trees, st.lists(posts, min_size=1, max_size=6), st.booleans())
def test_a_rendered_tree_evaluates_like_the_tree(tree, some_posts, minus):
    text = render(tree, minus)
    query = attempt(text)
    if isinstance(query, QueryError):
        assert any(reason in query.reason for reason in SEMANTIC), query  # never a syntax error
        return
    typed = parse_tree(text).tree
    for post in some_posts:
        lat, lon = post[1] or (None, None)
        cleaned = analyze(" ".join(post[0]))
        expected = meaning(tree, post)
        assert evaluate(query, cleaned, lat, lon) == expected
        assert evaluate_tree(typed, cleaned, lat, lon) == expected


@settings(max_examples=200, deadline=None)
@given(trees)
def test_conjunctions_require_something_without_contradiction(tree):
    query = attempt(render(tree, minus=True))
    if isinstance(query, QueryError):
        return
    assert all(found.required and not found.required & found.forbidden for found in query.conjunctions)
    assert len(set(query.conjunctions)) == len(query.conjunctions)


def check_any(text: str) -> None:
    query = attempt(text)
    if isinstance(query, QueryError):
        assert 0 <= query.position <= len(text)
        assert query.reason.endswith(".")
    else:
        assert isinstance(query, Query)
        assert query.conjunctions
        assert all(0 <= piece.start <= piece.end <= len(text) for piece in query.ignored)


@settings(max_examples=400, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_query_or_an_error(text):
    check_any(text)


SYLLABLES = [
    "(",
    ")",
    '"',
    "“",
    "-",
    "#",
    " ",
    " ",
    "OR",
    "NOT",
    " OR ",
    " NOT ",
    "within:",
    "1,2,3,4",
    ",",
    "cat",
    "the",
]
ODD = [
    "@",
    "'",
    "_",
    "&amp;",
    "&",
    "http://",
    "www.",
    ".",
    "東",
    "京",
    "é",
    "\u0301",
    "\u200d",
    "\u200b",
    "\x1f",
    "\x00",
    "😀",
    "\ud800",
]


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(SYLLABLES + ODD), max_size=40).map("".join))
def test_any_mixture_of_the_grammar_is_a_query_or_an_error(text):
    check_any(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(SYLLABLES + ODD), max_size=25).map("".join), st.lists(posts, min_size=1, max_size=4))
def test_the_dnf_is_equivalent_to_the_tree(text, some_posts):
    query = attempt(text)
    if isinstance(query, QueryError):
        return
    typed = parse_tree(text).tree
    for tokens, position in some_posts:
        lat, lon = position or (None, None)
        for cleaned in (analyze(" ".join(tokens)), analyze(text)):
            assert evaluate(query, cleaned, lat, lon) == evaluate_tree(typed, cleaned, lat, lon)


HAN = [chr(0x4E00 + number) for number in range(4096)]
GROUPS = [f"({HAN[3000 + 2 * n]} OR {HAN[3001 + 2 * n]})" for n in range(10)]
NASTY = {
    "a thousand words times a thousand choices": " ".join(GROUPS + HAN[:1000]),
    "as many literals as pass": " ".join(GROUPS + HAN[:115]),
    "as many forbidden literals as pass": "x9 " + " ".join(GROUPS) + " -" + " -".join(HAN[:115]),
    "long alternatives": " ".join(
        f"({' '.join(HAN[n : n + 12])} OR {' '.join(HAN[n + 12 : n + 24])})" for n in range(0, 240, 24)
    ),
    "few long choices": " ".join(GROUPS[:6] + HAN[:1000]),
    "choices next to choices": f"({' '.join(GROUPS[:9] + HAN[:240])}) OR " + " OR ".join(HAN[600:1100]),
    "many alternatives": " OR ".join(HAN[:680]),
    "a forbidden group": f"x9 -({' '.join(HAN[:1020])})",
    "one long run": "".join(HAN),
    "one long phrase": '"' + "".join(HAN[:4094]) + '"',
    "letters that unfold to eighteen": ("#" + "\ufdfa" * 85 + " ") * 47,
    "hyphens": "-" * 4095 + "x",
    "open parentheses": "(" * 4096,
    "stop words": "a " * 2048,
    "entities": "&lt " * 1024,
    "hashes": "#" * 4096,
    "hashes and underscores": "#_" * 2048,
    "quotes": '"' * 4095,
    "dashes": "-- " * 1365,
    "accents": "e" + "\u0301" * 4095,
    "absorbed": " OR ".join(f"({' '.join(HAN[n : n + 10])})" for n in range(0, 640, 10)),
    "too many choices": "(cat OR dog)" * 340,
    "contradictions": " ".join(f"(x{n} -x{n})" for n in range(300)),
}


PLAIN = " ".join(f"word{number}" for number in range(600))  # 6 ms


@pytest.mark.parametrize("name", NASTY)
def test_no_query_takes_eight_times_as_long_as_plain_words_of_its_length(name):
    assert _seconds(NASTY[name][:4096]) < 8 * _seconds(PLAIN[:4096])


def _seconds(text: str) -> float:
    """Return the shortest of some CPU times of this process, because the machine is shared."""
    return min(_seconds_once(text) for _ in range(5))


def _seconds_once(text: str) -> float:
    begin = time.process_time()
    check_any(text)
    return time.process_time() - begin
