"""The syntax tree of a query: literals under AND, OR and NOT. `to_dnf.py` normalizes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidings.query.dnf import Literal


@dataclass(frozen=True, slots=True)
class LiteralNode:
    """A literal and the range of characters (0-based) in which it was typed."""

    literal: Literal
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Not:
    """True if its child is false."""

    child: Tree


@dataclass(frozen=True, slots=True)
class And:
    """True if all of its children are; there are at least two."""

    children: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if any of its children is; there are at least two."""

    children: tuple[Tree, ...]


Tree = LiteralNode | Not | And | Or


def make_and(children: list[Tree]) -> Tree | None:
    """Return the AND of the children: a single child itself, None without children."""
    return And(tuple(children)) if len(children) > 1 else next(iter(children), None)


def make_or(children: list[Tree]) -> Tree | None:
    """Return the OR of the children: a single child itself, None without children."""
    return Or(tuple(children)) if len(children) > 1 else next(iter(children), None)


def iter_literals(tree: Tree) -> Iterator[LiteralNode]:
    """Yield all literals in the order in which they were typed."""
    if isinstance(tree, LiteralNode):
        yield tree
    elif isinstance(tree, Not):
        yield from iter_literals(tree.child)
    else:
        for child in tree.children:
            yield from iter_literals(child)


def start_of(tree: Tree) -> int:
    """Return the position of the first literal of the tree."""
    return next(iter_literals(tree)).start
