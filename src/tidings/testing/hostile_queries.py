"""Valid queries that cost as much as possible: for tests that one owner cannot slow down the others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tidings.config import QUERY_LIMITS

FREQUENT_WORDS = (
    *("rain", "storm", "wind", "snow", "city", "game", "team", "win", "vote", "news", "film", "song", "play", "road"),
    *("fire", "water", "house", "night", "light", "green", "power", "price", "stock", "trade", "world", "party"),
    *("state", "court", "judge", "money", "music", "star", "goal", "race", "train", "plane", "ship", "beach"),
)


def ten_pairs(seed: int, words: Sequence[str] = FREQUENT_WORDS) -> str:
    """Return ``(a OR b) (c OR d) …`` with ten pairs of frequent words: 1,024 conjunctions in about 150 characters."""
    chosen = random.Random(seed).sample(list(words), 20)
    return " ".join(f"({left} OR {right})" for left, right in zip(chosen[::2], chosen[1::2], strict=True))


def two_wide_groups(seed: int, words: Sequence[str] = FREQUENT_WORDS) -> str:
    """Return ``(a OR b …) (c OR d …)`` with 32 words each: 1,024 conjunctions that many posts satisfy."""
    rng = random.Random(seed)
    return " ".join(f"({' OR '.join(rng.sample(list(words), 32))})" for _ in range(2))


def many_words(seed: int, words: Sequence[str] = FREQUENT_WORDS) -> str:
    """Return an OR of as many different words as a query may have: each must be indexed."""
    return _fill(" OR ".join, seed, lambda number: f"{words[seed % len(words)]}{number}")


def many_phrases(seed: int, words: Sequence[str] = FREQUENT_WORDS) -> str:
    """Return an OR of as many phrases as a query may have: they do not take the fast path of plain words."""
    return _fill(" OR ".join, seed, lambda number: f'"{words[seed % len(words)]} {number}"')


def many_required_words(seed: int, words: Sequence[str] = FREQUENT_WORDS) -> str:
    """Return an AND of as many words as a query may have: one entry that takes long to compile."""
    return _fill(" ".join, seed, lambda number: f"{words[number % len(words)]}{number}" if number else f"w{seed}")


def many_negations(seed: int, words: Sequence[str] = FREQUENT_WORDS) -> str:
    """Return a frequent word and as many forbidden words as a query may have: one entry with a long residual."""
    return _fill(" ".join, seed, lambda number: f"-{seed}x{number}" if number else words[seed % len(words)])


def _fill(join: Callable[[list[str]], str], seed: int, part: Callable[[int], str]) -> str:
    """Return as many parts as fit into a query."""
    parts = [part(0)]
    while len(parts) < QUERY_LIMITS.literals and len(join([*parts, part(len(parts))])) <= QUERY_LIMITS.characters:
        parts.append(part(len(parts)))
    return join(parts)


SHAPES: dict[str, Callable[[int], str]] = {
    "ten pairs": ten_pairs,
    "two wide groups": two_wide_groups,
    "many words": many_words,
    "many phrases": many_phrases,
    "many required words": many_required_words,
    "many negations": many_negations,
}
"""The shapes of hostile queries: from a seed to a query."""


def hostile_queries(count: int) -> list[str]:
    """Return different hostile queries, all shapes in turn."""
    makers = list(SHAPES.values())
    return [makers[number % len(makers)](number) for number in range(count)]
