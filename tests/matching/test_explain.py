"""`explain` shows how a query is parsed and why a text matches."""

from __future__ import annotations

import json

import pytest

from tidings.errors import QueryError
from tidings.matching.explain import explain
from tidings.query.dnf import Rectangle

QUERY = 'climate AND (#Paris OR "the White House") -hoax @bob'


def test_it_shows_the_dnf_in_typed_order_with_the_anchors():
    explanation = explain(QUERY)
    assert [(found.text, found.anchor) for found in explanation.conjunctions] == [
        ("climat #paris -hoax", "climat"),
        ('climat "the white hous" -hoax', "climat"),
    ]


def test_the_anchor_is_the_rarest_term_if_rarity_is_given():
    found = explain(QUERY, rarity=lambda term: {"climat": 1.0, "hous": 3.0}.get(term, 0.0))
    assert [conjunction.anchor for conjunction in found.conjunctions] == ["climat", "hous"]


def test_a_stop_word_of_a_phrase_is_never_the_anchor():
    assert explain('"nevertheless cats"').conjunctions[0].anchor == "cat"


def test_the_anchor_of_a_region_alone_is_the_region():
    region = Rectangle(-0.51, 51.28, 0.33, 51.7)
    (only,) = explain("", region).conjunctions
    assert (only.text, only.anchor) == ("within:-0.51,51.28,0.33,51.7", "its region")


def test_it_lists_ignored_parts_and_used_limits():
    explanation = explain(QUERY)
    assert [(i.piece, i.start, i.reason) for i in explanation.ignored] == [
        ("AND", 8, "a stop word"),
        ("@bob", 48, "an @name"),
    ]
    assert explanation.limits == {
        "characters": (52, 4096),
        "depth": (1, 20),
        "literals": (4, 1024),
        "conjunctions": (2, 1024),
    }


def test_it_shows_literal_by_literal_why_a_text_matches():
    explanation = explain(QUERY, post_text="Climates &amp; the white house")
    first, second = explanation.conjunctions
    assert (explanation.is_match, first.is_match, second.is_match) == (True, False, True)
    assert [(literal.literal, literal.is_satisfied, literal.found) for literal in first.literals] == [
        ("climat", True, "Climates"),
        ("#paris", False, None),
        ("hoax", True, None),
    ]
    assert [(literal.found, literal.start, literal.end) for literal in second.literals][1] == (
        "the white house",
        11,
        26,
    )


def test_a_forbidden_word_that_occurs_is_shown():
    (only,) = explain("cat -dog", post_text="Cats and dogs").conjunctions
    assert [(literal.is_forbidden, literal.is_satisfied, literal.found) for literal in only.literals] == [
        (False, True, "Cats"),
        (True, False, "dogs"),
    ]


def test_a_region_is_explained_by_the_position():
    inside = explain("within:0,0,10,10", post_text="", lat=1, lon=2)
    assert (inside.is_match, inside.conjunctions[0].literals[0].found) == (True, "latitude 1, longitude 2")
    assert "no  within:0,0,10,10: no position" in explain("within:0,0,10,10", post_text="").render()


def test_it_renders_as_plain_text():
    assert explain("cats -dog the", post_text="my cat").lines() == [
        "Matches a post when any of these is true:",
        "  1. cat -dog   (anchor: cat)",
        "Ignored, because it has no effect:",
        "  the   (character 11: a stop word)",
        "Limits used: characters 13 of 4,096, depth 1 of 20, literals 2 of 1,024, conjunctions 1 of 1,024.",
        "Cost: 1 (a plain word costs 1).",
        "The text matches:",
        "  1. true",
        "     yes cat: “cat” at character 4",
        "     yes -dog: not in the text",
    ]


def test_it_can_be_written_as_json():
    explanation = explain(QUERY, post_text="climate")
    plain = json.loads(json.dumps(explanation.to_dict()))
    assert plain["is_match"] is False
    assert plain["limits"]["literals"] == [4, 1024]
    assert plain["conjunctions"][0]["literals"][0]["found"] == "climate"


def test_an_invalid_query_raises_an_error():
    with pytest.raises(QueryError):
        explain("-cat")
