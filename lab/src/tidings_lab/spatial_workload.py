"""Workloads of PS²Stream, drawn from tweets with a position: the query sets Q1, Q2, Q3, and lifetimes of queries.

Q1: one to three words joined by AND or OR, drawn by their frequency in the tweets, in a square of 1 to 50 km around the
position of a tweet. Q2: squares up to 100 km, and at least one word that is not among the most frequent 1 %. Q3: a
hundred regions of equal size, each with queries of Q1 or of Q2.

Two variants of Q3 have regions with equal numbers of tweets: in *Q3 by population* the regions that change their kind
are chosen at random as in Q3. In *Q3 front* all begin with Q1, and the regions change to Q2 from west to east.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.query.cost import query_cost
from tidings.schemas import REGION_TYPE
from tidings.store import NewSubscription
from tidings.text.reference_analyzer import analyze

QUERY_SETS = ("Q1", "Q2", "Q3", "Q3 by population", "Q3 front")
_SIDES_KM = {"Q1": (1.0, 50.0), "Q2": (1.0, 100.0)}
_FREQUENT = 0.01  # share of words that count as frequent in Q2
_KM_PER_DEGREE = 111.195
_STRIPES = 10  # Q3 has 10 × 10 regions
_SPREAD = 0.2  # standard deviation of lifetimes, relative to the mean


@dataclass(frozen=True, slots=True)
class Tweets:
    """Posts with positions, and their terms."""

    corpus: Corpus
    positions: NDArray[np.float64]  # longitude and latitude

    @classmethod
    def of(cls, table: pa.Table) -> Tweets:
        """Read a table with `text`, `lat` and `lon`."""
        positions = np.column_stack([np.asarray(table.column(name)) for name in ("lon", "lat")])
        return cls(Corpus.from_texts(table.column("text")), positions)


def draw_subscriptions(query_set: str, count: int, tweets: Tweets, seed: int, flipped: float = 0.0) -> pa.Table:
    """Draw `id`, `query` and `region` of subscriptions. `flipped`: share of Q3's regions that change their kind."""
    rng = np.random.default_rng(seed)
    centers = tweets.positions[rng.integers(0, len(tweets.positions), count)]
    is_q2 = _is_q2(query_set, centers, tweets.positions, seed, flipped)
    boxes = _squares(centers, is_q2, rng)
    words = _draw_words(tweets.corpus, is_q2, rng)
    sizes, is_or = rng.integers(1, 4, count), rng.random(count) < 0.5
    text = [term.decode() for term in tweets.corpus.terms]
    queries = [
        (" OR " if any_of else " ").join(text[word] for word in row[:size])
        for row, size, any_of in zip(words.tolist(), sizes.tolist(), is_or.tolist(), strict=True)
    ]
    starts = pa.array(np.arange(0, 4 * count + 1, 4, dtype=np.int32))
    regions = pa.ListArray.from_arrays(starts, pa.array(boxes.ravel()), type=REGION_TYPE)
    return pa.table({"id": pa.array(np.arange(count)), "query": pa.array(queries, pa.string()), "region": regions})


def _is_q2(
    query_set: str, centers: NDArray[np.float64], positions: NDArray[np.float64], seed: int, flipped: float
) -> NDArray[np.bool_]:
    if query_set in _SIDES_KM:
        return np.full(len(centers), query_set == "Q2")
    region = _region_by_size(centers, positions) if query_set == "Q3" else _region_by_population(centers, positions)
    kinds = np.random.default_rng([seed, 3]).random(_STRIPES * _STRIPES) < 0.5
    order = np.random.default_rng([seed, 4]).permutation(len(kinds))
    if query_set == "Q3 front":
        kinds[:], order = False, np.arange(len(kinds))
    changed = order[: round(flipped * len(kinds))]
    kinds[changed] = ~kinds[changed]
    return np.asarray(kinds[region])


def _region_by_size(centers: NDArray[np.float64], positions: NDArray[np.float64]) -> NDArray[np.int64]:
    low, high = positions.min(axis=0), positions.max(axis=0)
    stripe = np.minimum(_STRIPES - 1, ((centers - low) / np.maximum(high - low, 1e-9) * _STRIPES).astype(np.int64))
    return np.asarray(stripe[:, 0] * _STRIPES + stripe[:, 1])


def _region_by_population(centers: NDArray[np.float64], positions: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the numbers of regions, from west to east: stripes with equally many positions, cut into equal parts."""
    shares = np.arange(1, _STRIPES) / _STRIPES
    bounds = np.quantile(positions[:, 0], shares)
    stripe, stripe_of_position = (np.searchsorted(bounds, some[:, 0], "right") for some in (centers, positions))
    part = np.zeros(len(centers), np.int64)
    for number in range(_STRIPES):
        inside, lats = stripe == number, positions[stripe_of_position == number, 1]
        if len(lats):  # else nothing lies between two equal bounds
            part[inside] = np.searchsorted(np.quantile(lats, shares), centers[inside, 1], "right")
    return np.asarray(stripe * _STRIPES + part, np.int64)


def _squares(centers: NDArray[np.float64], is_q2: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return west, south, east, north of squares with random sides around the centers, clipped to the globe."""
    low = np.where(is_q2, _SIDES_KM["Q2"][0], _SIDES_KM["Q1"][0])
    high = np.where(is_q2, _SIDES_KM["Q2"][1], _SIDES_KM["Q1"][1])
    half_lat = rng.uniform(low, high) / _KM_PER_DEGREE / 2
    half_lon = half_lat / np.maximum(0.01, np.cos(np.radians(centers[:, 1])))
    half = np.column_stack([half_lon, half_lat])
    ends = np.array([180.0, 90.0])
    return np.concatenate([np.maximum(centers - half, -ends), np.minimum(centers + half, ends)], axis=1)


def _draw_words(corpus: Corpus, is_q2: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw three words per query by frequency; the first word of a Q2 query is not frequent."""
    queryable = np.array([_is_queryable(term.decode()) for term in corpus.terms])
    occurrences: NDArray[np.int64] = corpus.post_terms[queryable[corpus.post_terms]].astype(np.int64)
    rare = occurrences[occurrences >= int(np.count_nonzero(queryable) * _FREQUENT)]  # word ids are ordered by frequency
    words = occurrences[rng.integers(0, len(occurrences), (len(is_q2), 3))]
    words[is_q2, 0] = rare[rng.integers(0, len(rare), len(is_q2))][is_q2]  # drawn for all queries, so that a
    # region that changes its kind does not change the others
    return words


def _is_queryable(stem: str) -> bool:
    """Return whether a query may contain this stem: some stems are analyzed to nothing, like stop words."""
    return stem.isascii() and stem.isalnum() and bool(analyze(stem).terms)


def to_rows(subscriptions: pa.Table, with_costs: bool = False) -> list[NewSubscription]:
    """Return drawn subscriptions as rows of a store; parsing them for their costs takes most of the time."""
    queries, regions = (subscriptions.column(name).to_pylist() for name in ("query", "region"))
    return [
        NewSubscription(query, "", tuple(region), query_cost(query) if with_costs else 1)
        for query, region in zip(queries, regions, strict=True)
    ]


def departures(count: int, coming: int, seed: int) -> NDArray[np.int64]:
    """Return when each of `count` existing and `coming` new subscriptions is removed, as a number of insertions.

    The existing ones have all ages, as in the steady state: the remaining lifetime is a random part of a lifetime, and
    long lifetimes are more likely to be observed.
    """
    rng = np.random.default_rng([seed, 6])
    lives = lifetimes(count, count, seed)
    observed = rng.choice(lives, count, p=lives / lives.sum())
    left = (rng.random(count) * observed).astype(np.int64)
    return np.concatenate([left, np.arange(coming) + lifetimes(coming, count, seed + 1)])


def lifetimes(count: int, mean: int, seed: int) -> NDArray[np.int64]:
    """Draw lifetimes in numbers of later insertions: normal, standard deviation a fifth of the mean."""
    drawn = np.random.default_rng([seed, 5]).normal(mean, _SPREAD * mean, count)
    return np.maximum(1, drawn.astype(np.int64))
