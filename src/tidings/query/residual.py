"""Programs: what an entry demands of a post beyond its four rarest words.

A program is a run of numbers: ``n, more terms…`` ``n, forbidden terms…`` ``n, (negated, length, terms…)…`` phrases
``n, (negated, region number)…`` regions, each named by its first row (`shape.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numba import types, uint8, uint32, uint64
from numpy.typing import NDArray

from tidings.jit import inlined, kernel, read, write
from tidings.query.dnf import Conjunction, Has, Literal, Phrase, Place
from tidings.query.geo.geometry import Row, inside, rows_of

_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class BaseProgram:
    """A program without its further terms, taken apart: to renumber terms and regions, or to look inside."""

    forbidden: tuple[int, ...]
    phrases: tuple[tuple[int, tuple[int, ...]], ...]  # (negated, terms)
    regions: tuple[tuple[int, int], ...]  # (negated, region)

    @classmethod
    def read(cls, code: Sequence[int]) -> BaseProgram:
        numbers = iter(code)
        forbidden = tuple(next(numbers) for _ in range(next(numbers)))
        phrases = []
        for _ in range(next(numbers)):
            negated, length = next(numbers), next(numbers)
            phrases.append((negated, tuple(next(numbers) for _ in range(length))))
        regions = tuple((next(numbers), next(numbers)) for _ in range(next(numbers)))
        return cls(forbidden, tuple(phrases), regions)

    def code(self) -> tuple[int, ...]:
        code = [len(self.forbidden), *self.forbidden, len(self.phrases)]
        for negated, terms in self.phrases:
            code += [negated, len(terms), *terms]
        code.append(len(self.regions))
        return (*code, *(number for region in self.regions for number in region))

    def renumbered(self, term: Callable[[int], int], region: Callable[[int], int]) -> BaseProgram:
        return BaseProgram(
            tuple(map(term, self.forbidden)),
            tuple((negated, tuple(map(term, terms))) for negated, terms in self.phrases),
            tuple((negated, region(number)) for negated, number in self.regions),
        )

    def terms(self) -> set[int]:
        return {*self.forbidden, *(t for _, terms in self.phrases for t in terms)}


@dataclass
class ProgramWriter:
    """Collects programs, equal ones once, and the regions they name."""

    number: Callable[[str], int]
    programs: dict[BaseProgram, int] = field(default_factory=dict)
    _regions: dict[Literal, int] = field(default_factory=dict)
    _rows: list[Row] = field(default_factory=list)

    def terms(self, conjunction: Conjunction) -> list[int]:
        """All terms a post must hold, those of phrases included."""
        terms: list[str] = []
        for literal in conjunction.required:
            if isinstance(literal, Has):
                terms.append(literal.term)
            elif isinstance(literal, Phrase):
                terms.extend(literal.terms)
        return sorted({self.number(term) for term in terms})

    def program(self, conjunction: Conjunction) -> int:
        """The number of the program a conjunction needs, from 1 on; 0 for none: words and one region need none."""
        phrases = [(False, p) for p in conjunction.required if isinstance(p, Phrase)]
        phrases += [(True, p) for p in conjunction.forbidden if isinstance(p, Phrase)]
        regions = [(False, r) for r in conjunction.required if isinstance(r, Place)]
        regions += [(True, r) for r in conjunction.forbidden if isinstance(r, Place)]
        forbidden = sorted(self.number(h.term) for h in conjunction.forbidden if isinstance(h, Has))
        is_one_region = len(regions) < 2 and not any(negated for negated, _ in regions)
        if is_one_region and not phrases and not forbidden:
            return 0
        base = BaseProgram(
            tuple(forbidden),
            tuple(sorted((int(neg), tuple(self.number(t) for t in p.terms)) for neg, p in phrases)),
            tuple(sorted((int(neg), self.region(r)) for neg, r in regions)),
        )
        return self.programs.setdefault(base, len(self.programs) + 1)

    def region(self, place: Place) -> int:
        """The number of a region: its first row."""
        number = self._regions.setdefault(place, len(self._rows))
        if number == len(self._rows):
            self._rows += rows_of(place)
        return number

    def regions(self) -> NDArray[np.float64]:
        """The rows of all regions."""
        return np.array(self._rows, np.float64).reshape(-1, 4)


@inlined
def _has(bitmap, term):  # type: ignore[no-untyped-def]
    return (bitmap[term >> uint64(3)] >> uint8(term & uint64(7))) & uint8(1) != 0


@inlined
def _holds_phrase(code, at, length, terms, start, end):  # type: ignore[no-untyped-def]
    """Whether the terms code[at : at + length] stand next to each other in the post."""
    place = start
    while place + length <= end:
        offset = _ZERO
        while offset < length and terms[place + offset] == code[at + offset]:
            offset += _ONE
        if offset == length:
            return True
        place += _ONE
    return False


@inlined
def run(code, at, regions, bitmap, terms, start, end, lon, lat):  # type: ignore[no-untyped-def]
    """Whether a post (its bitmap, its terms from start to end, its position or NaN) satisfies the program at `at`."""
    more = uint64(code[at])
    at += _ONE
    for place in range(at, at + more):
        if not _has(bitmap, uint64(code[place])):
            return False
    at += more
    forbidden = uint64(code[at])
    at += _ONE
    for place in range(at, at + forbidden):
        if _has(bitmap, uint64(code[place])):
            return False
    at += forbidden
    phrases = uint64(code[at])
    at += _ONE
    for _ in range(phrases):
        length = uint64(code[at + _ONE])
        if _holds_phrase(code, at + uint64(2), length, terms, start, end) == (code[at] != 0):
            return False
        at += uint64(2) + length
    places = uint64(code[at])
    at += _ONE
    for _ in range(places):
        if inside(regions, code[at + _ONE], lon, lat) == (code[at] != 0):
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
def write_programs(terms, firsts, ends, bases, base_code, base_start, starts, code):  # type: ignore[no-untyped-def]
    """Write the program of each entry: its terms from firsts on, then its base program (1 is the empty one).

    With an empty `code`, only `starts` is worked out.
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
