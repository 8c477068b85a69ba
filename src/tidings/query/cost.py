"""The cost of a query in units: one plain word costs 1.

A unit is 10 to 100 µs of compiling, and up to 10 µs of matching per 50,000 posts if the words are frequent. Each entry
costs 1. What is checked after the words of an entry (negations, phrases, regions, the condition) costs a quarter per
word, whether or not the check ends early. A query costs at least 1 per 16 characters, because they must be read: a
thousand words that must all occur are one entry.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidings.query.ast import iter_literals
from tidings.query.cover import Entry
from tidings.query.dnf import Has, Literal, Phrase, Polygons, Region
from tidings.query.parse import parse_entries

_CHECKS_PER_UNIT = 4
CHARACTERS_PER_UNIT = 16


def query_cost(text: str, region: Region | None = None) -> int:
    """Return the cost of a query; QueryError if it is not valid."""
    return entries_cost(parse_entries(text, region), len(text))


def entries_cost(entries: Iterable[Entry], characters: int) -> int:
    """Return the cost of a query with these entries and this many characters."""
    checks = [_count_checks(entry) for entry in entries]
    return max(len(checks) + sum(checks) // _CHECKS_PER_UNIT, characters // CHARACTERS_PER_UNIT)


def _count_checks(entry: Entry) -> int:
    """Return how many words are checked after those that are required; a corner of a polygon counts like a word."""
    required = sum(_weigh(literal) for literal in entry.conjunction.required if not isinstance(literal, Has))
    forbidden = sum(map(_weigh, entry.conjunction.forbidden))
    nodes = iter_literals(entry.condition) if entry.condition is not None else ()
    return required + forbidden + sum(_weigh(node.literal) for node in nodes)


def _weigh(literal: Literal) -> int:
    if isinstance(literal, Phrase):
        return len(literal.terms)
    return literal.corner_count if isinstance(literal, Polygons) else 1
