"""Every partitioner: each word, known or not, has a matcher; the same ones every time, everywhere, and after saving."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.balance.corpus import Corpus
from tidings.balance.word_registry import LEARNED, PARTITIONERS, check_partitioner, fit
from tidings.errors import InputError
from tidings.plan.words import MAX_MATCHERS, WordPlan, hashed, load_plan, save_plan

every_partitioner = pytest.mark.parametrize("name", PARTITIONERS)
every_learned = pytest.mark.parametrize("name", LEARNED)
numbers_of_matchers = st.sampled_from([1, 2, 3, 16, 70, MAX_MATCHERS])
terms = st.lists(
    st.one_of(st.text(max_size=12).map(lambda text: text.encode("utf-8", "replace")), st.binary(max_size=9))
)
texts = st.lists(st.lists(st.sampled_from("cat dog fish bird rain house white tokyo".split())).map(" ".join))
KNOWN = [b"cat", b"dog", b"fish", b"bird", b"rain", b"hous", b"white", b"tokyo"]


def learned(name: str, said: list[str], matchers: int, split_hot: bool = True) -> WordPlan:
    return fit(name, Corpus.of_texts(pa.array(said, pa.string())), matchers, split_hot)


@every_partitioner
@settings(max_examples=25, deadline=None)
@given(texts, terms, numbers_of_matchers, st.booleans())
def test_every_word_has_matchers_in_range(name, said, words, matchers, split_hot):
    plan = learned(name, said, matchers, split_hot)
    found = plan.versions_of([*words, *KNOWN])
    assert (plan.algorithm, plan.matchers) == (name, matchers)
    assert found.matchers.dtype == np.uint16
    assert len(found) == len(words) + len(KNOWN)
    assert (found.counts >= 1).all()
    assert split_hot or (found.counts == 1).all()
    assert (found.matchers < matchers).all()


@every_learned
@settings(max_examples=25, deadline=None)
@given(texts, terms, numbers_of_matchers)
def test_words_it_never_met_are_hashed(name, said, words, matchers):
    unknown = [word for word in words if word not in KNOWN]
    found = learned(name, said, matchers).versions_of(unknown)
    assert (found.counts == 1).all()
    assert np.array_equal(found.matchers, hashed(unknown, matchers))


@every_partitioner
@settings(max_examples=25, deadline=None)
@given(texts, terms, numbers_of_matchers, st.randoms(use_true_random=False))
def test_a_word_has_the_same_matchers_whatever_it_is_asked_with(name, said, words, matchers, chance):
    plan, words = learned(name, said, matchers), [*words, *KNOWN]
    together = {word: each(plan, words)[row] for row, word in enumerate(words)}
    shuffled = chance.sample(words, len(words))
    assert each(plan, shuffled) == [together[word] for word in shuffled]


@every_partitioner
@settings(max_examples=20, deadline=None)
@given(texts, numbers_of_matchers)
def test_learning_again_gives_the_same_plan(name, said, matchers):
    once, again = (learned(name, said, matchers) for _ in range(2))
    assert each(once, KNOWN) == each(again, KNOWN)


@every_learned
@settings(max_examples=20, deadline=None)
@given(texts, terms, numbers_of_matchers)
def test_a_plan_comes_back_from_its_file_as_it_was(tmp_path_factory, name, said, words, matchers):
    plan, path = learned(name, said, matchers), tmp_path_factory.mktemp("plan") / "it.plan"
    save_plan(plan, path)
    again = load_plan(path)
    assert each(again, [*words, *KNOWN]) == each(plan, [*words, *KNOWN])
    assert (again.algorithm, again.matchers, again.posts) == (name, matchers, len(said))


def test_another_process_gives_the_same_matchers():
    said = ["cat dog", "cat fish", "dog bird", "rain house cat"] * 9
    code = (
        "from tests.contract.test_partitioners import *\n"
        f"print([each(learned(name, {said!r}, 5), [*KNOWN, b'unknown']) for name in PARTITIONERS])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=400)
    here = [each(learned(name, said, 5), [*KNOWN, b"unknown"]) for name in PARTITIONERS]
    assert told.stdout.strip() == str(here)


@every_partitioner
def test_no_matcher_of_many_is_left_without_words(name):
    rng = np.random.default_rng(5)
    said = [" ".join(f"w{word}" for word in rng.integers(0, 400, 6)) for _ in range(3000)]
    loads = np.bincount(learned(name, said, 16).versions_of([b"w%d" % n for n in range(400)]).matchers, minlength=16)
    assert loads.min() > 0


@every_partitioner
@pytest.mark.parametrize("matchers", [0, -1, MAX_MATCHERS + 1])
def test_an_impossible_number_of_matchers_is_refused(name, matchers):
    with pytest.raises(InputError, match="number of matchers"):
        learned(name, ["cat"], matchers)


def test_an_unknown_partitioner_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match=r"hash, salb\+"):
        check_partitioner("astrology")


def test_what_is_no_plan_is_refused_by_name(tmp_path):
    path = tmp_path / "it.plan"
    with pytest.raises(InputError, match="no such plan"):
        load_plan(path)
    for content in (b"", b"PAR1", b"x" * 999):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"it\.plan: this is not a whole plan"):
            load_plan(path)


def test_a_plan_cut_short_or_changed_is_refused(tmp_path):
    path = tmp_path / "it.plan"
    save_plan(learned("salb+", [f"w{n} w{n + 1}" for n in range(200)], 4), path)
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[: len(whole) // 2], whole[:40] + b"?" + whole[41:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="plan"):
            load_plan(path)


def test_a_parquet_file_that_is_no_plan_is_refused(tmp_path):
    pa.parquet.write_table(pa.table({"word": ["cat"]}), tmp_path / "it.plan")
    with pytest.raises(InputError, match="not a plan of this version"):
        load_plan(tmp_path / "it.plan")


def each(plan: WordPlan, words: list[bytes]) -> list[list[int]]:
    """The matchers of each word."""
    found = plan.versions_of(words)
    starts = found.starts.astype(int)
    return [found.matchers[a:b].tolist() for a, b in itertools.pairwise(starts)]
