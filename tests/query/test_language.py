"""The rules of the query language, each with the expected DNF."""

from __future__ import annotations

import pytest

from tidings.query.dnf import Conjunction, Has, IgnoredText, Literal, Phrase, Rectangle
from tidings.query.parse import parse


def has(*terms: str) -> frozenset[Literal]:
    return frozenset(Has(term) for term in terms)


def forms(text: str) -> tuple[Conjunction, ...]:
    return parse(text).conjunctions


def ignored_parts(text: str) -> list[tuple[str, str]]:
    return [(text[piece.start : piece.end], piece.reason) for piece in parse(text).ignored]


def test_words_must_all_occur_and_are_stemmed():
    assert forms("Climate warming") == (Conjunction(has("climat", "warm")),)


def test_or_binds_weaker_than_a_space():
    assert forms("cat dog OR fish") == (Conjunction(has("cat", "dog")), Conjunction(has("fish")))


def test_parentheses_group():
    assert forms("cat (dog OR fish)") == (Conjunction(has("cat", "dog")), Conjunction(has("cat", "fish")))


def test_parentheses_and_quotes_need_no_spaces_around_them():
    assert forms('cat(dog OR fish)"big bird"') == (
        Conjunction(has("cat", "dog") | {Phrase(("big", "bird"))}),
        Conjunction(has("cat", "fish") | {Phrase(("big", "bird"))}),
    )


@pytest.mark.parametrize("text", ["cat -dog", "cat NOT dog", "-dog cat", "cat NOT NOT NOT dog", "cat ---dog"])
def test_a_hyphen_or_not_forbids_what_follows(text):
    assert forms(text) == (Conjunction(has("cat"), has("dog")),)


@pytest.mark.parametrize("text", ["NOT NOT cat", "--cat", "-NOT cat", "-(-cat)", "((cat))"])
def test_two_negations_cancel(text):
    assert forms(text) == (Conjunction(has("cat")),)


def test_a_negated_group_turns_or_into_and():
    assert forms("cat -(dog OR fish)") == (Conjunction(has("cat"), has("dog", "fish")),)


def test_a_negated_group_turns_and_into_or():
    assert forms("cat -(dog fish)") == (Conjunction(has("cat"), has("dog")), Conjunction(has("cat"), has("fish")))


def test_a_negation_applies_to_one_atom_only():
    assert forms("NOT cat dog") == (Conjunction(has("dog"), has("cat")),)
    assert forms('fish -"big cat" -#dog') == (Conjunction(has("fish"), has("#dog") | {Phrase(("big", "cat"))}),)


@pytest.mark.parametrize("text", ["cats or dogs", "cats Or dogs", "cats AND dogs", "cats and dogs", 'cats "OR" dogs'])
def test_only_a_bare_upper_case_or_is_an_operator(text):
    assert forms(text) == (Conjunction(has("cat", "dog")),)


def test_and_is_reported_as_ignored():
    assert ignored_parts("cats AND dogs") == [("AND", "a stop word")]


def test_a_hyphen_inside_a_word_joins_its_words():
    assert forms("covid-19") == (Conjunction(has("covid", "19")),)
    assert forms("flu -covid-19") == (Conjunction(has("flu"), has("covid")), Conjunction(has("flu"), has("19")))


def test_a_hashtag_is_not_stemmed_and_not_its_words():
    assert forms("#Cats") == (Conjunction(has("#cats")),)
    assert forms("#climate_change") == (Conjunction(has("#climate_change")),)
    assert forms("#rock'n") == (Conjunction(has("#rock")),)


def test_a_hashtag_of_a_stop_word_counts():
    assert forms("#the") == (Conjunction(has("#the")),)


def test_a_word_after_a_hashtag_still_counts():
    assert forms("#cat#dog") == (Conjunction(has("#cat", "dog")),)
    assert forms("c3#sharp") == (Conjunction(has("c3", "sharp")),)


def test_a_phrase_keeps_its_stop_words_marked():
    assert forms('"The White House"') == (Conjunction(frozenset({Phrase((".the", "white", "hous"))})),)


@pytest.mark.parametrize(
    "text", ["“big cats”", "„big cats“", '"big\tcats"', '"big @bob cats!"', '"#big #cats"', '"big\x1fcats"']
)
def test_phrases_with_other_quotes_names_and_tags(text):
    assert forms(text) == (Conjunction(frozenset({Phrase(("big", "cat"))})),)


def test_a_phrase_of_one_word_is_that_word():
    assert forms('"Cats"') == (Conjunction(has("cat")),)


def test_operators_inside_a_phrase_are_words():
    assert forms('"cat OR -dog"') == (Conjunction(frozenset({Phrase(("cat", ".or", "dog"))})),)


@pytest.mark.parametrize(
    "text", ["the OR cat", "cat the", "cat -the", "cat NOT the", "(the) cat", '"to be or" OR cat', "cat - !"]
)
def test_ignored_parts_are_dropped_from_their_parent(text):
    assert forms(text) == (Conjunction(has("cat")),)


@pytest.mark.parametrize(
    ("text", "piece", "reason"),
    [
        ("cat the", "the", "a stop word"),
        ("cat @bob", "@bob", "an @name"),
        ("cat https://t.co/x?y=1", "https://t.co/x?y=1", "a link"),
        ("cat WWW.example.com", "WWW.example.com", "a link"),
        ("newshttps://t.co/x", "https://t.co/x", "a link"),
        ("cat - dog", "-", "punctuation or a symbol"),
        ("cat -- dog", "--", "punctuation or a symbol"),
        ("cat & dog", "&", "punctuation or a symbol"),
        ("cat 😀", "😀", "punctuation or a symbol"),
        ('cat "to be"', '"to be"', "a phrase of stop words only"),
        ('cat ""', '""', "a phrase without words"),
        ('"cat @bob dog"', "@bob", "an @name"),
        ("up-cat", "up", "a stop word"),
        ("cat #", "#", "punctuation or a symbol"),
    ],
)
def test_ignored_parts_are_listed_with_their_reason(text, piece, reason):
    assert ignored_parts(text) == [(piece, reason)]


def test_punctuation_around_a_word_is_not_listed():
    assert ignored_parts("(cat!), 'dog'") == [(",", "punctuation or a symbol")]


def test_with_an_entity_the_position_is_the_whole_word():
    assert parse("cat a&amp;b").ignored == (IgnoredText(4, 11, "a stop word"), IgnoredText(4, 11, "a stop word"))


def test_duplicates_are_removed():
    assert forms("cat cats CAT OR cat") == (Conjunction(has("cat")),)


def test_a_conjunction_that_contains_another_is_absorbed():
    assert forms("cat dog OR cat OR cat -fish") == (Conjunction(has("cat")),)


def test_a_contradictory_conjunction_is_dropped():
    assert forms("(cat -cat) OR dog") == (Conjunction(has("dog")),)


def test_conjunctions_keep_the_order_they_were_typed_in():
    assert forms("zebra OR ape OR (cat OR dog) bird") == tuple(
        Conjunction(has(*terms)) for terms in (["zebra"], ["ap"], ["cat", "bird"], ["dog", "bird"])
    )


def test_a_region_is_a_literal():
    here = Rectangle(-10.5, -20, 10, 20)
    assert forms("cat within:-10.5,-20,10,2e1") == (Conjunction(has("cat") | {here}),)
    assert forms("cat -WITHIN:-10.5,-20,10,20") == (Conjunction(has("cat"), frozenset({here})),)
    assert forms("within:-10.5,-20,+10,20.") == (Conjunction(frozenset({here})),)


def test_the_region_of_a_subscription_is_required_in_every_conjunction():
    here = Rectangle(0, 0, 1, 1)
    assert parse("cat OR dog", here).conjunctions == tuple(Conjunction(has(term) | {here}) for term in ("cat", "dog"))
    assert parse("-cat", here).conjunctions == (Conjunction(frozenset({here}), has("cat")),)


@pytest.mark.parametrize("text", ["", "  \n", "the", "@bob"])
def test_a_region_alone_is_a_query(text):
    here = Rectangle(0, 0, 1, 1)
    assert parse(text, here).conjunctions == (Conjunction(frozenset({here})),)


def test_literals_and_depth_are_counted_as_typed():
    query = parse("cat cat covid-19 (dog OR -(the fish))")
    assert (query.literal_count, query.depth) == (6, 3)


def test_control_characters_separate():
    assert forms("cat\x00dog\x1fOR\x7ffish") == forms("cat dog OR fish")


def test_invisible_characters_do_not_hide_an_operator():
    assert forms("\ufeffcat \u200fOR\u200f \u200e-(-dog)") == forms("cat OR dog")
    assert forms("cat \u200f-dog -\u200f") == forms("cat -dog")
