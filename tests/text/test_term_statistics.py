"""Posts per term: each post counts once, whatever it repeats; rare terms are left out."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.text import term_statistics
from tidings.text.reference_analyzer import analyze
from tidings.text.term_statistics import TermStatistics
from tidings.text.vocabulary import hash_terms

words = st.sampled_from(["storm", "storms", "the", "rain", "#flood", "Zürich", "ab12"])
texts = st.lists(st.lists(words, max_size=8).map(" ".join), max_size=40)


def count(statistics: TermStatistics, term: str) -> int:
    return int(statistics.counts_of(hash_terms([term.encode()]))[0])


@settings(max_examples=100, deadline=None)
@given(texts)
def test_a_post_counts_once_per_term(posts):
    statistics = TermStatistics.of(pa.array(posts, pa.large_string()))
    expected = Counter(term for post in posts for term in set(analyze(post).terms))
    assert statistics.posts == len(posts)
    for term in [*expected, "unknown"]:
        assert count(statistics, term) == (expected[term] if expected[term] > 1 else 0)


def test_batches_are_counted_together(monkeypatch):
    posts = pa.array(["storm rain", "storm storm", "", "rain", "storm"], pa.large_string())
    monkeypatch.setattr(term_statistics, "_BATCH_POSTS", 2)
    statistics = TermStatistics.of(posts)
    assert (count(statistics, "storm"), count(statistics, "rain")) == (3, 2)


def test_a_large_sample_is_thinned_evenly(monkeypatch):
    monkeypatch.setattr(term_statistics, "MAX_SAMPLE_POSTS", 10)
    statistics = TermStatistics.of(pa.array(["early"] * 50 + ["late"] * 50, pa.large_string()))
    assert statistics.posts == 10
    assert (count(statistics, "earli"), count(statistics, "late")) == (5, 5)


def test_arrays_of_files_contain_everything():
    statistics = TermStatistics.of(pa.array(["storm rain"] * 3, pa.large_string()))
    again = TermStatistics.from_arrays(statistics.to_arrays())
    assert again.posts == 3
    assert np.array_equal(again.hashes, statistics.hashes)
    assert again.counts.tolist() == [3, 3]
