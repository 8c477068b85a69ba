"""Word partitioners satisfy the contract; plans are the same in other processes; damaged files are rejected."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.word_registry import WORD_PARTITIONERS, check_partitioner, fit_word_plan
from tidings.errors import InputError
from tidings.plan.hot_splits import HotSplits
from tidings.plan.words import HashPlan, WordPlan, hash_to_matchers, read_word_plan, write_word_plan
from tidings.testing.contract import SAMPLE_TERMS, build_corpus, check_word_partitioner, list_matchers

TEXTS = ["cat dog", "cat fish", "dog bird", "rain house cat"] * 90


def fit_texts(name: str, texts: list[str], matchers: int) -> WordPlan:
    return fit_word_plan(name, build_corpus(texts), matchers)


@pytest.mark.parametrize("name", WORD_PARTITIONERS)
@pytest.mark.parametrize("split_hot", [True, False])
def test_a_word_partitioner_satisfies_the_contract(name, split_hot):
    check_word_partitioner(partial(fit_word_plan, name, split_hot=split_hot))


@pytest.mark.parametrize("name", WORD_PARTITIONERS)
def test_a_plan_has_the_name_of_its_algorithm_and_splits_terms_only_on_request(name):
    plan = fit_word_plan(name, build_corpus(TEXTS), 5, split_hot=False)
    assert plan.algorithm == name
    assert (plan.splits_of(SAMPLE_TERMS).counts == 1).all()


def test_hash_splits_hot_terms_if_there_are_posts():
    corpus = build_corpus(["cat"] * 100 + [f"w{n} x{n}" for n in range(50)])
    plan = fit_word_plan("hash", corpus, 8)
    (cat, other), hashed = list_matchers(plan, [b"cat", b"w1"]), hash_to_matchers([b"cat", b"w1"], 8).tolist()
    assert cat[0] == hashed[0]
    assert len(cat) == len(set(cat)) == 8
    assert other == hashed[1:]
    assert list_matchers(fit_word_plan("hash", build_corpus([]), 8), [b"cat", b"w1"]) == [[n] for n in hashed]
    assert list_matchers(fit_word_plan("hash", corpus, 8, split_hot=False), [b"cat"]) == [hashed[:1]]


def test_another_process_gives_the_same_plans():
    code = (
        "from tests.contract.test_word_partitioners import *\n"
        "print([list_matchers(fit_texts(name, TEXTS, 5), [*SAMPLE_TERMS, b'unknown']) for name in WORD_PARTITIONERS])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=400)
    plans = [fit_texts(name, TEXTS, 5) for name in WORD_PARTITIONERS]
    assert result.stdout.strip() == str([list_matchers(plan, [*SAMPLE_TERMS, b"unknown"]) for plan in plans])


class CountingPlan(HashPlan):
    """Gives a term another matcher in every call."""

    calls = 0

    def splits_of(self, terms):
        self.calls += 1
        return HotSplits.unsplit(np.full(len(terms), self.calls % self.matchers, np.uint16))


class OutOfRangePlan(HashPlan):
    def splits_of(self, terms):
        return HotSplits.unsplit(np.full(len(terms), self.matchers, np.uint16))


@pytest.mark.parametrize(("plan", "problem"), [(CountingPlan, "matchers"), (OutOfRangePlan, "out of range")])
def test_the_shipped_check_rejects_a_wrong_partitioner(plan, problem):
    with pytest.raises(AssertionError, match=problem):
        check_word_partitioner(lambda corpus, matchers: plan(matchers), max_examples=10)


def test_an_unknown_partitioner_is_an_error_that_lists_the_known_ones():
    with pytest.raises(InputError, match=r"hash, salb\+"):
        check_partitioner("astrology")


def test_a_file_that_is_not_a_plan_is_rejected_by_name(tmp_path):
    path = tmp_path / "it.plan"
    with pytest.raises(InputError, match="no such plan"):
        read_word_plan(path)
    for content in (b"", b"PAR1", b"x" * 999):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"it\.plan: not a plan, or damaged"):
            read_word_plan(path)


def test_a_truncated_or_changed_plan_is_rejected(tmp_path):
    path = tmp_path / "it.plan"
    write_word_plan(fit_texts("salb+", [f"w{n} w{n + 1}" for n in range(200)], 4), path)
    content = path.read_bytes()
    for damaged in (content[:-9], content[: len(content) // 2], content[:40] + b"?" + content[41:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="plan"):
            read_word_plan(path)


def test_a_parquet_file_that_is_not_a_plan_is_rejected(tmp_path):
    pa.parquet.write_table(pa.table({"word": ["cat"]}), tmp_path / "it.plan")
    with pytest.raises(InputError, match="not a plan of format"):
        read_word_plan(tmp_path / "it.plan")
