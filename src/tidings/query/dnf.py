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


@dataclass(frozen=True, slots=True)
class Circle:
    """The post has a position no farther than `radius_km` from this one, along the surface of the Earth."""

    lat: float
    lon: float
    radius_km: float


Ring = tuple[tuple[float, float], ...]  # longitude and latitude of its corners; the last is the first


@dataclass(frozen=True, slots=True)
class Polygons:
    """The post has a position in one of these polygons, borders included; rings behind the first are holes."""

    polygons: tuple[tuple[Ring, ...], ...]

    @property
    def corners(self) -> int:
        return sum(len(ring) - 1 for polygon in self.polygons for ring in polygon)


Place = Region | Circle | Polygons
Literal = Has | Phrase | Region | Circle | Polygons


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
