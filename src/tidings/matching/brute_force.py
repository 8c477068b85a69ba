"""Brute-force matching: every query on every post, by the definition. The oracle for all other matchers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidings.query.dnf import Conjunction, Has, Literal, Phrase, Query
from tidings.query.geo.containment import region_contains
from tidings.text.reference_analyzer import AnalyzedText, analyze


class RawPost(NamedTuple):
    """A post before analysis; without a position no region contains it."""

    text: str
    lat: float | None = None
    lon: float | None = None


def match_all(
    posts: Iterable[tuple[str, float | None, float | None]], subscriptions: Iterable[Query]
) -> set[tuple[int, int]]:
    """Return all matches as (subscription, post), both numbered from 0."""
    analyzed = [(analyze(text), lat, lon) for text, lat, lon in posts]
    return {
        (subscription, post)
        for subscription, query in enumerate(subscriptions)
        for post, (text, lat, lon) in enumerate(analyzed)
        if evaluate(query, text, lat, lon)
    }


def evaluate(query: Query, post: AnalyzedText, lat: float | None = None, lon: float | None = None) -> bool:
    """Whether any conjunction of the query is true for the post."""
    return any(conjunction_holds(conjunction, post, lat, lon) for conjunction in query.conjunctions)


def conjunction_holds(
    conjunction: Conjunction, post: AnalyzedText, lat: float | None = None, lon: float | None = None
) -> bool:
    """Whether all required literals are true and all forbidden ones false."""
    return all(literal_holds(literal, post, lat, lon) for literal in conjunction.required) and not any(
        literal_holds(literal, post, lat, lon) for literal in conjunction.forbidden
    )


def literal_holds(literal: Literal, post: AnalyzedText, lat: float | None = None, lon: float | None = None) -> bool:
    """Whether the post has the word, hashtag or phrase, or lies in the region."""
    match literal:
        case Has(term):
            return term in post.terms
        case Phrase(terms):
            return find_phrase(terms, post.sequence) is not None
        case _:
            return region_contains(literal, lat, lon)


def find_phrase(terms: tuple[str, ...], sequence: tuple[str | None, ...]) -> int | None:
    """Return the first offset of the terms, next to each other, in the sequence, or None."""
    starts = range(len(sequence) - len(terms) + 1)
    return next((at for at in starts if sequence[at : at + len(terms)] == terms), None)
