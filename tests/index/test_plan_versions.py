"""Learn a plan while an index is updated: the matches stay the same before, during and after."""

from __future__ import annotations

import threading
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.balance.corpus import Corpus
from tidings.balance.word_registry import fit_word_plan
from tidings.index.manifest import PlanRecord
from tidings.index.plan_files import load_word_plan
from tidings.matching.brute_force import RawPost
from tidings.plan.words import LearnedPlan, WordPlan
from tidings.store import open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.testing.pipeline import match_index

MATCHERS = 3
PLAN = PlanRecord("salb+", MATCHERS, 7)
WORDS = [f"word{number}" for number in range(12)]
TEXTS = pa.array([" ".join(WORDS[n % 12 :: 1 + n % 4]) for n in range(200)], pa.large_string())
POSTS = [RawPost(" ".join(WORDS)), RawPost("word1 word3"), RawPost("nothing at all")]


def fit(terms, conjunctions) -> WordPlan:
    from tidings.text.vocabulary import Vocabulary

    return fit_word_plan("salb+", Corpus.from_texts(TEXTS, Vocabulary.build(terms)), MATCHERS)


def finish_build(updater: IndexUpdater):
    """Wait for the background build and return the index that uses it."""
    updater.wait_for_build()
    assert updater.build_is_ready
    return updater.refresh()


def test_an_index_starts_with_hashed_terms_and_switches_to_a_plan(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([(word,) for word in WORDS])
        updater = IndexUpdater(store, tmp_path / "index", PLAN)
        first = updater.refresh()
        assert (first.manifest.plan.algorithm, first.manifest.plan.version) == ("hash", 1)
        assert updater.start_refresh(fit)
        assert not updater.start_refresh(fit), "one at a time"
        second = finish_build(updater)
        assert (second.manifest.plan.algorithm, second.manifest.plan.version) == ("salb+", 2)
        assert second.version > first.version
        assert isinstance(load_word_plan(second.folder, second.manifest.plan), LearnedPlan)
        assert not updater.is_building_plan
        assert sorted(match_index(first, POSTS, 5)) == sorted(match_index(second, POSTS, 5))


@settings(max_examples=5, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.lists(st.sampled_from(WORDS), max_size=3), st.integers(0, 20), st.booleans()), max_size=8
    )
)
def test_changes_during_a_build_lose_and_repeat_no_match(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("refresh")
    with open_store(folder) as store:
        updater = IndexUpdater(store, folder / "index", PLAN)
        live = dict(zip(store.subscriptions.add_many([(word,) for word in WORDS]), WORDS, strict=True))
        versions = [updater.refresh().manifest.plan.version]
        for new, removed, starts_build in steps:
            if starts_build:
                updater.start_refresh(fit)
            if new:
                live |= dict(zip(store.subscriptions.add_many([(word,) for word in new]), new, strict=True))
            if removed in live:
                store.subscriptions.remove(removed)
                del live[removed]
            index = updater.refresh()
            versions.append(index.manifest.plan.version)
            matches = [(n, 0) for n in live] + [(n, 1) for n, word in live.items() if word in ("word1", "word3")]
            assert sorted(match_index(index, POSTS, 5)) == sorted(matches)
        updater.wait_for_build()
        assert versions == sorted(versions)


def test_a_restart_and_a_truncated_log_keep_the_learned_plan(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([(word,) for word in WORDS])
        updater = IndexUpdater(store, tmp_path / "index", PLAN)
        updater.start_refresh(fit)
        index = finish_build(updater)
        restarted = IndexUpdater(store, tmp_path / "index", PLAN)
        assert restarted.index.version == index.version
        store.subscriptions.add("word3 word4")
        store.database.execute("UPDATE counter SET value = 13 WHERE name = 'forgotten'")
        rebuilt = restarted.refresh()
        new_plan, before = rebuilt.manifest.plan, index.manifest.plan
        assert replace(new_plan, word_file="") == replace(before, word_file="")
        assert rebuilt.manifest.subscriptions == 13
        words = [word.encode() for word in WORDS]
        old, new = (load_word_plan(tmp_path / "index", plan).splits_of(words) for plan in (before, new_plan))
        assert old.matchers.tolist() == new.matchers.tolist()


@pytest.mark.parametrize(
    "other", [PlanRecord("hash", MATCHERS, 7), replace(PLAN, matchers=2), replace(PLAN, origin="x")]
)
def test_another_plan_specification_rebuilds_the_index(tmp_path, other):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([(word,) for word in WORDS])
        updater = IndexUpdater(store, tmp_path / "index", PLAN)
        updater.start_refresh(fit)
        index = finish_build(updater)
        changed = IndexUpdater(store, tmp_path / "index", other)
        assert changed.index.version > index.version
        assert changed.index.manifest.plan.algorithm == "hash"


def test_a_given_plan_is_used_from_the_first_version(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([(word,) for word in WORDS])
        given_plan = fit([word.encode() for word in WORDS], None)
        updater = IndexUpdater(store, tmp_path / "index", replace(PLAN, origin="crc"), given_plan)
        assert updater.index.manifest.plan.algorithm == "salb+"
        assert updater.index.manifest.plan.word_file


def test_a_failed_build_keeps_the_plan(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add("word1")
        updater = IndexUpdater(store, tmp_path / "index", PLAN)

        def fail(terms, conjunctions):
            raise ValueError("failed")

        updater.start_refresh(fail)
        index = finish_build(updater)
        assert index.manifest.plan.version == 1
        assert "failed" in str(updater.plan_error)
        assert updater.start_refresh(fit), "it can be tried again"
        assert finish_build(updater).manifest.plan.version == 2


def test_a_pinned_version_is_kept_after_the_switch(tmp_path):
    with open_store(tmp_path) as store:
        store.subscriptions.add_many([(word,) for word in WORDS])
        updater = IndexUpdater(store, tmp_path / "index", PLAN)
        pinned = updater.refresh().version
        store.batches.begin("s", 0, pinned, 1)
        may_finish = threading.Event()
        updater.start_refresh(lambda *arguments: [may_finish.wait(60), fit(*arguments)][1])
        for number in range(12):
            store.subscriptions.add(f"other{number}")
            updater.refresh()
        updater.delete_old_versions()
        may_finish.set()
        finish_build(updater)
        updater.delete_old_versions()
        assert updater.open_version(pinned).manifest.plan.algorithm == "hash"
        assert len(match_index(updater.open_version(pinned), POSTS, 5)) == 14
