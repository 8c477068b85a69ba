"""JSON is validated row by row, like the JSON parser and the models do it at once, but with bounded work."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from tidings.errors import InputError
from tidings.testing.http_load import empty_lists, unknown_keys
from tidings.web.json_rows import MAX_PARTS, parse_list, parse_object
from tidings.web.schemas import NewPost, QueryIn

SIZE_BYTES = 8 << 20
MAX_ROWS = 1_000
WHOLE_LIST = TypeAdapter(list[NewPost])
TEXT = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(['"', "\\", '\\"', "],[", "}{", ","])
POSTS = st.fixed_dictionaries({"text": TEXT}, optional={"id": TEXT | st.integers(), "tags": st.lists(TEXT, max_size=3)})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.builds(
    lambda value, indent, is_ascii: json.dumps(value, indent=indent, ensure_ascii=is_ascii).encode(),
    st.lists(POSTS | VALUES, max_size=4),
    st.sampled_from([None, 1]),
    st.booleans(),
)
DAMAGE = st.sampled_from([b"", b'"', b"\\", b"[", b"]", b"{", b"}", b",", b" ", b"\xff", b"null"])


def parse_whole(document):
    try:
        return WHOLE_LIST.validate_json(document)
    except ValidationError:
        return None


def parse_by_row(document):
    try:
        return parse_list(document, NewPost, MAX_ROWS)
    except InputError:
        return None


@given(document=DOCUMENTS, damage=DAMAGE, data=st.data())
def test_rows_are_accepted_like_the_whole_document(document, damage, data):
    cut = data.draw(st.integers(1, len(document)))
    skip = data.draw(st.integers(0, 2))
    for candidate in (document, document[:cut] + damage + document[cut + skip :], b" " + document + b"\n"):
        assert parse_by_row(candidate) == parse_whole(candidate)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b"", "The request body is empty"),
        (b"  ", "The request body is empty"),
        (b'{"query":"a"},{"query":"b"}', "The request body is not valid JSON"),
        (b'{"query":"a"}],[{"query":"b"}', "The request body is not valid JSON"),
        (b'{"query":"a"', "The request body is not valid JSON"),
        (b'{"query":"a', "The request body is not valid JSON"),
        (b"[]", "object"),
        (b"null", "object"),
        (b"{}", "query: Field required"),
        (b'{"query":"a","more":1}', "more: Extra inputs are not permitted"),
        (b'{"query":"a","region":[1,2,3,"x"]}', r"region: must be a valid number.* \(item 4\)"),
        (b'{"query":"\xff"}', "JSON"),
        (b"[" * 10_000, "too many values"),
        (b'{"query":' + b"[" * (MAX_PARTS - 10), "not valid JSON"),
    ],
)
def test_an_invalid_object_is_rejected_with_the_field(document, problem):
    with pytest.raises(InputError, match=problem):
        parse_object(document, QueryIn)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (empty_lists(SIZE_BYTES), r"object.*\(row 1\)"),
        (b"[" + unknown_keys(SIZE_BYTES) + b"]", r"too many values \(row 1\)"),
        (b'[{"tags":[' + b"1," * (SIZE_BYTES // 2), r"too many values \(row 1\)"),
        (b"[" + b'{"text":"a"},' * (SIZE_BYTES // 13), "more than 1,000 rows"),
        (b'[{"text":"' + rb"\"" * (SIZE_BYTES // 2), r"not valid JSON \(row 1\)"),
        (b'[{"text":"' + rb"\u" * (SIZE_BYTES // 2) + b'"}]', r"JSON.*\(row 1\)"),
        (b"[" + b"1" * SIZE_BYTES + b"]", r"\(row 1\)"),
        (b"[" + b" " * SIZE_BYTES, r"not valid JSON \(row 1\)"),
        (b"[" * SIZE_BYTES, r"too many values \(row 1\)"),
        (b'[{"text":"a"},' + b"[{},{}]," * 999 + empty_lists(SIZE_BYTES - 10_000) + b"]", r"object.*\(row 2\)"),
    ],
    ids=["lists", "keys", "numbers", "rows", "quotes", "escapes", "digits", "blanks", "depth", "late"],
)
def test_hostile_documents_cost_little_time_and_memory(document, problem):
    tracemalloc.start()
    started = time.thread_time()
    try:
        with pytest.raises(InputError, match=problem):
            parse_list(document, NewPost, MAX_ROWS)
        assert tracemalloc.get_traced_memory()[1] < 3 * SIZE_BYTES  # built as values: 400 MB
    finally:
        tracemalloc.stop()
    assert time.thread_time() - started < 1.0  # built as values: 2.6 to 5.6 s


@pytest.mark.parametrize("row", [b",", b"1,"], ids=["empty rows", "numbers"])
def test_work_on_an_object_ends_at_a_second_row(row):
    document = row * (SIZE_BYTES // len(row))
    tracemalloc.start()
    started = time.thread_time()
    try:
        with pytest.raises(InputError, match="The request body is not valid JSON"):
            parse_object(document, NewPost)
        assert tracemalloc.get_traced_memory()[1] < 3 * SIZE_BYTES  # all rows: 43 and 79 MB
    finally:
        tracemalloc.stop()
    assert time.thread_time() - started < 0.5  # all rows: 1.8 s


def test_the_largest_valid_list_is_accepted():
    post = {
        "text": "é" * 1_000,
        "tags": ["a,b]"] * 100,
        "title": "t",
        "link": "l",
        "author": "a",
        "lang": "en",
        "lat": 1,
    }
    document = json.dumps([post] * MAX_ROWS).encode()
    assert len(parse_list(document, NewPost, MAX_ROWS)) == MAX_ROWS
