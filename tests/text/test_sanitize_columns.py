"""Columns are cleaned like their single values."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data import real_tweets

from tidings.text.sanitize import MAX_LINK_CHARS, clean_link, clean_text, normalize_link
from tidings.text.sanitize_columns import clean_links, clean_texts

ANYTHING = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ODD = st.sampled_from(
    [chr(code) for code in (0, 8, 9, 10, 11, 13, 27, 31, 127, 128, 0x9F, 0xA0, 0x2027, 0x2028, 0x202A, 0x202E, 0x202F)]
    + [chr(code) for code in (0x200A, 0x200B, 0x200C, 0x200D, 0x200E, 0x205F, 0x2060, 0x2064, 0xFEFE, 0xFEFF, 0xFF00)]
    + [chr(code) for code in (0x180A, 0x180B, 0x180E, 0x180F, 0x1810, 0x206F, 0x2070, 0xFDFF, 0xFE00, 0xFE0F, 0xFE10)]
    + [chr(code) for code in (0xE00FF, 0xE0100, 0xE01EF, 0xE01FF, 0xE0200, 0x1EC7, 0x1FFF)]
    + [chr(code) for code in (0xDFFFF, 0xE0000, 0xE0041, 0xE007F, 0xE0080, 0x1F3F4, 0x1F600, 0x0633)]
    + [
        chr(code)
        for code in (0x2065, 0x2066, 0x2069, 0x206A, 0xFDCF, 0xFDD0, 0xFDEF, 0xFFFD, 0xFFFE, 0x1FFFF, 0x10FFFE)
    ]
)
TEXTS = st.lists(st.none() | ANYTHING | st.builds("".join, st.lists(ANYTHING | ODD, max_size=5)), max_size=8)
PIECES = st.sampled_from(
    'https:// http:// e.org E.org : :80 :080 :99999 / // /a ? ?x=1 # #f % \\ @ [ ] é < " . -'.split()
)
LINKS = st.lists(st.none() | ANYTHING | st.builds("".join, st.lists(PIECES, max_size=7)), max_size=8)


def column(values: list[str | None]) -> pa.ChunkedArray:
    """Return a column of two chunks."""
    middle = len(values) // 2
    return pa.chunked_array([values[:middle], values[middle:]], pa.string())


@settings(deadline=None)
@given(TEXTS)
def test_a_column_of_texts_is_cleaned_like_its_values(texts):
    assert clean_texts(column(texts)).to_pylist() == [None if text is None else clean_text(text) for text in texts]


@settings(deadline=None)
@given(LINKS)
def test_a_column_of_links_is_cleaned_like_its_values(links):
    assert clean_links(column(links)).to_pylist() == [None if link is None else normalize_link(link) for link in links]


@pytest.mark.parametrize(
    "link", ["https://e.org/" + "x" * MAX_LINK_CHARS, "https://e.org/a?", "https://e.org/a?#f", "http://e.org:0/"]
)
def test_a_link_that_just_misses_the_shortcut_is_cleaned(link):
    assert clean_links(column([link])).to_pylist() == [clean_link(link)]


@pytest.mark.real_data
def test_real_posts_are_cleaned_like_single_texts():
    texts = real_tweets(20_000)
    assert clean_texts(column(texts)).to_pylist() == [clean_text(text) for text in texts]
