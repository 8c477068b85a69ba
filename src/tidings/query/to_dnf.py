"""Normalize the tree of a query to DNF. The size is computed before anything is expanded.

Sets of literals are bit masks until the very end, because a union of masks is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from typing import NamedTuple

from tidings.config import QUERY_LIMITS, QueryLimits
from tidings.errors import QueryError
from tidings.query.ast import And, LiteralNode, Not, Tree, iter_literals, start_of
from tidings.query.dnf import Conjunction, Literal

MAX_LITERALS = 1 << 17  # in the DNF; a thousand words times a thousand choices would take 33 MB and 60 ms
_ABSORB_MAX_CONJUNCTIONS = 64  # absorption compares every pair
_CHUNK_BITS = 32
_CHUNK = (1 << _CHUNK_BITS) - 1

Masks = tuple[int, int]  # the required and the forbidden literals, one bit each


class DnfSize(NamedTuple):
    """The size of a DNF before duplicates are removed."""

    conjunctions: int
    literals: int


def to_dnf(tree: Tree, limits: QueryLimits = QUERY_LIMITS) -> tuple[Conjunction, ...]:
    """Return the conjunctions in typed order, without duplicates and contradictions; or QueryError."""
    bits = number_literals(tree)
    return to_conjunctions(expand_masks(tree, bits, limits), list(bits))


def number_literals(tree: Tree) -> dict[Literal, int]:
    """Return the bit of each distinct literal, in typed order."""
    return {literal: bit for bit, literal in enumerate(dict.fromkeys(node.literal for node in iter_literals(tree)))}


def expand_masks(tree: Tree, bits: dict[Literal, int], limits: QueryLimits = QUERY_LIMITS) -> list[Masks]:
    """Return the DNF as bit masks, without duplicates and contradictions; QueryError if the query is not valid."""
    check_size(tree, limits)
    masks = list(dict.fromkeys(pair for pair in _expand(tree, True, bits) if not pair[0] & pair[1]))
    if not masks:
        raise QueryError("This query can never match: it forbids what it requires. Remove one of the two.", 0)
    return _absorb(masks) if len(masks) <= _ABSORB_MAX_CONJUNCTIONS else masks


def check_size(tree: Tree, limits: QueryLimits = QUERY_LIMITS) -> DnfSize:
    """Return the size of the DNF; QueryError if it exceeds a limit or a conjunction requires nothing."""
    size = dnf_size(tree, limits)
    _check_required(tree)
    return size


def is_contradictory(tree: Tree) -> bool:
    """Return whether some literal occurs both required and forbidden: only then may a conjunction be impossible."""
    required, forbidden = set[Literal](), set[Literal]()
    _collect_literals(tree, required, forbidden)
    return not required.isdisjoint(forbidden)


def _collect_literals(tree: Tree, required: set[Literal], forbidden: set[Literal]) -> None:
    if isinstance(tree, LiteralNode):
        required.add(tree.literal)
    elif isinstance(tree, Not):
        _collect_literals(tree.child, forbidden, required)
    else:
        for child in tree.children:
            _collect_literals(child, required, forbidden)


def dnf_size(tree: Tree, limits: QueryLimits = QUERY_LIMITS) -> DnfSize:
    """Return the size of the DNF; QueryError at the innermost group that exceeds a limit."""
    return _size(tree, True, limits.conjunctions)


def _size(tree: Tree, is_positive: bool, limit: int) -> DnfSize:
    if isinstance(tree, LiteralNode):
        return DnfSize(1, 1)
    if isinstance(tree, Not):
        return _size(tree.child, not is_positive, limit)
    parts = [_size(child, is_positive, limit) for child in tree.children]
    total = reduce(_times if is_product(tree, is_positive) else _plus, parts)
    if total.conjunctions > limit:
        raise QueryError(
            f"The ORs multiply to more than {limit:,} combinations. Write several smaller queries.", start_of(tree)
        )
    if total.literals > MAX_LITERALS:
        raise QueryError(
            f"The ORs multiply the words to more than {MAX_LITERALS:,}. Write several smaller queries.", start_of(tree)
        )
    return total


def _plus(left: DnfSize, right: DnfSize) -> DnfSize:
    return DnfSize(left.conjunctions + right.conjunctions, left.literals + right.literals)


def _times(left: DnfSize, right: DnfSize) -> DnfSize:
    literals = left.literals * right.conjunctions + right.literals * left.conjunctions
    return DnfSize(left.conjunctions * right.conjunctions, literals)


def is_product(tree: Tree, is_positive: bool) -> bool:
    """Return whether all children must hold: a negation exchanges AND and OR."""
    return isinstance(tree, And) == is_positive


def _check_required(tree: Tree) -> None:
    at = _find_unrequired(tree, True)
    if at is not None:
        raise QueryError("This part matches without any required word, tag or region. Add a word that must occur.", at)


def _find_unrequired(tree: Tree, is_positive: bool) -> int | None:
    """Return the position of a conjunction that requires nothing, or None."""
    if isinstance(tree, LiteralNode):
        return None if is_positive else tree.start
    if isinstance(tree, Not):
        return _find_unrequired(tree.child, not is_positive)
    positions = [_find_unrequired(child, is_positive) for child in tree.children]
    if is_product(tree, is_positive) and None in positions:
        return None
    return next((position for position in positions if position is not None), None)


def _expand(tree: Tree, is_positive: bool, bits: dict[Literal, int]) -> list[Masks]:
    if isinstance(tree, LiteralNode):
        bit = 1 << bits[tree.literal]
        return [(bit, 0) if is_positive else (0, bit)]
    if isinstance(tree, Not):
        return _expand(tree.child, not is_positive, bits)
    parts = [_expand(child, is_positive, bits) for child in tree.children]
    if is_product(tree, is_positive):
        return _product(parts)
    return [masks for part in parts for masks in part]


def _product(parts: list[list[Masks]]) -> list[Masks]:
    """Return every choice of one from each part. Parts without a choice go first: they cost one union."""
    product = [(0, 0)]
    for part in sorted(parts, key=lambda part: len(part) > 1):
        product = [(required | more, forbidden | less) for required, forbidden in product for more, less in part]
    return product


def _absorb(masks: list[Masks]) -> list[Masks]:
    """Drop each conjunction that contains all of another one: it cannot add a match."""
    return [pair for pair in masks if not any(_is_subset(other, pair) for other in masks if other != pair)]


def _is_subset(small: Masks, large: Masks) -> bool:
    return small[0] & ~large[0] == 0 and small[1] & ~large[1] == 0


def to_conjunctions(masks: Sequence[Masks], literals: Sequence[Literal]) -> tuple[Conjunction, ...]:
    """Return the conjunctions of bit masks."""
    required = _sets([pair[0] for pair in masks], literals)
    forbidden = _sets([pair[1] for pair in masks], literals)
    return tuple(Conjunction(required[pair[0]], forbidden[pair[1]]) for pair in masks)


def _sets(masks: list[int], literals: Sequence[Literal]) -> dict[int, frozenset[Literal]]:
    """Return the set of each mask. Sets are built from sets, so that few literals are hashed twice."""
    common = reduce(and_, masks)
    shared = frozenset(_pick(common, literals))
    chunks: dict[tuple[int, int], frozenset[Literal]] = {}
    return {mask: _union(shared, _chunks(mask ^ common, literals, chunks)) for mask in dict.fromkeys(masks)}


def _union(shared: frozenset[Literal], rest: list[frozenset[Literal]]) -> frozenset[Literal]:
    return shared.union(*rest) if rest else shared


def _chunks(
    mask: int, literals: Sequence[Literal], cache: dict[tuple[int, int], frozenset[Literal]]
) -> list[frozenset[Literal]]:
    chunks = []
    for first in range(0, mask.bit_length(), _CHUNK_BITS):
        chunk = mask >> first & _CHUNK
        if chunk and (first, chunk) not in cache:
            cache[first, chunk] = frozenset(_pick(chunk, literals[first : first + _CHUNK_BITS]))
        if chunk:
            chunks.append(cache[first, chunk])
    return chunks


def _pick(mask: int, literals: Sequence[Literal]) -> Iterator[Literal]:
    while mask:
        lowest = mask & -mask
        yield literals[lowest.bit_length() - 1]
        mask ^= lowest
