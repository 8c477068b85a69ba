"""Limits and their reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The most that a query may use; a query beyond it is invalid."""

    characters: int = 4096
    depth: int = 20
    literals: int = 1024
    conjunctions: int = 1024


QUERY_LIMITS = QueryLimits()
MAX_REGION_CORNERS = 10_000  # of all rings of a region; a post near the region is compared with each of them
MAX_TEXT_BYTES = 1 << 20  # posts are short; a post with a longer text is rejected
MAX_POSTS_PER_BATCH = 250_000  # about one second of work, so that the start of a batch costs little in comparison
