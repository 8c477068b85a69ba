"""Properties of the data sets: sizes, word pairs and word frequencies (S³-TM, table 6.1 and figure 6.1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tidings.plan.hot_splits import split_counts
from tidings.ragged import sorted_unique
from tidings_lab.datasets import Posts, posts_of
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.workload import number_posts, take_posts

_CHUNK_POSTS = 100_000
_POINTS = 60  # of a curve
_LINE_RANKS = (10, 10_000)  # the line is fitted between these


def steps(parameters: Parameters) -> int:
    return len(parameters["datasets"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield per data set: its sizes, its hot words per number of matchers, and its frequencies by rank."""
    for name in parameters["datasets"]:
        yield name, partial(_describe, posts, name, parameters["matchers"], seed)


def _describe(posts: Posts, name: str, matchers: list[int], seed: int) -> list[Row]:
    numbered = number_posts(posts_of(posts, name, seed).texts)
    frequency = np.sort(np.bincount(numbered.words))[::-1]
    frequency = frequency[frequency > 0].astype(np.int64)
    sizes = {
        "tweets": len(numbered),
        "words": len(frequency),
        "total_word_frequency": int(frequency.sum()),
        "word_pairs": count_pairs(numbered),
        "words_per_tweet": float(frequency.sum() / max(1, len(numbered))),
        "zipf_r2": _fit_zipf(frequency),
    }
    about = {"dataset": name}
    rows: list[Row] = [{**about, "part": "sizes", **sizes}]
    for count in matchers:
        share = float(frequency[0] * count / frequency.sum())
        hot = int((split_counts(frequency, count) > 1).sum())
        rows.append({**about, "part": "hot words", "matchers": count, "hot_words": hot, "top_word_load": share})
    ranks = np.unique(np.geomspace(1, len(frequency), _POINTS).astype(int))
    return rows + [{**about, "part": "rank", "rank": int(n), "frequency": int(frequency[n - 1])} for n in ranks]


def _fit_zipf(frequency: NDArray[np.int64]) -> float:
    """Return how much of the variance of log frequency a line over log rank explains."""
    first, last = _LINE_RANKS[0], min(_LINE_RANKS[1], len(frequency))
    ranks, values = np.log(np.arange(first, last + 1)), np.log(frequency[first - 1 : last])
    return float(np.corrcoef(ranks, values)[0, 1] ** 2)


def count_pairs(posts: NumberedPosts) -> int:
    """Return the number of different pairs of words that occur together in a post."""
    pairs = np.zeros(0, np.uint64)
    for start in range(0, len(posts), _CHUNK_POSTS):
        rows = np.arange(start, min(start + _CHUNK_POSTS, len(posts)))
        pairs = sorted_unique(np.concatenate([pairs, _pairs_of(take_posts(posts, rows))]))
    return len(pairs)


def _pairs_of(posts: NumberedPosts) -> NDArray[np.uint64]:
    lengths = np.diff(posts.starts)
    row, words = np.repeat(np.arange(len(posts)), lengths), posts.words.astype(np.uint64)
    found = [np.zeros(0, np.uint64)]
    for distance in range(1, int(lengths.max(initial=1))):
        is_same = row[distance:] == row[:-distance]
        found.append((words[:-distance] << np.uint64(32) | words[distance:])[is_same])  # words ascend in a post
    return sorted_unique(np.concatenate(found))
