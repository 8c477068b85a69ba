"""Algorithms 1 to 5 of the paper, line by line over Python sets, with the tie rules of our implementation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Tags = frozenset[int]


def count_load(tags: Tags, weighted: Sequence[tuple[Tags, int]]) -> int:
    """Return the number of posts that have any of the tags."""
    return sum(weight for other, weight in weighted if other & tags)


def ds(weighted: Sequence[tuple[Tags, int]], k: int) -> list[set[int]]:
    left = {tag for tags, _ in weighted for tag in tags}
    found: list[tuple[int, int, set[int]]] = []
    while left:
        connected = {min(left)}
        while (more := connected.union(*(tags for tags, _ in weighted if tags & connected))) != connected:
            connected = more
        found.append((-count_load(frozenset(connected), weighted), min(connected), connected))
        left -= connected
    parts: list[set[int]] = [set() for _ in range(k)]
    loads = [0] * k
    for load, _, connected in sorted(found):
        least = min(range(k), key=lambda j: (loads[j], j))
        parts[least] |= connected
        loads[least] -= load
    return parts


def cover(sets: Sequence[Tags], loads: Sequence[int], k: int, rule: str, seed: int = 0) -> list[set[int]]:
    left, covered, parts, carried = list(range(len(sets))), set(), [set() for _ in range(k)], [0] * k
    for m in range(1, min(k, len(sets)) + 1):

        def cost(i, m=m, covered=frozenset(covered)):
            if rule == "scl":
                return abs(1 / m - loads[i] / (sum(carried) + loads[i]))
            return len(sets[i] & covered) if rule == "scc" else 0

        best = min(left, key=lambda i: (cost(i), -len(sets[i] - covered), i))
        parts[m - 1], carried[m - 1] = set(sets[best]), loads[best]
        covered |= sets[best]
        left.remove(best)
    chance = dict(zip(left, np.random.default_rng([seed, len(left)]).permutation(len(left)).tolist(), strict=True))
    for turn in range(len(left)):
        if rule == "scc":
            best = min(left, key=lambda i: (-len(sets[i] - covered), len(sets[i]), i))
            where = min(range(k), key=lambda j: (-len(sets[best] & parts[j]), carried[j], j))
        elif rule == "scl":
            best = min(left, key=lambda i: (-loads[i], len(sets[i] & covered), i))
            where = min(range(k), key=lambda j: (carried[j], -len(sets[best] & parts[j]), j))
        else:
            best = min(left, key=chance.__getitem__)
            where = min(range(k), key=lambda j: (-len(sets[best] & parts[j]), (j - turn) % k))
        parts[where] |= sets[best]
        carried[where] += loads[best]
        covered |= sets[best]
        left.remove(best)
    return parts
