"""Conjunctions and posts as Python objects, for matchers that are written for clarity and not for speed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.index.layout import TERM_MASK
from tidings.query.condition import LiteralTest, pass_tests
from tidings.query.conjunctions import Conjunctions
from tidings.query.geo.geometry import contains
from tidings.query.residual import BaseResidual
from tidings.text.analyzer import COMPANION, AnalyzedBatch


class PlainConjunction(NamedTuple):
    """The required terms of a conjunction, its anchor (0 without terms) and its residual: all else that it requires."""

    subscription: int
    anchor: int
    terms: Set[int]
    residual: BaseResidual


@dataclass(frozen=True, slots=True)
class PlainPost:
    """A post; `anchors` are the terms that may be the anchor of a conjunction: routing excludes companions."""

    terms: Set[int]
    anchors: Set[int]
    sequence: Sequence[int]  # the terms in order, for phrases
    lon: float
    lat: float


def iter_conjunctions(conjunctions: Conjunctions) -> Iterator[PlainConjunction]:
    terms, starts = conjunctions.terms.tolist(), conjunctions.starts.tolist()
    subscriptions, regions = conjunctions.subscription.tolist(), conjunctions.anchor_region.tolist()
    for number, residual in enumerate(conjunctions.residual.tolist()):
        region_only = BaseResidual((), (), ((0, regions[number]),) if regions[number] >= 0 else ())
        conditions = conjunctions.residuals[residual - 1] if residual else region_only
        own_terms = terms[starts[number] : starts[number + 1]]
        yield PlainConjunction(subscriptions[number], own_terms[0] if own_terms else 0, set(own_terms), conditions)


def iter_posts(batch: AnalyzedBatch, positions: NDArray[np.float64]) -> Iterator[PlainPost]:
    for (start, end), (lon, lat) in zip(batch.bounds.tolist(), positions.tolist(), strict=True):
        terms = batch.terms[start:end]
        sequence = (terms & TERM_MASK).tolist()
        yield PlainPost(set(sequence), {0, *terms[terms < COMPANION].tolist()}, sequence, lon, lat)


def satisfies_residual(residual: BaseResidual, regions: NDArray[np.float64], post: PlainPost) -> bool:
    """Whether a post satisfies a residual; `regions` are the raveled regions of the conjunctions."""
    return (
        post.terms.isdisjoint(residual.forbidden)
        and all(_has_phrase(terms, post.sequence) != negated for negated, terms in residual.phrases)
        and all(contains(regions, region, post.lon, post.lat) != negated for negated, region in residual.regions)
        and pass_tests(residual.tests, lambda test: _holds(test, regions, post))
    )


def _holds(test: LiteralTest, regions: NDArray[np.float64], post: PlainPost) -> bool:
    if test.terms:
        return _has_phrase(test.terms, post.sequence)
    return bool(contains(regions, test.region, post.lon, post.lat))


def _has_phrase(terms: Sequence[int], sequence: Sequence[int]) -> bool:
    """Whether the terms are next to each other in the sequence."""
    phrase = list(terms)
    return any(sequence[at : at + len(phrase)] == phrase for at in range(len(sequence) - len(phrase) + 1))
