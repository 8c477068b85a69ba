"""Attribute shed posts to subscription owners, via the anchors that were not routed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.index.decompile import decompile
from tidings.index.reader import Index, SegmentView
from tidings.query.anchors import anchor_terms

Ids = NDArray[np.int64]
_NOTHING_REMOVED = np.zeros(0, np.uint8)


@dataclass(frozen=True, slots=True)
class _AnchorTable:
    """The distinct (anchor, row) pairs of the subscriptions of a segment, and the id of each row."""

    anchors: Ids
    rows: Ids
    ids: Ids

    @classmethod
    def from_segment(cls, view: SegmentView) -> _AnchorTable:
        conjunctions = decompile(view.segment, _NOTHING_REMOVED)
        anchors = anchor_terms(conjunctions, view.split_terms).astype(np.int64)
        pairs = np.unique(anchors << 32 | conjunctions.subscription)
        pairs = pairs[pairs >> 32 > 0]  # a region alone has no anchor
        return cls(pairs >> 32, pairs & 0xFFFFFFFF, view.segment.ids.to_numpy(zero_copy_only=False))

    def select(self, lost: Ids, removed: NDArray[np.uint8]) -> tuple[Ids, Ids]:
        """Return (anchor, id) of all subscriptions that are not removed and whose anchor is not 0 in `lost`."""
        selected = np.flatnonzero(lost[self.anchors])
        if len(removed):
            selected = selected[removed[self.rows[selected]] == 0]
        return self.anchors[selected], self.ids[self.rows[selected]]


class ShedAccounting:
    """Estimates the lost matches per owner. Caches the anchors of segments and the owners: neither ever changes."""

    def __init__(self, owners: Callable[[int], Sequence[tuple[int, str]]]) -> None:
        """`owners` returns (id, owner) of all subscriptions above an id."""
        self._owners = owners
        self._names: dict[str, int] = {}
        self._owner_of = np.zeros(1, np.int64)  # by subscription id
        self._tables: dict[str, _AnchorTable] = {}

    def lost_matches_by_owner(self, index: Index, anchors: Ids, counts: Ids) -> dict[str, int]:
        """Return per owner how many (subscription, post) pairs were not checked.

        ``counts[i]`` posts with ``anchors[i]``, which is anchor << 16 | matcher, were not sent to that matcher.
        """
        if not len(anchors):
            return {}
        self._load_new_owners()
        terms, matchers = anchors >> 16, anchors & 0xFFFF
        lost_anywhere = np.zeros(index.manifest.terms + 1, np.int64)
        np.add.at(lost_anywhere, terms, counts)
        totals = np.zeros(len(self._names) + 1, np.int64)
        split_pairs: list[NDArray[np.int64]] = [np.zeros((0, 2), np.int64)]  # on several shards: count them once
        lost = np.zeros_like(lost_anywhere)
        for number, shard in enumerate(self._segments(index)):
            here = matchers == number
            lost[terms[here]] = counts[here]
            for table, view in shard:
                is_split = np.zeros(len(lost), bool)
                is_split[view.split_terms] = True
                anchors_here, ids = table.select(np.where(is_split, lost_anywhere, lost), view.removed)
                copied = is_split[anchors_here]
                split_pairs.append(np.column_stack([anchors_here, ids])[copied])
                self._add(totals, lost, anchors_here[~copied], ids[~copied])
            lost[terms[here]] = 0
        self._add(totals, lost_anywhere, *np.unique(np.concatenate(split_pairs), axis=0).T)
        return {name: int(totals[number]) for name, number in self._names.items() if totals[number]}

    def _add(self, totals: Ids, lost: Ids, terms: Ids, ids: Ids) -> None:
        known = ids < len(self._owner_of)  # the others were deleted from the store
        np.add.at(totals, self._owner_of[ids[known]], lost[terms[known]])

    def _segments(self, index: Index) -> list[list[tuple[_AnchorTable, SegmentView]]]:
        """Return the segments of every shard, each with its anchors."""
        tables: dict[str, _AnchorTable] = {}
        shards = []
        for shard in index.manifest.shards:
            views = [(record.folder, index.open_segment(record)) for record in shard]
            tables |= {name: self._tables.get(name) or _AnchorTable.from_segment(view) for name, view in views}
            shards.append([(tables[name], view) for name, view in views])
        self._tables = tables
        return shards

    def _load_new_owners(self) -> None:
        new_owners = self._owners(len(self._owner_of) - 1)
        if not new_owners:
            return
        grown = np.zeros(max(number for number, _ in new_owners) + 1, np.int64)
        grown[: len(self._owner_of)] = self._owner_of
        for number, owner in new_owners:
            grown[number] = self._names.setdefault(owner, len(self._names) + 1)
        self._owner_of = grown
