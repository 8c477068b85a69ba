"""The normal form of a query: a disjunction of conjunctions of literals. Everything downstream sees only this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Has:
    """The post holds this term: a stem, or ``#tag``."""

    term: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """The post holds these terms next to each other in this order, stop words (marked terms) included."""

    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """The post has a position inside this rectangle, borders included, in degrees."""

    west: float
    south: float
    east: float
    north: float


Literal = Has | Phrase | Region


@dataclass(frozen=True, slots=True)
class Conjunction:
    """All of `required` and none of `forbidden`. At least one literal is required."""

    required: frozenset[Literal]
    forbidden: frozenset[Literal] = frozenset()


@dataclass(frozen=True, slots=True)
class Ignored:
    """A piece of the query that says nothing: a stop word, a name, a link, punctuation."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Query:
    """A query as it was understood: it matches a post when any of its conjunctions does."""

    text: str
    conjunctions: tuple[Conjunction, ...]
    ignored: tuple[Ignored, ...] = ()
    leaves: int = 0
    depth: int = 0
