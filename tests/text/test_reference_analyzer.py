"""The rules of text analysis, each with an example."""

from __future__ import annotations

import pytest

from tidings.text.char_classes import FIELD_BREAK
from tidings.text.reference_analyzer import analyze, decode_entities, tag_term, tokenize, word_term


def sequence(text: str) -> list[str | None]:
    return list(analyze(text).sequence)


def terms(text: str) -> set[str]:
    return set(analyze(text).terms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Running CATS", ["run", "cat"]),
        ("cat,dog;fish/bird", ["cat", "dog", "fish", "bird"]),
        ("the cat", [".the", "cat"]),
        ("42 3.5 2024-01-02", ["42", "3", "5", "2024", "01", "02"]),
        ("b2b 4k", ["b2b", "4k"]),
        # links
        ("see https://t.co/x?a=b#c now", [".see", ".now"]),
        ("newshttps://t.co/x", ["new"]),
        ("HTTP://EXAMPLE.COM cat", ["cat"]),
        ("www.example.com/cat dog", ["dog"]),
        ("(http://a.b/c) cat", ["cat"]),
        ('<a href="http://a.b/c">cat</a>', [".a", "href", "cat", ".a"]),
        ("ftp://cat.org", ["ftp", "cat", "org"]),
        ("http:cat", ["http", "cat"]),
        ("wwww.cat", ["wwww", "cat"]),
        ("http://a.b/東京", ["東", "京"]),  # a link is ASCII
        # names
        ("@bob_1 cat", ["cat"]),
        ("@bob: hi", [".hi"]),
        ("bob@cat.org", ["bob", "cat", "org"]),
        ("＠bob cat", ["cat"]),
        ("@", []),
        # apostrophes
        ("don't", ["dont"]),
        ("it’s Bob's", [".its", "bob"]),
        ("'cat' dogs' rock'n'roll", ["cat", "dog", "rocknrol"]),
        # invisible characters
        ("ca\u00adt ca\u200dt ca\ufeffts", ["cat", "cat", "cat"]),
        ("ca\u200bt c\u2060at ca\U000e0041ts", ["cat", "cat", "cat"]),
        ("cat_dog", ["cat", "dog"]),
        ("cat😀dog ❤️ 👩‍👩‍👧", ["cat", "dog"]),
        ("cat\x00dog", ["cat", "dog"]),
    ],
)
def test_words_are_in_order(text, expected):
    assert sequence(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("café cafe\u0301 CAFÉ cafe", ["cafe"] * 4),
        ("Straße STRASSE", ["strass"] * 2),
        ("İstanbul istanbul", ["istanbul"] * 2),
        ("ｃａｔ", ["cat"]),
        ("ﬁsh ²", ["fish"]),
        ("Łódź", ["łodz"]),
        ("Москва МОСКВА", ["москва"] * 2),
        ("й и", ["й", "и"]),
        ("ΑΘΉΝΑ αθήνα", ["αθήνα"] * 2),
        ("שָׁלוֹם שלום", ["שלום"] * 2),
        ("مُحَمَّد محمد محـمد", ["محمد"] * 3),
        ("हिन्दी", ["हिन्दी"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("ｶﾞｷﾞ ガギ", ["ガ", "ギ", "ガ", "ギ"]),
        ("ภาษา", ["ภ", "า", "ษ", "า"]),
        ("น้ำ", ["น้", "ํา"]),
        ("한국어 뉴스", ["한국어", "뉴스"]),
        ("東京tower", ["東", "京", "tower"]),
        ("٤٢ 42", ["٤٢", "42"]),
    ],
)
def test_all_scripts_are_supported(text, expected):
    assert sequence(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#Cats", {"#cats", "cat"}),
        ("#the", {"#the"}),
        ("#climate_change", {"#climate_change", "climat", "chang"}),
        ("#Café", {"#cafe", "cafe"}),
        ("＃cat", {"#cat", "cat"}),
        ("#東京", {"#東京", "東", "京"}),
        ("#cat's", {"#cat", "cat"}),
        ("c3#sharp", {"c3", "sharp"}),
        ("#a1#b2", {"#a1", "a1", "b2"}),
        ("##cat", {"#cat", "cat"}),
        ("#", set()),
        ("#___", set()),
        ("# cat", {"cat"}),
        ("&#35;cat", {"#cat", "cat"}),
    ],
)
def test_a_hashtag_has_its_own_term_and_its_words(text, expected):
    assert terms(text) == expected


def test_stop_words_are_in_the_sequence_only():
    assert (sequence("to be a cat"), terms("to be a cat")) == ([".to", ".be", ".a", "cat"], {"cat"})


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("caf&eacute;", "café"),
        ("&#39;&#x27;&apos;", "'''"),
        ("&amp;amp;", "&amp;"),  # once: a text encoded twice is decoded once
        ("&amp", "&amp"),  # not well-formed
        ("AT&T; &nosuch;", "AT&T; &nosuch;"),
        ("&lt;b&gt;", "<b>"),
        ("cat & dog", "cat & dog"),
    ],
)
def test_entities_are_decoded_once(text, decoded):
    assert decode_entities(text) == decoded


def test_a_doubly_encoded_entity_leaves_its_name_as_a_word():
    assert sequence("rock &amp;amp; roll") == ["rock", "amp", "roll"]


def test_a_token_of_256_bytes_is_a_word_and_a_longer_one_a_gap():
    assert sequence("cat " + "é" * 128 + " dog") == ["cat", "e" * 128, "dog"]
    assert sequence("cat " + "é" * 129 + " dog") == ["cat", None, "dog"]
    assert terms("cat " + "x" * 300) == {"cat"}
    assert tag_term("x" * 257) is None
    assert word_term("x" * 257) is None


def test_a_sign_without_a_letter_is_a_gap():
    assert sequence("cat \u0640 dog") == ["cat", None, "dog"]


def test_a_field_break_is_a_gap():
    assert sequence(f"cat{FIELD_BREAK}dog") == ["cat", None, "dog"]


def test_tokens_have_their_offsets():
    assert [(token.start, token.end, token.term) for token in tokenize("The #Cat's 東")] == [
        (0, 3, ".the"),
        (4, 8, "#cat"),
        (5, 10, "cat"),
        (11, 12, "東"),
    ]


def test_a_lone_surrogate_separates_words():
    assert sequence("cat\ud800dog") == ["cat", "dog"]
