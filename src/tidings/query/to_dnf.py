"""From the tree of a query to its normal form, with the cost known before anything is expanded.

Sets of literals are bit masks until the very end, where a union costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import and_
from typing import NamedTuple

from tidings.config import QUERY_LIMITS, QueryLimits
from tidings.errors import QueryError
from tidings.query.ast import And, Leaf, Not, Tree, leaves, start
from tidings.query.dnf import Conjunction, Literal

MAX_LITERALS = 1 << 17  # in the normal form; a thousand words times a thousand choices would take 33 MB and 60 ms
_ABSORBED_UP_TO = 64  # conjunctions; absorption compares every pair
_CHUNK_BITS = 32
_CHUNK = (1 << _CHUNK_BITS) - 1

_Masks = tuple[int, int]  # the required and the forbidden literals, one bit each


class Cost(NamedTuple):
    """The size of a normal form before duplicates are taken out."""

    conjunctions: int
    literals: int


def normal_form(tree: Tree, limits: QueryLimits = QUERY_LIMITS) -> tuple[Conjunction, ...]:
    """The conjunctions of the tree in typed order, without duplicates and contradictions; QueryError if refused."""
    cost(tree, limits)
    _refuse_unrequired(tree)
    bits: dict[Literal, int] = {}
    for leaf in leaves(tree):
        bits.setdefault(leaf.literal, len(bits))
    masks = list(dict.fromkeys(found for found in _expand(tree, True, bits) if not found[0] & found[1]))
    if not masks:
        raise QueryError("This query can never match: it forbids what it requires; take one of the two out.", 0)
    if len(masks) <= _ABSORBED_UP_TO:
        masks = _absorb(masks)
    return _conjunctions(masks, list(bits))


def cost(tree: Tree, limits: QueryLimits = QUERY_LIMITS) -> Cost:
    """What the tree expands to; QueryError at the innermost group that gives too much."""
    return _cost(tree, True, limits.conjunctions)


def _cost(tree: Tree, is_positive: bool, limit: int) -> Cost:
    if isinstance(tree, Leaf):
        return Cost(1, 1)
    if isinstance(tree, Not):
        return _cost(tree.child, not is_positive, limit)
    parts = [_cost(child, is_positive, limit) for child in tree.children]
    total = reduce(_times if _joins(tree, is_positive) else _plus, parts)
    if total.conjunctions > limit:
        raise QueryError(
            f"Its ORs multiply to more than {limit:,} combinations; write several smaller queries.", start(tree)
        )
    if total.literals > MAX_LITERALS:
        raise QueryError(
            f"Its ORs multiply its words to more than {MAX_LITERALS:,}; write several smaller queries.", start(tree)
        )
    return total


def _plus(one: Cost, other: Cost) -> Cost:
    return Cost(one.conjunctions + other.conjunctions, one.literals + other.literals)


def _times(one: Cost, other: Cost) -> Cost:
    literals = one.literals * other.conjunctions + other.literals * one.conjunctions
    return Cost(one.conjunctions * other.conjunctions, literals)


def _joins(tree: Tree, is_positive: bool) -> bool:
    """Whether all children must hold: under a negation AND and OR change places."""
    return isinstance(tree, And) == is_positive


def _refuse_unrequired(tree: Tree) -> None:
    at = _unrequired(tree, True)
    if at is not None:
        raise QueryError(
            "This part matches without any required word, tag or region; add a word that must occur beside it.", at
        )


def _unrequired(tree: Tree, is_positive: bool) -> int | None:
    """Where a conjunction stands that requires nothing; None when all of them require something."""
    if isinstance(tree, Leaf):
        return None if is_positive else tree.start
    if isinstance(tree, Not):
        return _unrequired(tree.child, not is_positive)
    places = [_unrequired(child, is_positive) for child in tree.children]
    if _joins(tree, is_positive) and None in places:
        return None
    return next((place for place in places if place is not None), None)


def _expand(tree: Tree, is_positive: bool, bits: dict[Literal, int]) -> list[_Masks]:
    if isinstance(tree, Leaf):
        bit = 1 << bits[tree.literal]
        return [(bit, 0) if is_positive else (0, bit)]
    if isinstance(tree, Not):
        return _expand(tree.child, not is_positive, bits)
    parts = [_expand(child, is_positive, bits) for child in tree.children]
    if _joins(tree, is_positive):
        return _product(parts)
    return [masks for part in parts for masks in part]


def _product(parts: list[list[_Masks]]) -> list[_Masks]:
    """Every choice of one from each part. The parts without a choice go first: a thousand words cost one union."""
    found = [(0, 0)]
    for part in sorted(parts, key=lambda part: len(part) > 1):
        found = [(required | more, forbidden | less) for required, forbidden in found for more, less in part]
    return found


def _absorb(masks: list[_Masks]) -> list[_Masks]:
    """Drop each conjunction that holds all of another one: it can add no match."""
    return [found for found in masks if not any(_is_within(other, found) for other in masks if other != found)]


def _is_within(small: _Masks, large: _Masks) -> bool:
    return small[0] & ~large[0] == 0 and small[1] & ~large[1] == 0


def _conjunctions(masks: list[_Masks], literals: list[Literal]) -> tuple[Conjunction, ...]:
    required = _sets([found[0] for found in masks], literals)
    forbidden = _sets([found[1] for found in masks], literals)
    return tuple(Conjunction(required[found[0]], forbidden[found[1]]) for found in masks)


def _sets(masks: list[int], literals: list[Literal]) -> dict[int, frozenset[Literal]]:
    """The set of each mask. Sets are built from sets, so that hardly any literal is hashed a second time."""
    common = reduce(and_, masks)
    shared = frozenset(_pick(common, literals))
    chunks: dict[tuple[int, int], frozenset[Literal]] = {}
    return {mask: _union(shared, _chunks(mask ^ common, literals, chunks)) for mask in set(masks)}


def _union(shared: frozenset[Literal], rest: list[frozenset[Literal]]) -> frozenset[Literal]:
    return shared.union(*rest) if rest else shared


def _chunks(
    mask: int, literals: list[Literal], known: dict[tuple[int, int], frozenset[Literal]]
) -> list[frozenset[Literal]]:
    found = []
    for first in range(0, mask.bit_length(), _CHUNK_BITS):
        chunk = mask >> first & _CHUNK
        if chunk and (first, chunk) not in known:
            known[first, chunk] = frozenset(_pick(chunk, literals[first : first + _CHUNK_BITS]))
        if chunk:
            found.append(known[first, chunk])
    return found


def _pick(mask: int, literals: list[Literal]) -> Iterator[Literal]:
    while mask:
        lowest = mask & -mask
        yield literals[lowest.bit_length() - 1]
        mask ^= lowest
