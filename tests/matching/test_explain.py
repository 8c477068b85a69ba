"""What `explain` tells."""

from __future__ import annotations

import json

import pytest

from tidings.errors import QueryError
from tidings.matching.explain import explain
from tidings.query.dnf import Region

QUERY = 'climate AND (#Paris OR "the White House") -hoax @bob'


def test_it_shows_the_normal_form_in_typed_order_and_the_word_each_is_found_by():
    explanation = explain(QUERY)
    assert [(found.text, found.found_by) for found in explanation.conjunctions] == [
        ("climat #paris -hoax", "climat"),
        ('climat "the white hous" -hoax', "climat"),
    ]


def test_the_rarest_word_finds_where_rarity_is_known():
    found = explain(QUERY, rarity=lambda term: {"climat": 1.0, "hous": 3.0}.get(term, 0.0))
    assert [conjunction.found_by for conjunction in found.conjunctions] == ["climat", "hous"]


def test_a_stop_word_of_a_phrase_never_finds():
    assert explain('"nevertheless cats"').conjunctions[0].found_by == "cat"


def test_a_region_alone_is_found_by_its_region():
    here = Region(-0.51, 51.28, 0.33, 51.7)
    (only,) = explain("", here).conjunctions
    assert (only.text, only.found_by) == ("within:-0.51,51.28,0.33,51.7", "its region")


def test_it_lists_what_was_ignored_and_the_limits_used():
    explanation = explain(QUERY)
    assert [(i.piece, i.start, i.reason) for i in explanation.ignored] == [
        ("AND", 8, "a stop word"),
        ("@bob", 48, "an @name"),
    ]
    assert explanation.limits == {
        "characters": (52, 4096),
        "depth": (1, 20),
        "leaves": (4, 1024),
        "conjunctions": (2, 1024),
    }


def test_it_says_word_by_word_why_a_text_matches():
    explanation = explain(QUERY, post_text="Climates &amp; the white house")
    first, second = explanation.conjunctions
    assert (explanation.is_match, first.is_match, second.is_match) == (True, False, True)
    assert [(one.literal, one.is_satisfied, one.found) for one in first.literals] == [
        ("climat", True, "Climates"),
        ("#paris", False, None),
        ("hoax", True, None),
    ]
    assert [(one.found, one.start, one.end) for one in second.literals][1] == ("the white house", 11, 26)


def test_a_forbidden_word_that_occurs_is_named():
    (only,) = explain("cat -dog", post_text="Cats and dogs").conjunctions
    assert [(one.is_forbidden, one.is_satisfied, one.found) for one in only.literals] == [
        (False, True, "Cats"),
        (True, False, "dogs"),
    ]


def test_a_region_is_explained_by_the_position():
    inside = explain("within:0,0,10,10", post_text="", lat=1, lon=2)
    assert (inside.is_match, inside.conjunctions[0].literals[0].found) == (True, "latitude 1, longitude 2")
    assert "no  within:0,0,10,10: no position" in explain("within:0,0,10,10", post_text="").render()


def test_it_renders_as_plain_text():
    assert explain("cats -dog the", post_text="my cat").lines() == [
        "Matches a post when any of these holds:",
        "  1. cat -dog   (found by cat)",
        "Ignored, for it says nothing:",
        "  the   (character 11: a stop word)",
        "Limits used: characters 13 of 4,096, depth 1 of 20, leaves 2 of 1,024, conjunctions 1 of 1,024.",
        "The text matches:",
        "  1. holds",
        "     yes cat: “cat” at character 4",
        "     yes -dog: not in the text",
    ]


def test_it_goes_through_json():
    explanation = explain(QUERY, post_text="climate")
    plain = json.loads(json.dumps(explanation.to_dict()))
    assert plain["is_match"] is False
    assert plain["limits"]["leaves"] == [4, 1024]
    assert plain["conjunctions"][0]["literals"][0]["found"] == "climate"


def test_a_refused_query_is_refused():
    with pytest.raises(QueryError):
        explain("-cat")
