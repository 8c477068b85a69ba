"""Frozen settings and limits, each with its reason. Nothing here changes while a job runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a query may cost; beyond it the query is refused with its position."""

    characters: int = 4096
    depth: int = 20
    leaves: int = 1024
    conjunctions: int = 1024


QUERY_LIMITS = QueryLimits()
MAX_CORNERS = 10_000  # of all rings of a region together; every post near it is held against each of them
MAX_TEXT_BYTES = 1 << 20  # posts are short; a longer text is kept aside, not matched
MAX_POSTS_A_BATCH = 250_000  # of a stream: about a second's work, next to which starting a batch is little
