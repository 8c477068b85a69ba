"""The compiled tokenizer gives the terms of the reference analyzer for any text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.data import real_tweets

from tidings.text.analyzer import AnalyzedBatch, Analyzer
from tidings.text.reference_analyzer import AnalyzedText, analyze, is_tag
from tidings.text.token_cache import TokenCache
from tidings.text.vocabulary import Interner, Vocabulary

MAX_CACHE_BYTES = 40_000_000
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


def reference_terms(text: str) -> tuple[Terms, set[str]]:
    """Return the words in order with gaps, and the hashtags, of the reference analyzer."""
    analyzed: AnalyzedText = analyze(text)
    return list(analyzed.sequence), {term for term in analyzed.terms if is_tag(term)}


def terms_of_row(batch: AnalyzedBatch, row: int, terms: Sequence[bytes]) -> tuple[Terms, Terms]:
    """Return the words in order with gaps, and the hashtags, of a row."""
    start, end = batch.bounds[row].tolist()
    numbers = batch.terms[start:end].tolist()
    found = [terms[number - 1].decode() if number else None for number in numbers]
    first_tag = next((at for at, term in enumerate(found) if term and is_tag(term)), len(found))
    assert not [term for term in found[first_tag:] if term and not is_tag(term)], "tags come after the words"
    if 0 < first_tag < len(found) and None in found:
        assert found[first_tag - 1] is None, "a gap separates words and tags"
    return found[:first_tag], [term for term in found[first_tag:] if term]


def normalize_gaps(words: Terms) -> Terms:
    """Drop repeated gaps and gaps at both ends, which have no meaning."""
    normalized = [term for term, run in groupby(words) for term in ([None] if term is None else run)]
    while normalized and normalized[0] is None:
        del normalized[0]
    while normalized and normalized[-1] is None:
        del normalized[-1]
    return normalized


def check(row_texts: Sequence[str], analyzer: Analyzer, terms: Interner, column_type: pa.DataType, gaps: bool) -> None:
    batch = analyzer.analyze(pa.array([text.encode() for text in row_texts], pa.binary()).cast(column_type))
    assert len(batch) == len(row_texts)
    known = terms.terms()
    for row, text in enumerate(row_texts):
        words, tags = terms_of_row(batch, row, known)
        expected_words, expected_tags = reference_terms(text)
        if gaps:
            assert normalize_gaps(words) == normalize_gaps(expected_words), repr(text)
        else:
            assert words == [term for term in expected_words if term is not None], repr(text)
        assert set(tags) == expected_tags, repr(text)


@pytest.mark.parametrize("gaps", [True, False], ids=["with gaps", "without gaps"])
@settings(max_examples=500, deadline=None)
@given(
    row_texts=st.lists(texts, max_size=8), column_type=st.sampled_from([pa.string(), pa.large_string(), pa.binary()])
)
@example(row_texts=["http://x.y/?a&eacute;b"], column_type=pa.string())
@example(row_texts=["http://x.y/&lt;cat&gt;"], column_type=pa.string())
@example(row_texts=["http://x.y/?a=1&b=cat caf&eacute;"], column_type=pa.string())
@example(row_texts=["http://x.y/?a=1&amp;b=cat caf&eacute;"], column_type=pa.string())
@example(row_texts=["", "", ""], column_type=pa.string())
def test_any_text_gives_the_terms_of_the_reference(gaps, row_texts, column_type):
    terms = Interner()
    check(row_texts, Analyzer(terms, keep_gaps=gaps), terms, column_type, gaps)


@settings(max_examples=150, deadline=None)
@given(batches=st.lists(st.lists(texts, max_size=4), max_size=5))
def test_earlier_batches_do_not_change_the_terms(batches):
    terms = Interner()
    analyzer = Analyzer(terms, keep_gaps=True)
    for batch_texts in batches * 2:
        check(batch_texts, analyzer, terms, pa.string(), gaps=True)


@settings(max_examples=100, deadline=None)
@given(row_texts=st.lists(pieces, min_size=1, max_size=5), keep=st.randoms(use_true_random=False))
def test_words_without_subscription_are_gaps(row_texts, keep):
    every = sorted({term for text in row_texts for term in [*analyze(text).sequence, *analyze(text).terms] if term})
    subscribed = [term for term in every if keep.random() < 0.5]
    vocabulary = Vocabulary.build([term.encode() for term in subscribed])
    batch = Analyzer(vocabulary, keep_gaps=True).analyze(pa.array(row_texts, pa.string()))
    for row, text in enumerate(row_texts):
        words, tags = terms_of_row(batch, row, vocabulary.terms())
        expected_words, expected_tags = reference_terms(text)
        known = [term if term in subscribed else None for term in expected_words]
        assert normalize_gaps(words) == normalize_gaps(known)
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
def test_a_row_that_is_not_utf8_has_no_terms_and_affects_no_other(rows, gaps):
    terms = Interner()
    batch = Analyzer(terms, keep_gaps=gaps).analyze(pa.array(rows, pa.binary()))
    for row, content in enumerate(rows):
        words, tags = terms_of_row(batch, row, terms.terms())
        try:
            expected_words, expected_tags = reference_terms(content.decode("utf-8"))
        except UnicodeDecodeError:
            expected_words, expected_tags = [], set()
        assert [word for word in words if word] == [word for word in expected_words if word], content
        assert set(tags) == expected_tags, content


def test_the_token_cache_grows_with_new_words():
    terms = Interner()
    analyzer = Analyzer(terms, keep_gaps=True)
    for batch in range(3):
        rows = [" ".join(f"w{batch}x{row}y{word} #t{row}z{word}" for word in range(1500)) for row in range(20)]
        check([*rows, "cats and dogs"], analyzer, terms, pa.string(), gaps=True)
    assert len(terms) > 3 * 20 * 1500 + 20 * 1500


@pytest.mark.parametrize("max_tokens", [1, 100, 40_000])
def test_the_token_cache_is_cleared_at_its_limit(max_tokens):
    terms = Interner()
    analyzer = Analyzer(terms, keep_gaps=True, token_cache=TokenCache(max_tokens))
    for batch in range(4):
        rows = [" ".join(f"v{batch}x{row}y{word}" for word in range(1200)) for row in range(12)]
        check([*rows, "cats &eacute; dogs #tag"], analyzer, terms, pa.string(), gaps=True)


def test_an_enormous_row_fits_into_the_token_cache():
    terms = Interner()
    analyzer = Analyzer(terms, keep_gaps=True, token_cache=TokenCache(10))
    enormous = " ".join(f"e{number}" for number in range(150_000))
    check(["cat", enormous, "dog"], analyzer, terms, pa.string(), gaps=True)
    check(["#a " * 100_000 + "cat", "#" * 300_000, "東" * 100_000], analyzer, terms, pa.string(), gaps=True)


class NoTerms:
    """A dictionary without terms: the cache is the only thing that grows."""

    def find(self, terms):
        return np.zeros(len(terms.starts) - 1, np.uint32)


@pytest.mark.parametrize("length", [1, 200])
def test_the_token_cache_stays_small_when_every_word_is_new(length):
    analyzer = Analyzer(NoTerms())
    sizes_bytes = []
    for batch in range(40):
        rows = [" ".join(f"{'w' * length}{batch}x{row}y{word}" for word in range(100)) for row in range(100)]
        analyzer.analyze(pa.array(rows))
        sizes_bytes.append(analyzer.token_cache.nbytes)
    assert max(sizes_bytes) < MAX_CACHE_BYTES
    assert max(sizes_bytes[20:]) <= max(sizes_bytes[:20])


def test_a_long_row_enlarges_the_token_cache_only_while_it_is_read():
    analyzer = Analyzer(NoTerms())
    analyzer.analyze(pa.array(["a " * 500_000]))
    assert analyzer.token_cache.nbytes < MAX_CACHE_BYTES


@pytest.mark.parametrize("letter", ["a", "é", "東", "𐐀", "a\u0301"])
@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("form", ["{}", "#{}", "b {} c", "b #{} c", "#{}_", "{}'s", "{}://x", "@{} cat"])
def test_a_token_has_at_most_256_bytes(letter, extra, form):
    size = len(letter.encode())
    for filler in range(4):
        word = letter * (256 // size - 1 + extra) + "x" * filler
        terms = Interner()
        check([form.format(word), form.format(word + letter)], Analyzer(terms, True), terms, pa.string(), gaps=True)


def test_null_sliced_and_chunked_columns_are_read_correctly():
    terms = Interner()
    column = pa.array(["zebra", None, "cats caf&eacute;", "", "dogs"], pa.string())
    analyzer = Analyzer(terms)
    batch = analyzer.analyze(column)
    assert [terms_of_row(batch, row, terms.terms())[0] for row in range(5)] == [
        ["zebra"],
        [],
        ["cat", "cafe"],
        [],
        ["dog"],
    ]
    sliced = analyzer.analyze(column.slice(2, 2))
    assert [terms_of_row(sliced, row, terms.terms())[0] for row in range(2)] == [["cat", "cafe"], []]
    chunked = analyzer.analyze(pa.chunked_array([column.slice(0, 1), column.slice(4, 1)]))
    assert [terms_of_row(chunked, row, terms.terms())[0] for row in range(2)] == [["zebra"], ["dog"]]
    assert len(analyzer.analyze(pa.array([], pa.string()))) == 0
    assert len(analyzer.analyze(column.slice(0, 0))) == 0


@pytest.mark.real_data
def test_real_tweets_give_the_terms_of_the_reference():
    terms = Interner()
    analyzer = Analyzer(terms, keep_gaps=True)
    tweets = real_tweets(6000)
    for start in range(0, len(tweets), 2000):
        check(tweets[start : start + 2000], analyzer, terms, pa.string(), gaps=True)
