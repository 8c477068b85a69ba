"""The compiled tag dictionary behaves like a Python dictionary."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.correlate.tag_dictionary import TagDictionary, number_by_first_occurrence
from tidings.text.vocabulary import pack_terms

words = st.lists(st.binary(max_size=6) | st.sampled_from([b"a", b"ab", b"b\nc"]), max_size=40)


@settings(max_examples=200, deadline=None)
@given(st.lists(words, max_size=4))
def test_ids_equal_those_of_a_python_dictionary(batches):
    names, known = TagDictionary(), dict[bytes, int]()
    for batch in batches:
        text, starts = pack_terms(batch)
        ids = names.assign_ids(text, starts[:-1], starts[1:])
        assert ids.tolist() == [known.setdefault(word, len(known)) for word in batch]
    assert names.names_from(0) == list(known)


def test_10000_names_are_found_again():
    names, many = TagDictionary(), [b"t%d" % number for number in range(10_000)]
    lines = b"\n".join(many)
    assert names.parse_lines(lines).tolist() == list(range(10_000))
    assert names.parse_lines(b"\n".join(many[::-1])).tolist() == list(range(10_000))[::-1]
    assert names.format_lines(np.arange(10_000, dtype=np.uint32)) == lines
    assert names.to_arrow().to_pylist() == [name.decode() for name in many]


def test_lines_are_parsed_and_formatted_also_without_names():
    names = TagDictionary()
    assert names.parse_lines(b"").tolist() == []
    assert names.parse_lines("é\na\né".encode()).tolist() == [0, 1, 0]
    assert names.format_lines(np.array([1, 0], np.uint32)) == "a\né".encode()
    assert names.format_lines(np.zeros(0, np.uint32)) == b""


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=50))
def test_order_of_first_occurrence_equals_that_of_a_python_dictionary(numbers):
    used, indices = number_by_first_occurrence(np.array(numbers, np.uint32))
    assert used.tolist() == list(dict.fromkeys(numbers))
    assert [used[index] for index in indices.tolist()] == numbers
