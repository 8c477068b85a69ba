"""The brute force: every query on every post, straight from the definition. Always right, and the judge of the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidings.query.dnf import Conjunction, Has, Literal, Phrase, Query
from tidings.query.geo.containment import lies_in
from tidings.text.reference_analyzer import CleanText, clean


class ScanPost(NamedTuple):
    """A raw post; without a position it lies in no region."""

    text: str
    lat: float | None = None
    lon: float | None = None


def scan(
    posts: Iterable[tuple[str, float | None, float | None]], subscriptions: Iterable[Query]
) -> set[tuple[int, int]]:
    """All matches, as (number of the subscription, number of the post), both from 0."""
    cleaned = [(clean(text), lat, lon) for text, lat, lon in posts]
    return {
        (subscription, post)
        for subscription, query in enumerate(subscriptions)
        for post, (text, lat, lon) in enumerate(cleaned)
        if evaluate(query, text, lat, lon)
    }


def evaluate(query: Query, post: CleanText, lat: float | None = None, lon: float | None = None) -> bool:
    """Whether any conjunction of the query holds for the post."""
    return any(conjunction_holds(conjunction, post, lat, lon) for conjunction in query.conjunctions)


def conjunction_holds(
    conjunction: Conjunction, post: CleanText, lat: float | None = None, lon: float | None = None
) -> bool:
    """Whether all that is required holds and nothing that is forbidden does."""
    return all(literal_holds(literal, post, lat, lon) for literal in conjunction.required) and not any(
        literal_holds(literal, post, lat, lon) for literal in conjunction.forbidden
    )


def literal_holds(literal: Literal, post: CleanText, lat: float | None = None, lon: float | None = None) -> bool:
    """Whether one word, hashtag, phrase or region is true of the post."""
    match literal:
        case Has(term):
            return term in post.terms
        case Phrase(terms):
            return find_phrase(terms, post.sequence) is not None
        case _:
            return lies_in(literal, lat, lon)


def find_phrase(terms: tuple[str, ...], sequence: tuple[str | None, ...]) -> int | None:
    """Where the terms first stand side by side in the sequence; None when they nowhere do."""
    starts = range(len(sequence) - len(terms) + 1)
    return next((at for at in starts if sequence[at : at + len(terms)] == terms), None)
