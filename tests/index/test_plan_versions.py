"""A plan learned while an index is followed: the same matches before, meanwhile and afterwards."""

from __future__ import annotations

import threading
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.matchers import match_index

from tidings.balance.corpus import Corpus
from tidings.balance.word_registry import fit
from tidings.index.manifest import PlanRecord
from tidings.index.plan_files import word_plan
from tidings.matching.brute_force import ScanPost
from tidings.plan.words import LearnedPlan, WordPlan
from tidings.store import open_store
from tidings.stream.index_updater import Follower

MATCHERS = 3
WANTED = PlanRecord("salb+", MATCHERS, 7)
WORDS = [f"word{number}" for number in range(12)]
TEXTS = pa.array([" ".join(WORDS[n % 12 :: 1 + n % 4]) for n in range(200)], pa.large_string())
SAID = [ScanPost(" ".join(WORDS)), ScanPost("word1 word3"), ScanPost("nothing at all")]


def learn(terms, conjunctions) -> WordPlan:
    from tidings.text.vocabulary import Vocabulary

    return fit("salb+", Corpus.of_texts(TEXTS, Vocabulary.build(terms)), MATCHERS)


def switched(follower: Follower):
    """The index once what is being learned is in use."""
    follower.until_made()
    assert follower.has_learned
    return follower.refresh()


def test_it_begins_with_hashed_words_and_has_learned_ones_after_the_switch(tmp_path):
    with open_store(tmp_path) as store:
        store.subscribe_many([(word,) for word in WORDS])
        follower = Follower(store, tmp_path / "index", WANTED)
        first = follower.refresh()
        assert (first.manifest.plan.algorithm, first.manifest.plan.version) == ("hash", 1)
        assert follower.relearn(learn)
        assert not follower.relearn(learn), "one at a time"
        second = switched(follower)
        assert (second.manifest.plan.algorithm, second.manifest.plan.version) == ("salb+", 2)
        assert second.version > first.version
        assert isinstance(word_plan(second.folder, second.manifest.plan), LearnedPlan)
        assert not follower.is_learning
        assert sorted(match_index(first, SAID, 5)) == sorted(match_index(second, SAID, 5))


@settings(max_examples=5, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.lists(st.sampled_from(WORDS), max_size=3), st.integers(0, 20), st.booleans()), max_size=8
    )
)
def test_whatever_comes_and_goes_meanwhile_no_match_is_lost_or_repeated(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("relearn")
    with open_store(folder) as store:
        follower = Follower(store, folder / "index", WANTED)
        live = dict(zip(store.subscribe_many([(word,) for word in WORDS]), WORDS, strict=True))
        versions = [follower.refresh().manifest.plan.version]
        for new, gone, begins in steps:
            if begins:
                follower.relearn(learn)
            if new:
                live |= dict(zip(store.subscribe_many([(word,) for word in new]), new, strict=True))
            if gone in live:
                store.unsubscribe(gone)
                del live[gone]
            index = follower.refresh()
            versions.append(index.manifest.plan.version)
            wanted = [(n, 0) for n in live] + [(n, 1) for n, word in live.items() if word in ("word1", "word3")]
            assert sorted(match_index(index, SAID, 5)) == sorted(wanted)
        follower.until_made()
        assert versions == sorted(versions)


def test_a_second_start_and_a_forgotten_log_keep_the_plan_that_was_learned(tmp_path):
    with open_store(tmp_path) as store:
        store.subscribe_many([(word,) for word in WORDS])
        follower = Follower(store, tmp_path / "index", WANTED)
        follower.relearn(learn)
        index = switched(follower)
        again = Follower(store, tmp_path / "index", WANTED)
        assert again.index.version == index.version
        store.subscribe("word3 word4")
        store.database.run("UPDATE counter SET value = 13 WHERE name = 'forgotten'")
        rebuilt = again.refresh()
        kept, before = rebuilt.manifest.plan, index.manifest.plan
        assert replace(kept, words="") == replace(before, words="")
        assert rebuilt.manifest.subscriptions == 13
        words = [word.encode() for word in WORDS]
        old, new = (word_plan(tmp_path / "index", plan).versions_of(words) for plan in (before, kept))
        assert old.matchers.tolist() == new.matchers.tolist()


@pytest.mark.parametrize(
    "other", [PlanRecord("hash", MATCHERS, 7), replace(WANTED, matchers=2), replace(WANTED, origin="x")]
)
def test_another_wish_makes_everything_anew(tmp_path, other):
    with open_store(tmp_path) as store:
        store.subscribe_many([(word,) for word in WORDS])
        follower = Follower(store, tmp_path / "index", WANTED)
        follower.relearn(learn)
        index = switched(follower)
        changed = Follower(store, tmp_path / "index", other)
        assert changed.index.version > index.version
        assert changed.index.manifest.plan.algorithm == "hash"


def test_a_plan_that_is_given_is_used_from_the_first_version_on(tmp_path):
    with open_store(tmp_path) as store:
        store.subscribe_many([(word,) for word in WORDS])
        given_plan = learn([word.encode() for word in WORDS], None)
        follower = Follower(store, tmp_path / "index", replace(WANTED, origin="crc"), given_plan)
        assert follower.index.manifest.plan.algorithm == "salb+"
        assert follower.index.manifest.plan.words


def test_what_cannot_be_learned_leaves_the_plan_as_it_is(tmp_path):
    with open_store(tmp_path) as store:
        store.subscribe("word1")
        follower = Follower(store, tmp_path / "index", WANTED)

        def fail(terms, conjunctions):
            raise ValueError("no good")

        follower.relearn(fail)
        index = switched(follower)
        assert index.manifest.plan.version == 1
        assert "no good" in str(follower.learning_failure)
        assert follower.relearn(learn), "and it can be tried again"
        assert switched(follower).manifest.plan.version == 2


def test_a_replay_finds_the_version_it_was_begun_with_after_the_switch(tmp_path):
    with open_store(tmp_path) as store:
        store.subscribe_many([(word,) for word in WORDS])
        follower = Follower(store, tmp_path / "index", WANTED)
        pinned = follower.refresh().version
        store.begin("s", 0, pinned, 1)
        going_on = threading.Event()
        follower.relearn(lambda *asked: [going_on.wait(60), learn(*asked)][1])
        for number in range(12):
            store.subscribe(f"other{number}")
            follower.refresh()
        follower.retire()
        going_on.set()
        switched(follower)
        follower.retire()
        assert follower.version(pinned).manifest.plan.algorithm == "hash"
        assert len(match_index(follower.version(pinned), SAID, 5)) == 14
