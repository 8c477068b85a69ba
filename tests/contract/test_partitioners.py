"""Every partitioner: each word, known or not, has exactly one matcher, the same one every time and everywhere."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.errors import InputError
from tidings.partition.words.plan import MAX_MATCHERS, PARTITIONERS, partitioner

every_partitioner = pytest.mark.parametrize("name", PARTITIONERS)
terms = st.lists(
    st.one_of(st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=9))
)


@every_partitioner
@settings(max_examples=60, deadline=None)
@given(terms, st.integers(1, MAX_MATCHERS))
def test_every_word_has_a_matcher_in_range(name, words, matchers):
    plan = partitioner(name, matchers)
    found = plan.matcher_of(words)
    assert plan.algorithm == name
    assert plan.matchers == matchers
    assert found.dtype == np.uint16
    assert len(found) == len(words)
    assert (found < matchers).all()


@every_partitioner
@settings(max_examples=60, deadline=None)
@given(terms, st.integers(1, MAX_MATCHERS), st.randoms(use_true_random=False))
def test_a_word_has_the_same_matcher_whatever_it_is_asked_with(name, words, matchers, chance):
    together = dict(zip(words, partitioner(name, matchers).matcher_of(words).tolist(), strict=True))
    shuffled = chance.sample(words, len(words))
    assert partitioner(name, matchers).matcher_of(shuffled).tolist() == [together[word] for word in shuffled]
    assert all(partitioner(name, matchers).matcher_of([word])[0] == together[word] for word in words)


@every_partitioner
def test_another_process_gives_the_same_matchers(name):
    words = ["cat", "東京", "#tag", ".the", ""]
    code = (
        "from tidings.partition.words.plan import partitioner\n"
        f"print(partitioner({name!r}, 37).matcher_of([w.encode() for w in {words!r}]).tolist())"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert told.stdout.strip() == str(partitioner(name, 37).matcher_of([word.encode() for word in words]).tolist())


@every_partitioner
def test_no_matcher_of_many_is_left_without_words(name):
    words = [f"word{number}".encode() for number in range(20_000)]
    loads = np.bincount(partitioner(name, 16).matcher_of(words), minlength=16)
    assert loads.min() > 0


@every_partitioner
@pytest.mark.parametrize("matchers", [0, -1, MAX_MATCHERS + 1])
def test_an_impossible_number_of_matchers_is_refused(name, matchers):
    with pytest.raises(InputError, match="number of matchers"):
        partitioner(name, matchers)


def test_an_unknown_partitioner_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match="hash"):
        partitioner("astrology", 4)
