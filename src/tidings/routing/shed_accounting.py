"""Whose subscriptions a withheld post could have matched: from the words that led to nothing to the owners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.index.decompile import decompile
from tidings.index.reader import Index, LiveSegment
from tidings.query.anchors import lead_terms

Ids = NDArray[np.int64]
_ALL_THERE = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class _Led:
    """The words that lead to the subscriptions of a segment: (word, place in the segment), each pair once."""

    leads: Ids
    places: Ids
    ids: Ids

    @classmethod
    def of(cls, live: LiveSegment) -> _Led:
        conjunctions = decompile(live.segment, _ALL_THERE)
        leads = lead_terms(conjunctions, live.split).astype(np.int64)
        pairs = np.unique(leads << 32 | conjunctions.owner)
        pairs = pairs[pairs >> 32 > 0]  # a region alone is led by no word
        return cls(pairs >> 32, pairs & 0xFFFFFFFF, live.segment.ids.to_numpy(zero_copy_only=False))


class Owed:
    """Remembers for every segment who is led by what; segments never change, nor do owners."""

    def __init__(self, owners: Callable[[int], Sequence[tuple[int, str]]]) -> None:
        """`owners` tells (id, owner) of all subscriptions above an id."""
        self._owners = owners
        self._names: dict[str, int] = {}
        self._owner_of = np.zeros(1, np.int64)  # by the id of a subscription
        self._led: dict[str, _Led] = {}

    def by_owner(self, index: Index, leads: Ids, counts: Ids) -> dict[str, int]:
        """How many (subscription, post) of each owner were not looked at, when words led to nothing so many times."""
        if not len(leads):
            return {}
        self._learn_owners()
        lost = np.zeros(index.manifest.terms + 1, np.int64)
        lost[leads] = counts
        found = np.zeros(len(self._names) + 1, np.int64)
        twice: list[tuple[Ids, Ids]] = []  # what hot words lead to lies in several shards
        for led, live in self._segments(index):
            here = np.flatnonzero(lost[led.leads])
            if len(live.removed):
                here = here[live.removed[led.places[here]] == 0]
            words, ids = led.leads[here], led.ids[led.places[here]]
            is_split = np.isin(words, live.split)
            twice.append((words[is_split], ids[is_split]))
            self._add(found, lost, words[~is_split], ids[~is_split])
        pairs = np.unique(np.concatenate([np.column_stack(one) for one in twice]), axis=0) if twice else None
        if pairs is not None:
            self._add(found, lost, pairs[:, 0], pairs[:, 1])
        return {name: int(found[number]) for name, number in self._names.items() if found[number]}

    def _add(self, found: Ids, lost: Ids, words: Ids, ids: Ids) -> None:
        known = ids < len(self._owner_of)  # others were removed and are forgotten
        np.add.at(found, self._owner_of[ids[known]], lost[words[known]])

    def _segments(self, index: Index) -> list[tuple[_Led, LiveSegment]]:
        segments = {}
        for shard in index.manifest.shards:
            for record in shard:
                live = index.live(record)
                segments[record.folder] = (self._led.get(record.folder) or _Led.of(live), live)
        self._led = {folder: led for folder, (led, _) in segments.items()}
        return list(segments.values())

    def _learn_owners(self) -> None:
        new = self._owners(len(self._owner_of) - 1)
        if not new:
            return
        grown = np.zeros(max(number for number, _ in new) + 1, np.int64)
        grown[: len(self._owner_of)] = self._owner_of
        for number, owner in new:
            grown[number] = self._names.setdefault(owner, len(self._names) + 1)
        self._owner_of = grown
