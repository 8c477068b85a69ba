"""Who lost what: withheld words are the possible matches of owners."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.balance.corpus import Corpus
from tidings.balance.word_registry import fit
from tidings.index.manifest import PlanRecord
from tidings.routing.router import Router
from tidings.routing.shed import Shed
from tidings.routing.shed_accounting import Owed
from tidings.store import open_store
from tidings.stream.index_updater import Follower
from tidings.text.vocabulary import Vocabulary

WORDS = [f"w{number}" for number in range(9)]
posts_of_words = st.lists(st.lists(st.sampled_from([*WORDS, "other"]), max_size=8), min_size=1, max_size=15)


def _hot(terms, conjunctions):
    """A plan in which the first word is so hot that it is split."""
    texts = pa.array(["w0"] * 300 + [" ".join(WORDS)] * 20, pa.large_string())
    return fit("salb+", Corpus.of_texts(texts, Vocabulary.build(terms)), 8)


@pytest.fixture(scope="module", params=["hash", "split"])
def stream(request, tmp_path_factory):
    """An index of single words, of three owners, some gone; followed through changes and, for `split`, learned."""
    folder = tmp_path_factory.mktemp("owed")
    with open_store(folder) as store:
        follower = Follower(store, folder / "index", PlanRecord("salb+", 8, 7))
        first = store.subscribe_many([(word, f"owner{n % 3}") for n, word in enumerate(WORDS * 2)])
        follower.refresh()
        store.unsubscribe(first[4])
        store.subscribe_many([(word, "late") for word in WORDS[:4]])
        follower.refresh()
        if request.param == "split":
            follower.relearn(_hot)
            follower.until_made()
            follower.refresh()
            assert any(len(live.split) for n in range(8) for live in follower.index.shard(n)), "w0 is split"
        subscribed = [(one.query, one.owner) for one in store.subscriptions()]
        yield follower.index, Router(follower.index), Owed(store.owners), subscribed


@settings(max_examples=30, deadline=None)
@given(posts=posts_of_words, policy=st.sampled_from(["consensus", "subscription", "random"]), limit=st.floats(0.1, 3))
def test_what_is_sent_and_what_is_owed_is_all_that_matches(stream, posts, policy, limit):
    index, router, owed, subscribed = stream
    received = index.receiver().receive(pa.array([" ".join(words) for words in posts]))
    routed = router.route(received, np.full((len(posts), 2), np.nan), Shed(policy, limit, 3))
    by_lead = routed.withheld.by_lead
    leads = np.flatnonzero(by_lead)
    lost = Counter(owed.by_owner(index, leads, by_lead[leads]))
    found: Counter[str] = Counter()
    for number, words in enumerate(posts):
        reached = {share.matcher for share in routed.shares if number in share.posts}
        said = {word for word in words if word != "other"}
        for query, owner in subscribed:
            found[owner] += query in said and bool(_matchers(index, query) & reached)
    wanted = Counter(owner for words in posts for query, owner in subscribed if query in set(words))
    assert found + lost == wanted


def _matchers(index, query: str) -> set[int]:
    term = int(index.vocabulary.numbers([query.encode()])[0])
    return {n for n in range(8) for live in index.shard(n) if term in live.leads.leads}


def test_nothing_lost_owes_nothing(stream):
    index, _, owed, _ = stream
    assert owed.by_owner(index, np.zeros(0, np.int64), np.zeros(0, np.int64)) == {}
