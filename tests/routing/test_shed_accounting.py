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
from tidings.index.decompile import decompile
from tidings.index.manifest import PlanRecord
from tidings.plan.placement.placer import PLACERS
from tidings.query.anchors import anchor_terms
from tidings.query.conjunctions import concatenate
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


@pytest.fixture(scope="module", params=["hash", "split", "random", "lasp"])
def stream(request, tmp_path_factory):
    """An index of words and pairs of words of three owners, after changes, and with `split` after a new plan."""
    folder = tmp_path_factory.mktemp("accounting")
    placer = request.param if request.param in PLACERS else "anchor"
    with open_store(folder) as store:
        updater = IndexUpdater(store, folder / "index", PlanRecord("salb+", 8, 7, placer))
        pairs = [f"{first} {second}" for first in WORDS[:5] for second in WORDS[5:]]
        first = store.subscriptions.add_many([(query, f"owner{n % 3}") for n, query in enumerate(WORDS * 2 + pairs)])
        updater.refresh()
        store.subscriptions.remove(first[4])
        store.subscriptions.add_many([(word, "late") for word in WORDS[:4]])
        updater.refresh()
        if request.param == "split":
            updater.start_refresh(_fit_hot)
            updater.wait_for_build()
            updater.refresh()
            assert any(len(view.split_terms) for n in range(8) for view in updater.index.open_shard(n)), "w0 is split"
        owner_of = {subscription.id: subscription.owner for subscription in store.subscriptions.all()}
        yield updater.index, Router(updater.index), ShedAccounting(store.subscriptions.owners), owner_of


@settings(max_examples=30, deadline=None)
@given(posts=posts_of_words, policy=st.sampled_from(["consensus", "subscription", "random"]), limit=st.floats(0.1, 3))
def test_checked_and_lost_subscriptions_add_up(stream, posts, policy, limit):
    index, router, accounting, owner_of = stream
    batch = index.analyzer().analyze(pa.array([" ".join(words) for words in posts]))
    routed = router.route(batch, np.full((len(posts), 2), np.nan), ShedDecision(policy, limit, 3))
    lost = Counter(accounting.lost_matches_by_owner(index, *routed.shed.by_anchor()))
    checked: Counter[str] = Counter()
    expected: Counter[str] = Counter()
    filed = _list_filed(index)
    companions = {anchor: set().union(*(c for _, other, c, _ in filed if other == anchor)) for _, anchor, _, _ in filed}
    for number, (start, end) in enumerate(batch.bounds.tolist()):
        reached = {part.matcher for part in routed.batches if number in part.posts}
        post = set(batch.terms[start:end].tolist())
        candidates = [entry for entry in filed if entry[1] in post and companions[entry[1]] & post]
        expected.update(owner_of[id_] for id_ in {id_ for id_, *_ in candidates})
        checked.update(owner_of[id_] for id_ in {id_ for id_, _, _, matcher in candidates if matcher in reached})
    assert checked + lost == expected


def _list_filed(index) -> list[tuple[int, int, set[int], int]]:
    """Return (id, anchor, companions, matcher) of every subscription on every matcher; a lone term is its companion."""
    filed = []
    for matcher in range(8):
        for view in index.open_shard(matcher):
            conjunctions, ids = concatenate([(decompile(view.segment, view.removed), view.segment.ids)])
            anchors = anchor_terms(conjunctions, view.split_terms).tolist()
            lists = np.split(conjunctions.terms, conjunctions.starts[1:-1].astype(int))
            for anchor, terms, row in zip(anchors, lists, conjunctions.subscription.tolist(), strict=True):
                filed.append((ids[row].as_py(), anchor, set(terms.tolist()) - {anchor} or {anchor}, matcher))
    return filed


def test_without_shedding_nothing_is_lost(stream):
    index, _, accounting, _ = stream
    assert accounting.lost_matches_by_owner(index, np.zeros(0, np.int64), np.zeros(0, np.int64)) == {}
