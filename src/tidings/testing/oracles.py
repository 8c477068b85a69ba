"""Oracles: slow and simple definitions to compare results with. `matching/brute_force.py` is the one for matching."""

from __future__ import annotations

from collections.abc import Sequence

from tidings.errors import QueryError
from tidings.matching.brute_force import RawPost, literal_holds, match_all
from tidings.query.ast import And, LiteralNode, Not, Tree
from tidings.query.dnf import Query
from tidings.query.parse import parse
from tidings.text.reference_analyzer import AnalyzedText

Matches = list[tuple[int, int]]  # (subscription, post)


def expected_matches(queries: Sequence[str], posts: Sequence[RawPost], first: int = 0) -> Matches:
    """Return the sorted brute-force matches; subscriptions are numbered from `first`, invalid queries match nothing."""
    parsed = [
        (number, query) for number, text in enumerate(queries, first) if (query := parse_or_none(text)) is not None
    ]
    matches = match_all(posts, [query for _, query in parsed])
    return sorted((parsed[row][0], post) for row, post in matches)


def parse_or_none(text: str) -> Query | None:
    """Return the parsed query, or None if it is invalid."""
    try:
        return parse(text)
    except QueryError:
        return None


def evaluate_tree(tree: Tree, post: AnalyzedText, lat: float | None = None, lon: float | None = None) -> bool:
    """Whether a post matches a query tree, without converting it to DNF."""
    if isinstance(tree, LiteralNode):
        return literal_holds(tree.literal, post, lat, lon)
    if isinstance(tree, Not):
        return not evaluate_tree(tree.child, post, lat, lon)
    results = [evaluate_tree(child, post, lat, lon) for child in tree.children]
    return all(results) if isinstance(tree, And) else any(results)
