"""Residuals: what is left to check of a conjunction after its four least frequent terms.

A residual is a sequence of numbers: ``n, further terms…`` ``n, forbidden terms…`` ``n, (negated, length, terms…)…``
for phrases, ``n, (negated, region)…`` for regions, each identified by its first row (`geo/geometry.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read, write
from tidings.query.dnf import Conjunction, Has, Literal, Phrase, Region
from tidings.query.geo.geometry import Row, encode_region, is_inside

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class BaseResidual:
    """A residual without its further terms, decoded, so that terms and regions can be renumbered."""

    forbidden: tuple[int, ...]
    phrases: tuple[tuple[int, tuple[int, ...]], ...]  # (negated, terms)
    regions: tuple[tuple[int, int], ...]  # (negated, region)

    @classmethod
    def decode(cls, code: Sequence[int]) -> BaseResidual:
        numbers = iter(code)
        forbidden = tuple(next(numbers) for _ in range(next(numbers)))
        phrases = []
        for _ in range(next(numbers)):
            negated, length = next(numbers), next(numbers)
            phrases.append((negated, tuple(next(numbers) for _ in range(length))))
        regions = tuple((next(numbers), next(numbers)) for _ in range(next(numbers)))
        return cls(forbidden, tuple(phrases), regions)

    def encode(self) -> tuple[int, ...]:
        code = [len(self.forbidden), *self.forbidden, len(self.phrases)]
        for negated, terms in self.phrases:
            code += [negated, len(terms), *terms]
        code.append(len(self.regions))
        return (*code, *(number for region in self.regions for number in region))

    def renumber(self, term: Callable[[int], int], region: Callable[[int], int]) -> BaseResidual:
        return BaseResidual(
            tuple(map(term, self.forbidden)),
            tuple((negated, tuple(map(term, terms))) for negated, terms in self.phrases),
            tuple((negated, region(number)) for negated, number in self.regions),
        )

    def terms(self) -> set[int]:
        return {*self.forbidden, *(t for _, terms in self.phrases for t in terms)}


@dataclass
class ResidualWriter:
    """Collects residuals and their regions; equal ones are stored once."""

    term_id: Callable[[str], int]
    residuals: dict[BaseResidual, int] = field(default_factory=dict)
    _regions: dict[Literal, int] = field(default_factory=dict)
    _rows: list[Row] = field(default_factory=list)

    def required_terms(self, conjunction: Conjunction) -> list[int]:
        """Return all terms that a post must contain, those of phrases included."""
        terms: list[str] = []
        for literal in conjunction.required:
            if isinstance(literal, Has):
                terms.append(literal.term)
            elif isinstance(literal, Phrase):
                terms.extend(literal.terms)
        # Sorted by text first: the order of a frozenset depends on PYTHONHASHSEED, and new terms get the next number.
        return sorted({self.term_id(term) for term in sorted(terms)})

    def add_residual(self, conjunction: Conjunction) -> int:
        """Return the number of the residual, from 1 on; 0 if terms and at most one region are all."""
        phrases = [(False, terms) for terms in sorted(p.terms for p in conjunction.required if isinstance(p, Phrase))]
        phrases += [(True, terms) for terms in sorted(p.terms for p in conjunction.forbidden if isinstance(p, Phrase))]
        regions = [(False, r) for r in sort_regions(conjunction.required)]
        regions += [(True, r) for r in sort_regions(conjunction.forbidden)]
        terms = sorted(h.term for h in conjunction.forbidden if isinstance(h, Has))
        forbidden = sorted(map(self.term_id, terms))
        is_one_region = len(regions) < 2 and not any(negated for negated, _ in regions)
        if is_one_region and not phrases and not forbidden:
            return 0
        base = BaseResidual(
            tuple(forbidden),
            tuple(sorted((int(neg), tuple(map(self.term_id, terms))) for neg, terms in phrases)),
            tuple(sorted((int(neg), self.add_region(r)) for neg, r in regions)),
        )
        return self.residuals.setdefault(base, len(self.residuals) + 1)

    def add_region(self, region: Region) -> int:
        """Return the number of a region: its first row."""
        number = self._regions.setdefault(region, len(self._rows))
        if number == len(self._rows):
            self._rows += encode_region(region)
        return number

    def region_rows(self) -> NDArray[np.float64]:
        """Return the rows of all regions."""
        return np.array(self._rows, np.float64).reshape(-1, 4)


def sort_regions(literals: Collection[Literal]) -> list[Region]:
    """Return the regions among literals in an order that does not depend on PYTHONHASHSEED."""
    regions = [literal for literal in literals if isinstance(literal, Region)]
    return sorted(regions, key=repr) if len(regions) > 1 else regions


@inline
def has_term(bitmap, term):  # type: ignore[no-untyped-def]
    """Return whether a bitmap of terms has this term."""
    return (bitmap[term >> uint64(3)] >> uint8(term & uint64(7))) & uint8(1) != 0


@inline
def _has_phrase(code, at, length, terms, start, end):  # type: ignore[no-untyped-def]
    """Return whether the terms code[at : at + length] are next to each other in the post."""
    first = start
    while first + length <= end:
        offset = _ZERO
        while offset < length and terms[first + offset] == code[at + offset]:
            offset += _ONE
        if offset == length:
            return True
        first += _ONE
    return False


@inline
def check_residual(code, at, regions, bitmap, terms, start, end, lon, lat):  # type: ignore[no-untyped-def]
    """Return whether a post (bitmap, terms[start:end], position or NaN) satisfies the residual at `at`."""
    more = uint64(code[at])
    at += _ONE
    for offset in range(at, at + more):
        if not has_term(bitmap, uint64(code[offset])):
            return False
    at += more
    forbidden = uint64(code[at])
    at += _ONE
    for offset in range(at, at + forbidden):
        if has_term(bitmap, uint64(code[offset])):
            return False
    at += forbidden
    phrases = uint64(code[at])
    at += _ONE
    for _ in range(phrases):
        length = uint64(code[at + _ONE])
        if _has_phrase(code, at + uint64(2), length, terms, start, end) == (code[at] != 0):
            return False
        at += uint64(2) + length
    region_count = uint64(code[at])
    at += _ONE
    for _ in range(region_count):
        if is_inside(regions, code[at + _ONE], lon, lat) == (code[at] != 0):
            return False
        at += uint64(2)
    return True


@kernel(
    types.void,
    read(uint32),
    read(uint64),
    read(uint64),
    read(uint32),
    read(uint32),
    read(uint32),
    write(uint64),
    write(uint32),
)
def write_residuals(terms, firsts, ends, bases, base_code, base_start, starts, code):  # type: ignore[no-untyped-def]
    """Write the residual of each entry: its terms from `firsts` on, then its base residual (1 is the empty one).

    With an empty `code`, only `starts` is computed.
    """
    used = _ZERO
    for entry in range(uint64(bases.size)):
        more = ends[entry] - firsts[entry] if ends[entry] > firsts[entry] else _ZERO
        base = uint64(bases[entry])
        from_, until = uint64(base_start[base]), uint64(base_start[base + _ONE])
        starts[entry] = used
        if code.size > 0:
            code[used] = uint32(more)
            for offset in range(more):
                code[used + _ONE + offset] = terms[firsts[entry] + offset]
            for offset in range(until - from_):
                code[used + _ONE + more + offset] = base_code[from_ + offset]
        used += _ONE + more + (until - from_)
    starts[uint64(bases.size)] = used
