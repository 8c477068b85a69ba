"""Residuals: what is left to check of a conjunction after its four least frequent terms.

A residual is a sequence of numbers: ``n, further terms…`` ``n, forbidden terms…`` ``n, (negated, length, terms…)…``
for phrases, ``n, (negated, region)…`` for regions, each identified by its first row (`geo/geometry.py`), and
``n, code…`` for a condition of n numbers (`condition.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inline, kernel, read, write
from tidings.query.condition import Tests, compile_condition, decode_tests, encode_tests
from tidings.query.cover import Entry
from tidings.query.dnf import Conjunction, Has, Literal, Phrase, Region
from tidings.query.geo.geometry import Row, encode_region, is_inside

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TERM_MASK = np.uint32(0x7FFFFFFF)  # without the flag `COMPANION`


@dataclass(frozen=True, slots=True)
class BaseResidual:
    """A residual without its further terms, decoded, so that terms and regions can be renumbered."""

    forbidden: tuple[int, ...]
    phrases: tuple[tuple[int, tuple[int, ...]], ...]  # (negated, terms)
    regions: tuple[tuple[int, int], ...]  # (negated, region)
    tests: Tests = ()  # of the condition

    @classmethod
    def decode(cls, code: Sequence[int]) -> BaseResidual:
        numbers = iter(code)
        forbidden = tuple(next(numbers) for _ in range(next(numbers)))
        phrases = []
        for _ in range(next(numbers)):
            negated, length = next(numbers), next(numbers)
            phrases.append((negated, tuple(next(numbers) for _ in range(length))))
        regions = tuple((next(numbers), next(numbers)) for _ in range(next(numbers)))
        tests = decode_tests([next(numbers) for _ in range(next(numbers))])
        return cls(forbidden, tuple(phrases), regions, tests)

    def encode(self) -> tuple[int, ...]:
        code = [len(self.forbidden), *self.forbidden, len(self.phrases)]
        for negated, terms in self.phrases:
            code += [negated, len(terms), *terms]
        code += [len(self.regions), *(number for region in self.regions for number in region)]
        condition = encode_tests(self.tests)
        return (*code, len(condition), *condition)

    def renumber(self, term: Callable[[int], int], region: Callable[[int], int]) -> BaseResidual:
        return BaseResidual(
            tuple(map(term, self.forbidden)),
            tuple((negated, tuple(map(term, terms))) for negated, terms in self.phrases),
            tuple((negated, region(number)) for negated, number in self.regions),
            tuple(
                test._replace(
                    terms=tuple(map(term, test.terms)), region=test.region if test.terms else region(test.region)
                )
                for test in self.tests
            ),
        )

    def terms(self) -> set[int]:
        """Return all terms that affect the result."""
        in_phrases = {term for _, terms in self.phrases for term in terms}
        return in_phrases.union(self.forbidden, *(test.terms for test in self.tests))

    def phrase_terms(self) -> set[int]:
        """Return the terms that occur in phrases."""
        in_tests = (test.terms for test in self.tests if len(test.terms) > 1)
        return set().union(*(terms for _, terms in self.phrases), *in_tests)

    def region_rows(self) -> list[int]:
        """Return the regions that affect the result."""
        return [region for _, region in self.regions] + [test.region for test in self.tests if not test.terms]


EMPTY_RESIDUAL = BaseResidual((), (), ())


@dataclass
class ResidualWriter:
    """Collects residuals and their regions; equal ones are stored once."""

    term_id: Callable[[str], int]
    residuals: dict[BaseResidual, int] = field(default_factory=dict)
    _regions: dict[Literal, int] = field(default_factory=dict)
    _rows: list[Row] = field(default_factory=list)
    _term_ids: dict[str, int] = field(default_factory=dict)

    def term_number(self, term: str) -> int:
        """Return the number of a term. A term is looked up once: queries with many conjunctions repeat their terms."""
        number = self._term_ids.get(term)
        if number is None:
            number = self._term_ids[term] = self.term_id(term)
        return number

    def required_terms(self, conjunction: Conjunction) -> list[int]:
        """Return all terms that a post must contain, those of phrases included."""
        terms: list[str] = []
        for literal in conjunction.required:
            if isinstance(literal, Has):
                terms.append(literal.term)
            elif isinstance(literal, Phrase):
                terms.extend(literal.terms)
        # Sorted by text first: the order of a frozenset depends on PYTHONHASHSEED, and new terms get the next number.
        return sorted({self.term_number(term) for term in sorted(terms)})

    def add_residual(self, entry: Entry) -> int:
        """Return the number of the residual, from 1 on; 0 if terms and at most one region are all."""
        conjunction = entry.conjunction
        phrases = [(False, terms) for terms in sorted(p.terms for p in conjunction.required if isinstance(p, Phrase))]
        phrases += [(True, terms) for terms in sorted(p.terms for p in conjunction.forbidden if isinstance(p, Phrase))]
        regions = [(False, r) for r in sort_regions(conjunction.required)]
        regions += [(True, r) for r in sort_regions(conjunction.forbidden)]
        terms = sorted(h.term for h in conjunction.forbidden if isinstance(h, Has))
        forbidden = sorted(map(self.term_number, terms))
        is_one_region = len(regions) < 2 and not any(negated for negated, _ in regions)
        if is_one_region and not phrases and not forbidden and entry.condition is None:
            return 0
        base = BaseResidual(
            tuple(forbidden),
            tuple(sorted((int(neg), tuple(map(self.term_number, terms))) for neg, terms in phrases)),
            tuple(sorted((int(neg), self.add_region(r)) for neg, r in regions)),
            compile_condition(entry.condition, self.term_number, self.add_region),
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
        while offset < length and terms[first + offset] & _TERM_MASK == code[at + offset]:
            offset += _ONE
        if offset == length:
            return True
        first += _ONE
    return False


@inline
def _has_all(code, at, length, bitmap):  # type: ignore[no-untyped-def]
    """Return whether the post has all of the terms code[at : at + length], in any order."""
    for offset in range(at, at + length):
        if not has_term(bitmap, uint64(code[offset])):
            return False
    return True


@inline
def _check_condition(code, at, length, regions, bitmap, terms, start, end, lon, lat):  # type: ignore[no-untyped-def]
    """Return whether a post satisfies the condition code[at : at + length]; see `condition.py`."""
    test = _ZERO
    while test < length:
        first = at + test
        count = uint64(code[first])
        if count == 0:
            holds = is_inside(regions, code[first + uint64(3)], lon, lat)
        else:
            holds = _has_all(code, first + uint64(3), count, bitmap)
            if holds and count > 1:
                holds = _has_phrase(code, first + uint64(3), count, terms, start, end)
        test = uint64(code[first + _ONE]) if holds else uint64(code[first + uint64(2)])
        if test == 0:
            return False
    return True


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
        holds = _has_all(code, at + uint64(2), length, bitmap)
        if holds:
            holds = _has_phrase(code, at + uint64(2), length, terms, start, end)
        if holds == (code[at] != 0):
            return False
        at += uint64(2) + length
    region_count = uint64(code[at])
    at += _ONE
    for _ in range(region_count):
        if is_inside(regions, code[at + _ONE], lon, lat) == (code[at] != 0):
            return False
        at += uint64(2)
    return _check_condition(code, at + _ONE, uint64(code[at]), regions, bitmap, terms, start, end, lon, lat)


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
