"""The compiled cleaner gives what `clean.py` defines, for any text whatever."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.data import real_tweets

from tidings.text.analyzer import AnalyzedBatch, Analyzer
from tidings.text.reference_analyzer import AnalyzedText, analyze, is_tag
from tidings.text.vocabulary import Interner, Vocabulary

Terms = list[str | None]

PIECES = [
    *"#@&;:/.'’＇_-\"<>|=?! \t\n",
    *"aBzZ019",
    *["http", "https", "HTTPS", "://", "http://", "https://x.y/", "www.", "WWW.a", "t.co/Ab1", "ttp", "xhttps://q"],
    *[
        "&amp;",
        "&lt;",
        "&gt;",
        "&eacute;",
        "&#39;",
        "&#x27;",
        "&#35;",
        "&#64;",
        "&amp",
        "&foo;",
        "&;",
        "&#;",
        "&#xD800;",
    ],
    *["&amp;amp;", "&nbsp;", "&#0;", "&#128;", "&#1114112;", "&NotEqualTilde;", "&CounterClockwiseContourIntegral;"],
    *[
        "cat",
        "Cats",
        "running",
        "the",
        "THE",
        "don't",
        "it’s",
        "o'",
        "café",
        "CAFE\u0301",
        "e\u0301",
        "ß",
        "İ",
        "I\u0307",
    ],
    *["東", "京", "ひ", "カ", "ｶ", "ﾞ", "ก", "ำ", "ကျ", "ភ", "한국", "ไทย", "〇", "𠀀"],
    *["שָׁלוֹם", "مُحَمَّد", "ـ", "हिन्दी", "кошка", "Ελλάς", "ﬁ", "Ⅷ", "²", "½", "ﷺ", "١٢", "K", "Å", "ª"],
    *[
        "😀",
        "👩‍💻",
        "🇳🇱",
        "❤️",
        "\u200b",
        "\u200d",
        "\u00ad",
        "\u202e",
        "\ufeff",
        "\ufe0f",
        "\u20dd",
        "\u0301",
        "\u0338",
    ],
    *[
        "\x00",
        "\x1f",
        "\x7f",
        "\u2028",
        "\ufffd",
        "\uffff",
        "\U0010ffff",
        "\U000e0100",
        "＃",
        "＠",
        "#tag",
        "#tag_two",
        "@name",
    ],
]
pieces = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
unicode_text = st.text(max_size=60)
ascii_text = st.text(st.characters(max_codepoint=127), max_size=60)
texts = st.one_of(pieces, unicode_text, ascii_text, st.tuples(pieces, unicode_text).map("".join))


def as_defined(text: str) -> tuple[Terms, set[str]]:
    """(the words in order with gaps, the hashtags) by definition."""
    cleaned: AnalyzedText = analyze(text)
    return list(cleaned.sequence), {term for term in cleaned.terms if is_tag(term)}


def as_received(received: AnalyzedBatch, row: int, terms: Sequence[bytes]) -> tuple[Terms, Terms]:
    """(the words in order with gaps, the hashtags) as the compiled cleaner tells them."""
    start, end = received.bounds[row].tolist()
    numbers = received.terms[start:end].tolist()
    found = [terms[number - 1].decode() if number else None for number in numbers]
    first_tag = next((at for at, term in enumerate(found) if term and is_tag(term)), len(found))
    assert not [term for term in found[first_tag:] if term and not is_tag(term)], "tags come after the words"
    if 0 < first_tag < len(found) and None in found:
        assert found[first_tag - 1] is None, "a gap parts the words from the tags"
    return found[:first_tag], [term for term in found[first_tag:] if term]


def without_needless_gaps(words: Terms) -> Terms:
    """A gap counts between words only, and once."""
    alone = [term for term, run in groupby(words) for term in ([None] if term is None else run)]
    while alone and alone[0] is None:
        del alone[0]
    while alone and alone[-1] is None:
        del alone[-1]
    return alone


def check(some_texts: Sequence[str], receiver: Analyzer, terms: Interner, column_type: pa.DataType, gaps: bool) -> None:
    received = receiver.analyze(pa.array([text.encode() for text in some_texts], pa.binary()).cast(column_type))
    assert len(received) == len(some_texts)
    known = terms.terms()
    for row, text in enumerate(some_texts):
        words, tags = as_received(received, row, known)
        expected_words, expected_tags = as_defined(text)
        if gaps:
            assert without_needless_gaps(words) == without_needless_gaps(expected_words), repr(text)
        else:
            assert words == [term for term in expected_words if term is not None], repr(text)
        assert set(tags) == expected_tags, repr(text)


@pytest.mark.parametrize("gaps", [True, False], ids=["with gaps", "without gaps"])
@settings(max_examples=500, deadline=None)
@given(
    some_texts=st.lists(texts, max_size=8), column_type=st.sampled_from([pa.string(), pa.large_string(), pa.binary()])
)
@example(some_texts=["http://x.y/?a&eacute;b"], column_type=pa.string())
@example(some_texts=["http://x.y/&lt;cat&gt;"], column_type=pa.string())
@example(some_texts=["http://x.y/?a=1&b=cat caf&eacute;"], column_type=pa.string())
@example(some_texts=["http://x.y/?a=1&amp;b=cat caf&eacute;"], column_type=pa.string())
@example(some_texts=["", "", ""], column_type=pa.string())
def test_any_text_is_cleaned_as_defined(gaps, some_texts, column_type):
    terms = Interner()
    check(some_texts, Analyzer(terms, keep_gaps=gaps), terms, column_type, gaps)


@settings(max_examples=150, deadline=None)
@given(batches=st.lists(st.lists(texts, max_size=4), max_size=5))
def test_a_receiver_that_has_seen_other_batches_cleans_as_a_new_one(batches):
    terms = Interner()
    receiver = Analyzer(terms, keep_gaps=True)
    for batch in batches * 2:
        check(batch, receiver, terms, pa.string(), gaps=True)


@settings(max_examples=100, deadline=None)
@given(some_texts=st.lists(pieces, min_size=1, max_size=5), keep=st.randoms(use_true_random=False))
def test_words_nobody_subscribed_to_are_gaps(some_texts, keep):
    every = sorted({term for text in some_texts for term in [*analyze(text).sequence, *analyze(text).terms] if term})
    subscribed = [term for term in every if keep.random() < 0.5]
    vocabulary = Vocabulary.build([term.encode() for term in subscribed])
    received = Analyzer(vocabulary, keep_gaps=True).analyze(pa.array(some_texts, pa.string()))
    for row, text in enumerate(some_texts):
        words, tags = as_received(received, row, vocabulary.terms())
        expected_words, expected_tags = as_defined(text)
        known = [term if term in subscribed else None for term in expected_words]
        assert without_needless_gaps(words) == without_needless_gaps(known)
        assert set(tags) == expected_tags & set(subscribed)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(
        st.one_of(
            st.binary(max_size=30),
            texts.map(str.encode),
            st.tuples(pieces, st.binary(min_size=1, max_size=3), pieces).map(
                lambda parts: parts[0].encode() + parts[1] + parts[2].encode()
            ),
            st.tuples(pieces, st.integers(1, 3)).map(lambda cut: cut[0].encode()[: -cut[1]]),
        ),
        max_size=6,
    ),
    gaps=st.booleans(),
)
@example(rows=[b"cat \xed\xa0\x80 dog", b"cat"], gaps=True)  # a surrogate
@example(rows=[b"cat \xc0\xaf dog", b"\xf4\x90\x80\x80cat", b"\xe2\x82", b"cat\xff"], gaps=True)
@example(rows=[b"cat &eacute; \xff dog", b"&#39;\x80"], gaps=False)
@example(rows=[b"http://x.y/\xff cat"], gaps=False)
def test_a_row_that_is_not_utf8_has_no_terms_and_harms_no_other(rows, gaps):
    terms = Interner()
    received = Analyzer(terms, keep_gaps=gaps).analyze(pa.array(rows, pa.binary()))
    for row, content in enumerate(rows):
        words, tags = as_received(received, row, terms.terms())
        try:
            expected_words, expected_tags = as_defined(content.decode("utf-8"))
        except UnicodeDecodeError:
            expected_words, expected_tags = [], set()
        assert [word for word in words if word] == [word for word in expected_words if word], content
        assert set(tags) == expected_tags, content


def test_the_lexicon_grows_with_endless_new_words():
    terms = Interner()
    receiver = Analyzer(terms, keep_gaps=True)
    for batch in range(3):
        rows = [" ".join(f"w{batch}x{row}y{word} #t{row}z{word}" for word in range(1500)) for row in range(20)]
        check([*rows, "cats and dogs"], receiver, terms, pa.string(), gaps=True)
    assert len(terms) > 3 * 20 * 1500 + 20 * 1500


@pytest.mark.parametrize("max_entries", [1, 100, 40_000])
def test_the_lexicon_starts_anew_once_its_bound_is_reached(max_entries):
    terms = Interner()
    receiver = Analyzer(terms, keep_gaps=True, max_entries=max_entries)
    for batch in range(4):
        rows = [" ".join(f"v{batch}x{row}y{word}" for word in range(1200)) for row in range(12)]
        check([*rows, "cats &eacute; dogs #tag"], receiver, terms, pa.string(), gaps=True)


def test_one_enormous_row_fits_whatever_the_lexicon_held():
    terms = Interner()
    receiver = Analyzer(terms, keep_gaps=True, max_entries=10)
    enormous = " ".join(f"e{number}" for number in range(150_000))
    check(["cat", enormous, "dog"], receiver, terms, pa.string(), gaps=True)
    check(["#a " * 100_000 + "cat", "#" * 300_000, "東" * 100_000], receiver, terms, pa.string(), gaps=True)


@pytest.mark.parametrize("letter", ["a", "é", "東", "𐐀", "a\u0301"])
@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("form", ["{}", "#{}", "b {} c", "b #{} c", "#{}_", "{}'s", "{}://x", "@{} cat"])
def test_a_token_has_at_most_256_bytes(letter, extra, form):
    size = len(letter.encode())
    for filler in range(4):
        word = letter * (256 // size - 1 + extra) + "x" * filler
        terms = Interner()
        check([form.format(word), form.format(word + letter)], Analyzer(terms, True), terms, pa.string(), gaps=True)


def test_null_and_sliced_and_chunked_columns_are_read_right():
    terms = Interner()
    column = pa.array(["zebra", None, "cats caf&eacute;", "", "dogs"], pa.string())
    receiver = Analyzer(terms)
    received = receiver.analyze(column)
    assert [as_received(received, row, terms.terms())[0] for row in range(5)] == [
        ["zebra"],
        [],
        ["cat", "cafe"],
        [],
        ["dog"],
    ]
    sliced = receiver.analyze(column.slice(2, 2))
    assert [as_received(sliced, row, terms.terms())[0] for row in range(2)] == [["cat", "cafe"], []]
    chunked = receiver.analyze(pa.chunked_array([column.slice(0, 1), column.slice(4, 1)]))
    assert [as_received(chunked, row, terms.terms())[0] for row in range(2)] == [["zebra"], ["dog"]]
    assert len(receiver.analyze(pa.array([], pa.string()))) == 0
    assert len(receiver.analyze(column.slice(0, 0))) == 0


def test_real_tweets_are_cleaned_as_defined():
    terms = Interner()
    receiver = Analyzer(terms, keep_gaps=True)
    tweets = real_tweets(6000)
    for start in range(0, len(tweets), 2000):
        check(tweets[start : start + 2000], receiver, terms, pa.string(), gaps=True)
