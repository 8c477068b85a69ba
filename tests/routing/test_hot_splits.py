"""The split of a hot term depends on the content of a post, not on its row in a batch, and loads stay even."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.corpus import Corpus
from tidings.balance.word_registry import fit_word_plan
from tidings.index.builder import create_index
from tidings.index.manifest import PlanRecord
from tidings.index.reader import Index
from tidings.routing.router import Router
from tidings.testing.pipeline import subscription_table
from tidings.text.analyzer import AnalyzedBatch
from tidings.text.vocabulary import Vocabulary

TEXTS = [f"storm http://x.y/{number}" for number in range(400)]  # the index knows the hot term only


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Index:
    """An index for 4 matchers, in which `storm` is hot and every matcher has one of its splits."""

    def fit(terms, conjunctions):
        corpus = Corpus.from_texts(pa.array(["storm"] * 400, pa.large_string()), Vocabulary.build(terms))
        return fit_word_plan("salb+", corpus, 4)

    folder = tmp_path_factory.mktemp("splits") / "index"
    index, _ = create_index(folder, subscription_table(["storm"]), PlanRecord("salb+", 4, 7), fit)
    assert [len(index.open_shard(matcher)) for matcher in range(4)] == [1, 1, 1, 1]
    return index


def route(index: Index, texts: list[str], batch_size: int) -> list[int]:
    """Return the matcher of each post."""
    router, analyzer, found = Router(index), index.analyzer(), []
    for first in range(0, len(texts), batch_size):
        batch = analyzer.analyze(pa.array(texts[first : first + batch_size]))
        routed = router.route(batch, np.full((len(batch), 2), np.nan)).batches
        matcher_of = {post: part.matcher for part in routed for post in part.posts.tolist()}
        found += [matcher_of[post] for post in range(len(batch))]
    return found


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
def test_posts_are_spread_evenly_over_the_splits_in_batches_of_any_size(index, batch_size):
    loads = np.bincount(route(index, TEXTS, batch_size), minlength=4)
    assert loads.min() > 75
    assert loads.max() < 125


def test_the_split_does_not_depend_on_the_batch(index):
    assert route(index, TEXTS, 1) == route(index, TEXTS, 1000) == route(index, TEXTS[::-1], 7)[::-1]


@pytest.mark.parametrize("suffix", ["", " storm", " ünïcode", " a", " abcdefgh", " abcdefghi"])
def test_posts_with_equal_texts_go_to_one_split(index, suffix):
    assert len(set(route(index, ["storm" + suffix] * 50, 8))) == 1


def test_without_texts_the_terms_of_a_post_choose_the_split():
    terms = np.array([[1, 2], [2, 1], [1, 2], [1, 3]], np.uint32)
    bounds = np.array([[2 * row, 2 * row + 2] for row in range(4)], np.uint32)
    first, other_order, equal, other = AnalyzedBatch(terms.ravel(), bounds).content_hashes().tolist()
    assert first == equal
    assert len({first, other_order, other}) == 3
