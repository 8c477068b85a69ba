"""Brute-force matching on posts that are small enough to check by eye."""

from __future__ import annotations

import pytest

from tidings.matching.brute_force import RawPost, evaluate, match_all
from tidings.query.parse import parse
from tidings.text.char_classes import FIELD_BREAK
from tidings.text.reference_analyzer import analyze


def matches(query: str, text: str, lat: float | None = None, lon: float | None = None) -> bool:
    return evaluate(parse(query), analyze(text), lat, lon)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("climate", "CLIMATES!"),
        ("climate", "so much #climate"),
        ("#climate", "so much #Climate"),
        ('"the white house"', "near The White House."),
        ('"the white house"', "near the #white #house"),
        ('"white house"', "white @bob house"),
        ("cat -dog", "cats only"),
        ("cat OR dog", "a dog"),
        ("café", "CAFE\u0301"),
        ("cafe", "caf&eacute;"),
        ("東京", "私は東京が好き"),
        ("straße", "STRASSE"),
        ("кошка", "КОШКА"),
        ("שלום", "שָׁלוֹם"),
        ("محمد", "مُحَمَّد"),
        ("rock&amp;roll", "roll & rock"),
        ("#東京", "#東京 に"),
    ],
)
def test_a_query_matches(query, text):
    assert matches(query, text)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("#climate", "climate"),
        ("change", "changes"),  # a stop word in Mallet's list
        ('"white house"', "house white"),
        ('"white house"', "the white big house"),
        ('"the white house"', "a white house"),
        ('"white house"', f"white{FIELD_BREAK}house"),
        ("cat -dog", "cat and dogs"),
        ("cat dog", "cat"),
        ("cat", ""),
        ("cat", "https://cat.com @cat"),
        ("東京", "京東"),
        ("東京", "東 の 京"),
    ],
)
def test_a_query_does_not_match(query, text):
    assert not matches(query, text)


def test_a_region_contains_its_borders_and_needs_a_position():
    assert matches("within:0,10,5,20", "", lat=10, lon=5)
    assert not matches("within:0,10,5,20", "", lat=5, lon=10)
    assert not matches("within:0,10,5,20", "")
    assert not matches("within:0,10,5,20", "", lat=15)
    assert not matches("within:0,10,5,20", "", lat=float("nan"), lon=2)
    assert matches("cat -within:0,10,5,20", "cat")


def test_matches_are_numbers_of_subscriptions_and_posts():
    posts = [RawPost("cat dog"), RawPost(""), RawPost("dog", 1, 1)]
    queries = [parse("cat"), parse("dog"), parse("dog within:0,0,2,2"), parse("fish")]
    assert match_all(posts, queries) == {(0, 0), (1, 0), (1, 2), (2, 2)}
    assert match_all([], queries) == match_all(posts, []) == set()
