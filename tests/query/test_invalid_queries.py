"""Invalid queries: the position and the remedy of each error."""

from __future__ import annotations

import pickle

import pytest

from tidings.config import QueryLimits
from tidings.errors import InputError, QueryError
from tidings.query.dnf import Rectangle
from tidings.query.geo.region import make_rectangle
from tidings.query.parse import parse


def query_error(text: object, **settings: object) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text, **settings)
    return caught.value


@pytest.mark.parametrize(
    ("text", "position", "words"),
    [
        ("", 0, "empty"),
        (" \t\n", 0, "empty"),
        ("\u200f", 0, "empty"),
        ("the", 0, "stop word"),
        ("  to be OR (not to be)", 2, "stop word"),
        ("@bob http://x.y", 0, "an @name and a link"),
        ('"to be"', 0, "phrase of stop words"),
        ("😀 !", 0, "punctuation"),
        ("-cat", 1, "without any required"),
        ("dog OR -cat", 8, "without any required"),
        ("dog OR (-cat -fish)", 9, "without any required"),
        ("-(cat dog)", 2, "without any required"),
        ("NOT the NOT cat", 12, "without any required"),
        ("-within:0,0,1,1", 1, "without any required"),
        ("cat -cat", 0, "never match"),
        ("cats -cat OR (dog -dogs)", 0, "never match"),
        ('"big cat" -"big cats"', 0, "never match"),
        ("cat OR", 4, "right"),
        ("cat OR OR dog", 4, "right"),
        ("(cat OR) dog", 5, "right"),
        ("OR cat", 0, "left"),
        ("OR", 0, "left"),
        ("dog (OR cat)", 5, "left"),
        ("cat NOT", 4, "nothing after"),
        ("cat NOT OR dog", 4, "nothing after"),
        ("(cat -)", 5, "nothing after"),
        ("cat (", 4, "never closed"),
        ("cat (dog", 4, "never closed"),
        ("(cat (dog)", 0, "never closed"),
        ("cat)", 3, "closes nothing"),
        ("cat )dog(", 4, "closes nothing"),
        (")", 0, "closes nothing"),
        ("cat ()", 4, "empty"),
        ("cat -()", 5, "empty"),
        ('cat "dog', 4, "never closed"),
        ("cat “", 4, "never closed"),
        ("cat " + "x" * 257, 4, "256 bytes"),
        ("cat " + "é" * 129, 4, "256 bytes"),
        ("cat #" + "x" * 257, 5, "256 bytes"),
        ("cat #" + "x_" * 129, 4, "hashtag"),
        ('"cat ' + "x" * 257 + '"', 5, "256 bytes"),
        ('"cat \u0640 dog"', 5, "not a word"),
    ],
)
def test_errors_have_a_position(text, position, words):
    error = query_error(text)
    assert (error.position, words in error.reason) == (position, True), error


def test_an_error_is_the_problem_and_the_remedy():
    error = query_error("cat OR")
    assert isinstance(error, InputError)
    assert str(error) == "OR has nothing on its right. Write a word there or remove the OR. (at character 5)"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("text", [None, 3, b"cat", ["cat"], float("nan")])
def test_a_query_must_be_text(text):
    assert "text" in query_error(text).reason


def test_4096_characters_are_valid_but_not_one_more():
    assert parse("cat" + " " * 4093)
    assert query_error("cat" + " " * 4094).position == 4096


def test_20_levels_are_valid_but_not_one_more():
    assert parse("(" * 20 + "cat" + ")" * 20).depth == 20
    assert parse("(-" * 10 + "cat" + ")" * 10).depth == 20
    assert query_error("(" * 21 + "cat" + ")" * 21).position == 20
    assert query_error("dog " + "-" * 21 + "cat").position == 24
    assert "20 deep" in query_error("dog " + "NOT " * 21 + "cat").reason


def test_1024_literals_are_valid_but_not_one_more():
    assert parse("9 " * 1024).literal_count == 1024
    assert query_error("9 " * 1025).position == 2048


def test_1024_conjunctions_are_valid_and_more_are_not_expanded():
    group = "({0}1 OR {0}2)"
    assert len(parse(" ".join(group.format(letter) for letter in "abcdefghij")).conjunctions) == 1024
    assert query_error("x9 (" + " ".join(group.format(letter) for letter in "abcdefghijk") + ")").position == 5
    assert "1,024" in query_error("(cat OR dog)" * 300).reason


def test_a_thousand_words_times_a_thousand_choices_are_invalid():
    groups = " ".join(f"({letter}1 OR {letter}2)" for letter in "abcdefghij")
    words = " ".join(f"w{number}" for number in range(1000, 1500))
    assert "131,072" in query_error(f"{groups} {words}").reason


def test_limits_can_be_configured():
    assert query_error("cat dog", limits=QueryLimits(literals=1)).position == 4
    assert query_error("cat OR dog", limits=QueryLimits(conjunctions=1))
    assert query_error("(cat)", limits=QueryLimits(depth=0))
    assert query_error("cat", limits=QueryLimits(characters=2)).position == 2


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        ("", "four numbers"),
        ("1,2,3", "four numbers"),
        ("1,2,3,4,5", "four numbers"),
        ("1,2,3,", "not a number"),
        ("1,2,3,x", "not a number"),
        ("1,2,3,1_0", "not a number"),
        ("nan,2,3,4", "not a number"),
        ("1,2,inf,4", "not a number"),
        ("1,2,1e999,4", "finite"),
        ("-180.1,2,3,4", "-180"),
        ("1,2,181,4", "-180"),
        ("1,-91,3,4", "-90"),
        ("1,2,3,90.5", "-90"),
        ("1,4,3,2", "south"),
    ],
)
def test_an_invalid_rectangle_is_reported_at_its_position(sides, words):
    error = query_error(f"cat within:{sides}")
    assert (error.position, words in error.reason) == (4, True), error


def test_the_region_column_is_validated():
    assert make_rectangle(-180, -90, 180, 90) == Rectangle(-180.0, -90.0, 180.0, 90.0)
    assert make_rectangle(1, 2, 1, 2) == Rectangle(1, 2, 1, 2)
    for sides in [(1, 4, 3, 2), (3, 4, 1, 2), (float("nan"), 0, 1, 1), (0, 0, 1, 91), (None, 0, 1, 1), ("x", 0, 1, 1)]:
        with pytest.raises(QueryError):
            make_rectangle(*sides)


def test_a_region_object_is_validated():
    assert "south must not be greater" in query_error("cat", region=Rectangle(10, 1, -10, 0)).reason
