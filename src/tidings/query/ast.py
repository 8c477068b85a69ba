"""A query as it was typed: a tree of leaves under AND, OR and NOT. The normal form is made from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidings.query.dnf import Literal


@dataclass(frozen=True, slots=True)
class Leaf:
    """One literal and the piece of the query (start and end, 0-based) that asked for it."""

    literal: Literal
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Not:
    """True when its child is not."""

    child: Tree


@dataclass(frozen=True, slots=True)
class And:
    """True when all of its children are; there are at least two."""

    children: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True when any of its children is; there are at least two."""

    children: tuple[Tree, ...]


Tree = Leaf | Not | And | Or


def all_of(children: list[Tree]) -> Tree | None:
    """The conjunction of what is left of the children; None when nothing is."""
    return And(tuple(children)) if len(children) > 1 else next(iter(children), None)


def any_of(children: list[Tree]) -> Tree | None:
    """The disjunction of what is left of the children; None when nothing is."""
    return Or(tuple(children)) if len(children) > 1 else next(iter(children), None)


def leaves(tree: Tree) -> Iterator[Leaf]:
    """All leaves in the order they were typed."""
    if isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, Not):
        yield from leaves(tree.child)
    else:
        for child in tree.children:
            yield from leaves(child)


def start(tree: Tree) -> int:
    """Where the first leaf of the tree stands in the query."""
    return next(leaves(tree)).start
