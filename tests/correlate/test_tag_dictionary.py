"""Names as numbers: the compiled table tells what a dictionary would."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.correlate.tag_dictionary import Names, by_first_occurrence
from tidings.text.vocabulary import packed_terms

words = st.lists(st.binary(max_size=6) | st.sampled_from([b"a", b"ab", b"b\nc"]), max_size=40)


@settings(max_examples=200, deadline=None)
@given(st.lists(words, max_size=4))
def test_names_are_numbered_as_a_dictionary_numbers_them(batches):
    names, known = Names(), dict[bytes, int]()
    for batch in batches:
        text, starts = packed_terms(batch)
        found = names.numbers(text, starts[:-1], starts[1:])
        assert found.tolist() == [known.setdefault(word, len(known)) for word in batch]
    assert names.since(0) == list(known)


def test_ten_thousand_names_are_found_again():
    names, many = Names(), [b"t%d" % number for number in range(10_000)]
    lines = b"\n".join(many)
    assert names.of_lines(lines).tolist() == list(range(10_000))
    assert names.of_lines(b"\n".join(many[::-1])).tolist() == list(range(10_000))[::-1]
    assert names.lines(np.arange(10_000, dtype=np.uint32)) == lines
    assert names.column().to_pylist() == [name.decode() for name in many]


def test_lines_are_names_and_no_lines_none():
    names = Names()
    assert names.of_lines(b"").tolist() == []
    assert names.of_lines("é\na\né".encode()).tolist() == [0, 1, 0]
    assert names.lines(np.array([1, 0], np.uint32)) == "a\né".encode()
    assert names.lines(np.zeros(0, np.uint32)) == b""


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=50))
def test_the_order_of_first_occurrence_is_that_of_a_dictionary(numbers):
    used, places = by_first_occurrence(np.array(numbers, np.uint32))
    assert used.tolist() == list(dict.fromkeys(numbers))
    assert [used[place] for place in places.tolist()] == numbers
