"""The subscription language: from what was typed to the normal form, or a refusal that says where and what to do.

    query       = conjunction { "OR" conjunction }
    conjunction = factor { factor }
    factor      = ( "NOT" | "-" ) factor | "(" query ")" | phrase | word

A leaf that says nothing (a stop word, a name) vanishes from its parent as if it had not been typed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidings.config import QUERY_LIMITS, QueryLimits
from tidings.errors import QueryError
from tidings.query.ast import Leaf, Not, Tree, all_of, any_of
from tidings.query.dnf import Ignored, Place, Query
from tidings.query.geo.region import checked
from tidings.query.geo.region import region as region
from tidings.query.lexer import Kind, symbols
from tidings.query.literals import read_phrase, read_word
from tidings.query.to_dnf import normal_form
from tidings.text.char_classes import FIELD_BREAK

_ENDS = (Kind.END, Kind.CLOSE, Kind.OR)  # what no factor starts with


@dataclass(frozen=True, slots=True)
class Reading:
    """A query read but not yet normalised."""

    tree: Tree
    ignored: tuple[Ignored, ...]
    leaves: int
    depth: int


def parse(text: str, region: Place | None = None, limits: QueryLimits = QUERY_LIMITS) -> Query:
    """The query as it is understood; `region` is required besides. QueryError, and nothing else, when refused."""
    reading = read(text, region, limits)
    return Query(text, normal_form(reading.tree, limits), reading.ignored, reading.leaves, reading.depth)


def read(text: str, region: Place | None = None, limits: QueryLimits = QUERY_LIMITS) -> Reading:
    """The tree of the query, `region` last; QueryError when the text breaks a rule or holds nothing to search for."""
    if not isinstance(text, str):
        raise QueryError("A query is text; this is not.", 0)
    if len(text) > limits.characters:
        raise QueryError(f"A query has at most {limits.characters:,} characters; shorten it.", limits.characters)
    parser = _Parser(text.replace(FIELD_BREAK, " "), limits)
    typed = parser.query()
    if region is not None:
        typed = all_of([*([typed] if typed else []), parser.leaf(Leaf(checked(region), len(text), len(text)))])
    if typed is None:
        raise _nothing(parser.ignored)
    return Reading(typed, tuple(parser.ignored), parser.leaves, parser.deepest)


def _nothing(ignored: list[Ignored]) -> QueryError:
    if not ignored:
        return QueryError("The query is empty; write at least one word.", 0)
    reasons = " and ".join(dict.fromkeys(piece.reason for piece in ignored))
    return QueryError(f"There is nothing to search for but {reasons}; add a word that counts.", ignored[0].start)


class _Parser:
    """Recursive descent with one symbol of look-ahead. A method returns None when all it read has vanished."""

    def __init__(self, text: str, limits: QueryLimits) -> None:
        self.ignored: list[Ignored] = []
        self.leaves = 0
        self.deepest = 0
        self._limits = limits
        self._depth = 0
        self._symbols = symbols(text)
        self._next = next(self._symbols)

    def query(self) -> Tree | None:
        """The whole query; None when it is empty or says nothing."""
        if self._sees(Kind.END):
            return None
        tree = self._disjunction()
        if self._sees(Kind.CLOSE):
            raise QueryError("This parenthesis closes nothing; remove it or open one before it.", self._next.start)
        return tree

    def leaf(self, leaf: Leaf) -> Leaf:
        """The leaf, counted."""
        self.leaves += 1
        if self.leaves > self._limits.leaves:
            raise QueryError(f"A query has at most {self._limits.leaves:,} words; shorten it.", leaf.start)
        return leaf

    def _disjunction(self) -> Tree | None:
        sides = [self._conjunction()]
        while self._sees(Kind.OR):
            at = self._advance()
            if self._sees(*_ENDS):
                raise QueryError("OR has nothing on its right; write a word there or remove the OR.", at)
            sides.append(self._conjunction())
        return any_of([side for side in sides if side is not None])

    def _conjunction(self) -> Tree | None:
        if self._sees(Kind.OR):
            raise QueryError("OR has nothing on its left; write a word there or remove the OR.", self._next.start)
        factors = []
        while not self._sees(*_ENDS):
            factors.append(self._factor())
        return all_of([factor for factor in factors if factor is not None])

    def _factor(self) -> Tree | None:
        if self._sees(Kind.NOT):
            return self._negation()
        if self._sees(Kind.OPEN):
            return self._group()
        return self._atom()

    def _negation(self) -> Tree | None:
        at = self._descend()
        if self._sees(*_ENDS):
            raise QueryError("This negation has nothing behind it; write what must not occur, or remove it.", at)
        child = self._factor()
        self._depth -= 1
        if isinstance(child, Not):
            return child.child
        return None if child is None else Not(child)

    def _group(self) -> Tree | None:
        at = self._descend()
        if self._sees(Kind.CLOSE):
            raise QueryError("These parentheses are empty; write something between them or remove them.", at)
        if self._sees(Kind.END):
            raise QueryError("This parenthesis is never closed; close it or remove it.", at)
        tree = self._disjunction()
        if not self._sees(Kind.CLOSE):
            raise QueryError("This parenthesis is never closed; add one at the end of the group.", at)
        self._advance()
        self._depth -= 1
        return tree

    def _atom(self) -> Tree | None:
        symbol = self._next
        read = read_phrase(symbol) if symbol.kind is Kind.PHRASE else read_word(symbol)
        self._advance()
        self.ignored += read.ignored
        return all_of([self.leaf(leaf) for leaf in read.leaves])

    def _descend(self) -> int:
        """Step over what opens a level, and return its place."""
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        if self._depth > self._limits.depth:
            raise QueryError(
                f"Parentheses and negations go at most {self._limits.depth} deep; write it flatter.", self._next.start
            )
        return self._advance()

    def _sees(self, *kinds: Kind) -> bool:
        return self._next.kind in kinds

    def _advance(self) -> int:
        at = self._next.start
        if not self._sees(Kind.END):
            self._next = next(self._symbols)
        return at
