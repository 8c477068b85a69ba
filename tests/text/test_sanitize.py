"""Sanitized text, HTML and links are harmless and keep their content."""

from __future__ import annotations

import html
import re
import unicodedata
from urllib.parse import urlsplit

import nh3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.text.reference_analyzer import analyze
from tidings.text.sanitize import (
    _BLOCKS,
    _DROPPED_ELEMENTS,
    MAX_HTML_CHARS,
    MAX_LINK_CHARS,
    PLAIN_LINK,
    clean_link,
    clean_text,
    html_to_text,
    normalize_link,
)

DIRECTIONS = [chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))]
PIECES = st.sampled_from(
    "<script> </script> <img src=x onerror=alert(1)> <a href='javascript:x'> </a> <svg/onload=x> <p> </p> <b <!-- --> "
    "<![CDATA[ ]]> &lt;script&gt; &#x6a; <style> </style> <math><mtext><table><mglyph><style> <noscript> <title> "
    "\x00 \x1f \x1b[31m \ud83d \ufffe \u202e \u2028 \r\n < > & \" ' / = <iframe/srcdoc=x> <form><input> "
    "<base href=//x>".split(" ")
)
HOSTILE = st.lists(PIECES | st.text(max_size=8), max_size=12).map("".join)
ANYTHING = st.text(st.characters(), max_size=60) | HOSTILE


@settings(deadline=None)
@given(ANYTHING)
def test_clean_text_has_no_controls_or_noncharacters(text):
    cleaned = clean_text(text)
    assert not [ch for ch in cleaned if unicodedata.category(ch) in ("Cc", "Cs") and ch not in "\n\t"]
    assert not set(cleaned) & {*DIRECTIONS, "\ufffe", "\uffff", "\u2028", "\U0001fffe"}
    assert clean_text(cleaned) == cleaned


HIDDEN = [
    chr(code)
    for first, last in (
        *((0x180B, 0x180F), (0x200B, 0x200D), (0x2060, 0x2065), (0x206A, 0x206F), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF)),
        *((0xE0000, 0xE00FF), (0xE0100, 0xE01EF)),
    )
    for code in range(first, last + 1)
]


@settings(deadline=None)
@given(
    st.text(st.characters(exclude_characters=[*DIRECTIONS, *HIDDEN]), max_size=60)
    | HOSTILE.filter(lambda s: not set(s) & {"\u202e", *HIDDEN})
)
def test_cleaning_changes_no_term(text):
    assert analyze(clean_text(text)).terms == analyze(text).terms


FAMILY = "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 🤷🏻\u200d♂\ufe0f"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
PADDED = st.lists(st.sampled_from(["storm", "Tea", "東", "#tag", " ", ", ", "नमस्ते", "سلام", "😀"]), max_size=6).map(
    "".join
)


@settings(deadline=None)
@given(PADDED, st.lists(st.tuples(st.integers(0, 40), st.sampled_from(HIDDEN)), max_size=8))
def test_hidden_characters_change_neither_terms_nor_the_cleaned_words(text, inserted):
    padded = text
    for place, character in inserted:
        padded = padded[:place] + character + padded[place:]
    assert analyze(padded).terms == analyze(clean_text(padded)).terms == analyze(text).terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s\u200bto\u200crm st\u200dorm sto\u2060rm sto\ufeffrm sto\U000e0041rm", "storm storm storm storm storm"),
        ("\ufefftitle\u200b\u200b", "title"),
        ("نمی\u200cخواهم", "نمی\u200cخواهم"),  # Persian
        ("क\u094d\u200dष ක\u0dca\u200d", "क\u094d\u200dष ක\u0dca\u200d"),  # Devanagari; Sinhala at the end of a word
        ("می\u200c\u200c\u200cخ", "می\u200cخ"),
        (FAMILY, FAMILY),
        ("👩\u200d \u200d👧", "👩 👧"),
        (f"{ENGLAND}!", f"{ENGLAND}!"),
        ("🏴\U000e0067\U000e0062 x\U000e0073\U000e0065\U000e0063\U000e007f", "🏴 x"),  # not a flag; a hidden message
        ("s\u180eto\u2065rm st\u206aorm sto\u206frm sto\U000e0080rm\U000e00ff", "storm storm storm storm"),
        ("❤\ufe0f 葛\U000e0100 ᠠ\u180b x\ufe0f", "❤\ufe0f 葛\U000e0100 ᠠ\u180b x\ufe0f"),
        ("❤\ufe0f\ufe0e 葛\U000e0100\U000e0101\U000e01ef ᠠ\u180b\u180c", "❤\ufe0f 葛\U000e0100 ᠠ\u180b"),
        ("😀\ufe0f\u200d\ufe0f\u200d\ufe0f \u06cc\ufe00\u200c\ufe00\u200c", "😀\ufe0f \u06cc\ufe00\u200c"),
        ("ไทย\u200bแลนด์ a\u200bb", "ไทย\u200bแลนด์ ab"),
    ],
)  # fmt: skip
def test_hidden_characters_stay_only_where_they_have_an_effect(text, expected):
    assert clean_text(text) == expected
    assert clean_text(expected) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a <b> & c &lt;", "a <b> & c &lt;"),  # plain text is not HTML
        ("née ☕️ 👩‍👩‍👧 שלום", "née ☕️ 👩‍👩‍👧 שלום"),
        ("one\r\ntwo\rthree\u2028four\tfive", "one\ntwo\nthree\nfour\tfive"),
        ("red \x1b[31m\x00alert", "red  [31m alert"),
        ("half \ud83d", "half \ufffd"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
    ],
)
def test_clean_text_keeps_the_content(text, expected):
    assert clean_text(text) == expected


def test_truncated_text_ends_in_an_ellipsis():
    assert clean_text("abcdef", max_chars=6) == "abcdef"
    assert clean_text("abcdefg", max_chars=6) == "abcde…"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<h1>Tea</h1><p>is&nbsp;hot</p><ul><li>one</li><li>two</li></ul>", "Tea\nis hot\none\ntwo"),
        ("a<br>b", "a\nb"),
        ("un<b>believ</b>able", "unbelievable"),
        ("1 &lt; 2 &amp;amp; <style>p{}</style>3", "1 < 2 &amp; 3"),
        ("&lt;script&gt;", "<script>"),  # the text of a page about scripts
        ("I <3 tea", "I <3 tea"),
        ("no html at all", "no html at all"),
        ("<script>alert(1)</script>tea", "tea"),
        ("<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>", ""),
        ("<iframe srcdoc='<script>x</script>'></iframe><object data=x>y</object>tea<!-- z -->", "tea"),
        ("<a href='javascript:x' onclick=x title=x>tea</a><img alt=x onerror=x>", "tea"),
        ('<p lang="en" title="<script>">tea</p><ul><li title="a>b">milk</li></ul>', "tea\nmilk"),
        ("<svg onload=x><text>x</text></svg><template>x</template><noscript>x</noscript>tea", "tea"),
    ],
)
def test_html_becomes_its_visible_text(document, expected):
    assert html_to_text(document) == expected


@settings(deadline=None)
@given(ANYTHING)
def test_text_from_html_is_clean(document):
    text = html_to_text(document)
    assert clean_text(text) == text == text.strip()


@settings(deadline=None)
@given(
    ANYTHING
    | st.lists(st.sampled_from(["<p>", "</p>", "<br>", " ", "\t", "\n", "&nbsp;", "a", "é", "&amp;", "&#1;"])).map(
        "".join
    )
)
def test_text_from_html_follows_the_definition(document):
    """Line breaks at block tags, decoded entities, single blanks, no empty lines."""
    bare = nh3.clean(
        clean_text(document), tags=set(_BLOCKS), clean_content_tags=set(_DROPPED_ELEMENTS), attributes={}, link_rel=None
    )
    text = clean_text(html.unescape(re.sub(r"</?[a-z][a-z0-9]*>", "\n", bare)))
    expected = re.sub(r" ?\n[ \n]*", "\n", re.sub(r"[ \t\xa0]+", " ", text)).strip()
    assert html_to_text(document) == expected


@settings(deadline=None)
@given(st.from_regex(PLAIN_LINK, fullmatch=True))
def test_a_link_that_takes_the_shortcut_is_clean(link):
    assert normalize_link(link) == (link if len(link) <= MAX_LINK_CHARS else None)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("https://Example.org", "https://example.org/"),
        ('  http://e.org:8080/a b?q="<é>"#f \n', "http://e.org:8080/a%20b?q=%22%3C%C3%A9%3E%22#f"),
        ("https://münchen.de/%C3%A9?a=1&b=2", "https://münchen.de/%C3%A9?a=1&b=2"),
        ("http://[2001:DB8::1]:80/", "http://[2001:db8::1]:80/"),
        ("https://good.org@evil.org/", "https://evil.org/"),
        ("https://evil.org\\@good.org/", "https://evil.org/@good.org/"),
        ("java\tscript:alert(1)", None),
        ("JAVASCRIPT://e.org/%0aalert(1)", None),
        ("data:text/html,<script>", None),
        ("file:///etc/passwd", None),
        ("//e.org/x", None),
        ("/x", None),
        ("", None),
        ("https://", None),
        ("https:e.org", None),
        ("http://[::1", None),
        ("http://e.org:99999/", None),
        ("http://e.\u202egro/", None),
        ("http://e%2eorg/", None),
        ("http://e.org/" + "x" * 5_000, None),
        ("http://e.org/" + "é" * 1_000, None),  # too long when quoted
    ],
)
def test_only_web_links_are_kept(link, expected):
    assert clean_link(link) == expected


@settings(deadline=None)
@given(ANYTHING | ANYTHING.map("http://".__add__) | ANYTHING.map("https://e.org/".__add__))
def test_cleaning_a_link_is_idempotent(link):
    cleaned = clean_link(link)
    if cleaned is not None:
        assert clean_link(cleaned) == cleaned
        assert urlsplit(cleaned).scheme in ("http", "https")
        assert not set(cleaned) & set(' "<>\\`\n\t\x00')


@pytest.mark.parametrize(
    "bomb", ["<div>", "<b>", "<a href=//x>", "&", "<", "<p><b>", "<table><td>", "</p>", "<!--", "\u202e<"]
)
def test_a_hostile_document_is_cleaned_in_bounded_time(bomb):
    document = bomb * (2 * MAX_HTML_CHARS // len(bomb))
    assert len(html_to_text(document)) <= MAX_HTML_CHARS
