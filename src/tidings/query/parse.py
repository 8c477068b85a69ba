"""Parse the query language to DNF. A QueryError has the position and the remedy.

    query       = conjunction { "OR" conjunction }
    conjunction = factor { factor }
    factor      = ( "NOT" | "-" ) factor | "(" query ")" | phrase | word

A literal that is ignored (a stop word, a name) is dropped from its parent as if it had not been typed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidings.config import QUERY_LIMITS, QueryLimits
from tidings.errors import QueryError
from tidings.query.ast import LiteralNode, Not, Tree, make_and, make_or
from tidings.query.cover import Entry, to_entries
from tidings.query.dnf import IgnoredText, Query, Region
from tidings.query.geo.region import validate_region
from tidings.query.lexer import SymbolKind, iter_symbols
from tidings.query.literals import parse_phrase, parse_word
from tidings.query.to_dnf import to_dnf
from tidings.text.char_classes import FIELD_BREAK

_ENDS = (SymbolKind.END, SymbolKind.CLOSE, SymbolKind.OR)  # no factor starts with these


@dataclass(frozen=True, slots=True)
class QueryTree:
    """The syntax tree of a query, not yet normalized."""

    tree: Tree
    ignored: tuple[IgnoredText, ...]
    literal_count: int
    depth: int


def parse(text: str, region: Region | None = None, limits: QueryLimits = QUERY_LIMITS) -> Query:
    """Return the parsed query, with `region` as a further requirement. Raises QueryError and nothing else."""
    parsed = parse_tree(text, region, limits)
    return Query(text, to_dnf(parsed.tree, limits), parsed.ignored, parsed.literal_count, parsed.depth)


def parse_entries(text: str, region: Region | None = None, limits: QueryLimits = QUERY_LIMITS) -> tuple[Entry, ...]:
    """Return what is indexed of a query: equivalent to `parse`, but large ORs are not multiplied out."""
    return to_entries(parse_tree(text, region, limits).tree, limits)


def parse_tree(text: str, region: Region | None = None, limits: QueryLimits = QUERY_LIMITS) -> QueryTree:
    """Return the tree, `region` last; QueryError if the text breaks a rule or has nothing to search for."""
    if not isinstance(text, str):
        raise QueryError(f"A query must be text, not {type(text).__name__}. Pass a string.", 0)
    if len(text) > limits.characters:
        raise QueryError(f"The query has more than {limits.characters:,} characters. Shorten it.", limits.characters)
    parser = _Parser(text.replace(FIELD_BREAK, " "), limits)
    tree = parser.query()
    if region is not None:
        node = parser.count(LiteralNode(validate_region(region), len(text), len(text)))
        tree = node if tree is None else make_and([tree, node])
    if tree is None:
        raise _empty_query_error(parser.ignored)
    return QueryTree(tree, tuple(parser.ignored), parser.literal_count, parser.deepest)


def _empty_query_error(ignored: list[IgnoredText]) -> QueryError:
    if not ignored:
        return QueryError("The query is empty. Write at least one word.", 0)
    reasons = " and ".join(dict.fromkeys(part.reason for part in ignored))
    return QueryError(f"There is nothing to search for, only {reasons}. Add another word.", ignored[0].start)


class _Parser:
    """Recursive descent with one symbol of look-ahead. Methods return None if all they read is ignored."""

    def __init__(self, text: str, limits: QueryLimits) -> None:
        self.ignored: list[IgnoredText] = []
        self.literal_count = 0
        self.deepest = 0
        self._limits = limits
        self._depth = 0
        self._symbols = iter_symbols(text)
        self._next = next(self._symbols)

    def query(self) -> Tree | None:
        """Return the whole tree; None if the query is empty or all of it is ignored."""
        if self._sees(SymbolKind.END):
            return None
        tree = self._disjunction()
        if self._sees(SymbolKind.CLOSE):
            raise QueryError("This parenthesis closes nothing. Remove it or open one before it.", self._next.start)
        return tree

    def count(self, node: LiteralNode) -> LiteralNode:
        """Return the literal after counting it; QueryError at the first one beyond the limit."""
        self.literal_count += 1
        if self.literal_count > self._limits.literals:
            raise QueryError(f"The query has more than {self._limits.literals:,} words. Shorten it.", node.start)
        return node

    def _disjunction(self) -> Tree | None:
        sides = [self._conjunction()]
        while self._sees(SymbolKind.OR):
            at = self._advance()
            if self._sees(*_ENDS):
                raise QueryError("OR has nothing on its right. Write a word there or remove the OR.", at)
            sides.append(self._conjunction())
        return make_or([side for side in sides if side is not None])

    def _conjunction(self) -> Tree | None:
        if self._sees(SymbolKind.OR):
            raise QueryError("OR has nothing on its left. Write a word there or remove the OR.", self._next.start)
        factors = []
        while not self._sees(*_ENDS):
            factors.append(self._factor())
        return make_and([factor for factor in factors if factor is not None])

    def _factor(self) -> Tree | None:
        if self._sees(SymbolKind.NOT):
            return self._negation()
        if self._sees(SymbolKind.OPEN):
            return self._group()
        return self._atom()

    def _negation(self) -> Tree | None:
        at = self._descend()
        if self._sees(*_ENDS):
            raise QueryError("This negation has nothing after it. Write what must not occur, or remove it.", at)
        child = self._factor()
        self._depth -= 1
        if isinstance(child, Not):
            return child.child
        return None if child is None else Not(child)

    def _group(self) -> Tree | None:
        at = self._descend()
        if self._sees(SymbolKind.CLOSE):
            raise QueryError("These parentheses are empty. Write something between them or remove them.", at)
        if self._sees(SymbolKind.END):
            raise QueryError("This parenthesis is never closed. Close it or remove it.", at)
        tree = self._disjunction()
        if not self._sees(SymbolKind.CLOSE):
            raise QueryError("This parenthesis is never closed. Add one at the end of the group.", at)
        self._advance()
        self._depth -= 1
        return tree

    def _atom(self) -> Tree | None:
        symbol = self._next
        parsed = parse_phrase(symbol) if symbol.kind is SymbolKind.PHRASE else parse_word(symbol)
        self._advance()
        self.ignored += parsed.ignored
        return make_and([self.count(node) for node in parsed.nodes])

    def _descend(self) -> int:
        """Skip the symbol that opens a level, and return its position."""
        self._depth += 1
        self.deepest = max(self.deepest, self._depth)
        if self._depth > self._limits.depth:
            message = f"Parentheses and negations are more than {self._limits.depth} deep. Use fewer levels."
            raise QueryError(message, self._next.start)
        return self._advance()

    def _sees(self, *kinds: SymbolKind) -> bool:
        return self._next.kind in kinds

    def _advance(self) -> int:
        at = self._next.start
        if not self._sees(SymbolKind.END):
            self._next = next(self._symbols)
        return at
