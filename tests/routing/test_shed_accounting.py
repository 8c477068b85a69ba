"""Shed anchors are attributed to the owners of the subscriptions they would have matched."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.balance.corpus import Corpus
from tidings.balance.word_registry import fit_word_plan
from tidings.index.manifest import PlanRecord
from tidings.routing.router import Router
from tidings.routing.shed import ShedDecision
from tidings.routing.shed_accounting import ShedAccounting
from tidings.store import open_store
from tidings.stream.index_updater import IndexUpdater
from tidings.text.vocabulary import Vocabulary

WORDS = [f"w{number}" for number in range(9)]
posts_of_words = st.lists(st.lists(st.sampled_from([*WORDS, "other"]), max_size=8), min_size=1, max_size=15)


def _fit_hot(terms, conjunctions):
    """Fit a plan in which the first word is hot and has several splits."""
    texts = pa.array(["w0"] * 300 + [" ".join(WORDS)] * 20, pa.large_string())
    return fit_word_plan("salb+", Corpus.from_texts(texts, Vocabulary.build(terms)), 8)


@pytest.fixture(scope="module", params=["hash", "split"])
def stream(request, tmp_path_factory):
    """An index of single words of three owners, after changes, and with `split` after a new plan."""
    folder = tmp_path_factory.mktemp("accounting")
    with open_store(folder) as store:
        updater = IndexUpdater(store, folder / "index", PlanRecord("salb+", 8, 7))
        first = store.subscriptions.add_many([(word, f"owner{n % 3}") for n, word in enumerate(WORDS * 2)])
        updater.refresh()
        store.subscriptions.remove(first[4])
        store.subscriptions.add_many([(word, "late") for word in WORDS[:4]])
        updater.refresh()
        if request.param == "split":
            updater.start_refresh(_fit_hot)
            updater.wait_for_build()
            updater.refresh()
            assert any(len(view.split_terms) for n in range(8) for view in updater.index.open_shard(n)), "w0 is split"
        subscribed = [(subscription.query, subscription.owner) for subscription in store.subscriptions.all()]
        yield updater.index, Router(updater.index), ShedAccounting(store.subscriptions.owners), subscribed


@settings(max_examples=30, deadline=None)
@given(posts=posts_of_words, policy=st.sampled_from(["consensus", "subscription", "random"]), limit=st.floats(0.1, 3))
def test_found_and_lost_matches_add_up(stream, posts, policy, limit):
    index, router, accounting, subscribed = stream
    batch = index.analyzer().analyze(pa.array([" ".join(words) for words in posts]))
    routed = router.route(batch, np.full((len(posts), 2), np.nan), ShedDecision(policy, limit, 3))
    by_anchor = routed.shed.by_anchor
    anchors = np.flatnonzero(by_anchor)
    lost = Counter(accounting.lost_matches_by_owner(index, anchors, by_anchor[anchors]))
    found: Counter[str] = Counter()
    for number, words in enumerate(posts):
        reached = {part.matcher for part in routed.batches if number in part.posts}
        post_words = {word for word in words if word != "other"}
        for query, owner in subscribed:
            found[owner] += query in post_words and bool(_matchers(index, query) & reached)
    expected = Counter(owner for words in posts for query, owner in subscribed if query in set(words))
    assert found + lost == expected


def _matchers(index, query: str) -> set[int]:
    term = int(index.vocabulary.find_ids([query.encode()])[0])
    return {n for n in range(8) for view in index.open_shard(n) if term in view.anchors.terms}


def test_without_shedding_nothing_is_lost(stream):
    index, _, accounting, _ = stream
    assert accounting.lost_matches_by_owner(index, np.zeros(0, np.int64), np.zeros(0, np.int64)) == {}
