"""The disjunctive normal form (DNF) of a query, the only form that other packages use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Has:
    """The post contains this term: a stem, or ``#tag``."""

    term: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """The post contains these terms next to each other in this order, stop words (marked terms) included."""

    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rectangle:
    """The post has a position inside this rectangle, borders included, in degrees.

    If west is greater than east, it crosses the antimeridian.
    """

    west: float
    south: float
    east: float
    north: float


@dataclass(frozen=True, slots=True)
class Circle:
    """The post has a position at most `radius_km` from this one, along the surface of the Earth."""

    lat: float
    lon: float
    radius_km: float


Ring = tuple[tuple[float, float], ...]  # longitude and latitude of its corners; the last equals the first


@dataclass(frozen=True, slots=True)
class Polygons:
    """The post has a position in one of these polygons, borders included; rings after the first are holes."""

    polygons: tuple[tuple[Ring, ...], ...]

    @property
    def corner_count(self) -> int:
        return sum(len(ring) - 1 for polygon in self.polygons for ring in polygon)


Region = Rectangle | Circle | Polygons
Literal = Has | Phrase | Rectangle | Circle | Polygons


@dataclass(frozen=True, slots=True)
class Conjunction:
    """All of `required` and none of `forbidden` must hold. At least one literal is required."""

    required: frozenset[Literal]
    forbidden: frozenset[Literal] = frozenset()


@dataclass(frozen=True, slots=True)
class IgnoredText:
    """A part of the query that is ignored: a stop word, a name, a link, punctuation."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. It matches a post if any of its conjunctions does."""

    text: str
    conjunctions: tuple[Conjunction, ...]
    ignored: tuple[IgnoredText, ...] = ()
    literal_count: int = 0
    depth: int = 0
