"""What is refused, where it points to, and that it says what to do."""

from __future__ import annotations

import pickle

import pytest

from tidings.config import QueryLimits
from tidings.errors import InputError, QueryError
from tidings.query.dnf import Region
from tidings.query.parse import parse, region


def refusal(text: object, **settings: object) -> QueryError:
    with pytest.raises(QueryError) as caught:
        parse(text, **settings)  # type: ignore[arg-type]
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
        ("cat NOT", 4, "nothing behind"),
        ("cat NOT OR dog", 4, "nothing behind"),
        ("(cat -)", 5, "nothing behind"),
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
        ('"cat \u0640 dog"', 5, "no word"),
    ],
)
def test_refused_at_its_position(text, position, words):
    error = refusal(text)
    assert (error.position, words in error.reason) == (position, True), error


def test_a_refusal_is_one_sentence_that_ends_with_what_to_do():
    error = refusal("cat OR")
    assert isinstance(error, InputError)
    assert str(error) == "OR has nothing on its right; write a word there or remove the OR. (at character 5)"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("text", [None, 3, b"cat", ["cat"], float("nan")])
def test_what_is_not_text_is_refused(text):
    assert "text" in refusal(text).reason


def test_4096_characters_pass_and_one_more_is_refused():
    assert parse("cat" + " " * 4093)
    assert refusal("cat" + " " * 4094).position == 4096


def test_20_levels_pass_and_one_more_is_refused():
    assert parse("(" * 20 + "cat" + ")" * 20).depth == 20
    assert parse("(-" * 10 + "cat" + ")" * 10).depth == 20
    assert refusal("(" * 21 + "cat" + ")" * 21).position == 20
    assert refusal("dog " + "-" * 21 + "cat").position == 24
    assert "20 deep" in refusal("dog " + "NOT " * 21 + "cat").reason


def test_1024_leaves_pass_and_one_more_is_refused():
    assert parse("9 " * 1024).leaves == 1024
    assert refusal("9 " * 1025).position == 2048


def test_1024_conjunctions_pass_and_more_are_refused_before_they_are_expanded():
    group = "({0}1 OR {0}2)"
    assert len(parse(" ".join(group.format(letter) for letter in "abcdefghij")).conjunctions) == 1024
    assert refusal("x9 (" + " ".join(group.format(letter) for letter in "abcdefghijk") + ")").position == 5
    assert "1,024" in refusal("(cat OR dog)" * 300).reason


def test_a_thousand_words_times_a_thousand_choices_are_refused():
    groups = " ".join(f"({letter}1 OR {letter}2)" for letter in "abcdefghij")
    words = " ".join(f"w{number}" for number in range(1000, 1500))
    assert "131,072" in refusal(f"{groups} {words}").reason


def test_limits_can_be_set():
    assert refusal("cat dog", limits=QueryLimits(leaves=1)).position == 4
    assert refusal("cat OR dog", limits=QueryLimits(conjunctions=1))
    assert refusal("(cat)", limits=QueryLimits(depth=0))
    assert refusal("cat", limits=QueryLimits(characters=2)).position == 2


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
        ("1,4,3,2", "South"),
        ("170,-10,-170,10", "two regions joined by OR"),
    ],
)
def test_a_region_that_is_none_is_refused(sides, words):
    error = refusal(f"cat within:{sides}")
    assert (error.position, words in error.reason) == (4, True), error


def test_the_region_column_has_the_same_check():
    assert region(-180, -90, 180, 90) == Region(-180.0, -90.0, 180.0, 90.0)
    assert region(1, 2, 1, 2) == Region(1, 2, 1, 2)
    for sides in [(1, 4, 3, 2), (3, 2, 1, 4), (float("nan"), 0, 1, 1), (0, 0, 1, 91), (None, 0, 1, 1), ("x", 0, 1, 1)]:
        with pytest.raises(QueryError):
            region(*sides)  # type: ignore[arg-type]


def test_a_region_made_by_hand_is_checked_too():
    assert "two regions" in refusal("cat", region=Region(10, 0, -10, 1)).reason
