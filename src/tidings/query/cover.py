"""The entries under which a query is indexed: a few of its words, and a condition with the rest.

A query with few conjunctions has one entry for each of them. ``(a OR b) (c OR d) …`` with ten pairs has 1,024. Of such
a query only the smallest groups are multiplied out. The other groups stay as they are: they become the *condition* of
the entries, a tree that is evaluated only for posts that have the required words. The query matches a post if and only
if an entry does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidings.config import QUERY_LIMITS, QueryLimits
from tidings.query.ast import LiteralNode, Not, Tree, make_and
from tidings.query.dnf import Conjunction, Has, Literal, Phrase
from tidings.query.to_dnf import (
    check_size,
    expand_masks,
    is_contradictory,
    is_product,
    number_literals,
    to_conjunctions,
)

_ALWAYS_MULTIPLIED = 16  # conjunctions: measured, entries without a condition are found as fast up to this number
MAX_ENTRIES_OF_PRODUCT = 8  # larger queries: groups are multiplied out up to this number
_MAX_CONJUNCTIONS_EXPANDED = 64  # without duplicates these may be few enough


@dataclass(frozen=True, slots=True)
class Entry:
    """A post matches if it satisfies the conjunction and the condition, if there is one."""

    conjunction: Conjunction
    condition: Tree | None = None


class _Choice(NamedTuple):
    """An entry with bit masks for required and forbidden literals; `rest` are trees that must all hold."""

    required: int
    forbidden: int
    rest: tuple[Tree, ...] = ()


def to_entries(tree: Tree, limits: QueryLimits = QUERY_LIMITS) -> tuple[Entry, ...]:
    """Return the entries of a query; QueryError if the query is not valid."""
    bits = number_literals(tree)
    most = most_multiplied(len(bits))
    if check_size(tree, limits).conjunctions <= max(_MAX_CONJUNCTIONS_EXPANDED, most) or is_contradictory(tree):
        masks = expand_masks(tree, bits, limits)
        if len(masks) <= most:
            return tuple(map(Entry, to_conjunctions(masks, list(bits))))
    choices = [choice for choice in _Cover(bits).choices(tree, True) if not choice.required & choice.forbidden]
    conjunctions = to_conjunctions([choice[:2] for choice in choices], list(bits))
    conditions = (make_and(list(choice.rest)) for choice in choices)
    return tuple(dict.fromkeys(map(Entry, conjunctions, conditions)))


def most_multiplied(literals: int) -> int:
    """Return up to how many conjunctions a query of this many literals is multiplied out: about one per literal."""
    return max(_ALWAYS_MULTIPLIED, literals)


class _Cover:
    """Lists choices of which at least one must hold."""

    def __init__(self, bits: dict[Literal, int]) -> None:
        self._bits = bits
        self._words = sum(1 << bit for literal, bit in bits.items() if isinstance(literal, Has | Phrase))
        self._lengths = {1 << bit: _length(literal) for literal, bit in bits.items()}

    def choices(self, tree: Tree, is_positive: bool) -> list[_Choice]:
        """Return the choices of a tree, or of its negation."""
        if isinstance(tree, LiteralNode):
            bit = 1 << self._bits[tree.literal]
            return [_Choice(bit, 0) if is_positive else _Choice(0, bit)]
        if isinstance(tree, Not):
            return self.choices(tree.child, not is_positive)
        groups = [self.choices(child, is_positive) for child in tree.children]
        if not is_product(tree, is_positive):
            return [choice for group in groups for choice in group]
        trees = [child if is_positive else Not(child) for child in tree.children]
        return self._product(groups, trees)

    def _product(self, groups: list[list[_Choice]], trees: list[Tree]) -> list[_Choice]:
        """Multiply out single choices, a group that provides what entries need, and small groups; the rest stays."""
        product, rest = [_Choice(0, 0)], []
        for number in sorted(range(len(groups)), key=lambda number: self._rank(groups[number])):
            group = groups[number]
            is_needed = self._lack(group) < self._lack(product)
            if len(group) == 1 or is_needed or len(product) * len(group) <= MAX_ENTRIES_OF_PRODUCT:
                product = [_join(left, right) for left in product for right in group]
            else:
                rest.append(number)
        return [choice._replace(rest=choice.rest + tuple(trees[n] for n in sorted(rest))) for choice in product]

    def _rank(self, group: list[_Choice]) -> tuple[bool, int, int, int]:
        """Return the order in which groups are multiplied out: single choices first, then useful and small groups.

        Of equal ones, that with the longer words comes first: these are less frequent.
        """
        return len(group) > 1, self._lack(group), len(group), -min(map(self._word_length, group))

    def _lack(self, group: list[_Choice]) -> int:
        """Return 0 if every choice requires a word, 1 if every choice requires something (a region), 2 otherwise."""
        if all(choice.required & self._words for choice in group):
            return 0
        return 1 if all(choice.required for choice in group) else 2

    def _word_length(self, choice: _Choice) -> int:
        """Return the length of the longest required word."""
        longest, left = 0, choice.required
        while left:
            lowest = left & -left
            longest, left = max(longest, self._lengths[lowest]), left ^ lowest
        return longest


def _join(left: _Choice, right: _Choice) -> _Choice:
    return _Choice(left.required | right.required, left.forbidden | right.forbidden, left.rest + right.rest)


def _length(literal: Literal) -> int:
    if isinstance(literal, Has):
        return len(literal.term)
    return max(map(len, literal.terms)) if isinstance(literal, Phrase) else 0
