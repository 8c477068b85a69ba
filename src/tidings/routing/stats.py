"""What routing notices of posts in passing: where they would go, what was withheld, and some of their texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.routing.router import Routed

Counts = NDArray[np.int64]
Positions = NDArray[np.float64]  # longitude and latitude, NaN where a post has none
_NO_TEXTS = pa.array([], pa.large_string())


def _none() -> Counts:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Noted:
    """Of some posts: ``spread[n]`` of them lead to `n` matchers, `by_matcher` were withheld from each.

    Word ``leads[i]`` led to less than it should for ``by_lead[i]`` posts. `texts` are some of the posts, `positions`
    where these are. ``by_cell[i]`` posts of cell and matcher ``cells[i]`` (cell · matchers + matcher) were sent.
    """

    spread: Counts = field(default_factory=_none)
    by_matcher: Counts = field(default_factory=_none)
    leads: Counts = field(default_factory=_none)
    by_lead: Counts = field(default_factory=_none)
    texts: pa.Array = field(default_factory=lambda: _NO_TEXTS)
    positions: Positions = field(default_factory=lambda: np.zeros((0, 2)))
    cells: Counts = field(default_factory=_none)
    by_cell: Counts = field(default_factory=_none)

    @classmethod
    def of(cls, routed: Routed, texts: pa.Array = _NO_TEXTS, positions: Positions | None = None) -> Noted:
        some = (texts, np.full((len(texts), 2), np.nan) if positions is None else positions)
        matchers = len(routed.spread) - 1
        cells = _sent_by_cell(routed, matchers)
        if routed.withheld is None:
            return cls(routed.spread, _none(), _none(), _none(), *some, *cells)
        leads = np.flatnonzero(routed.withheld.by_lead)
        by_lead = routed.withheld.by_lead[leads]
        return cls(routed.spread, routed.withheld.by_matcher[:matchers], leads, by_lead, *some, *cells)

    @property
    def posts(self) -> int:
        return int(self.spread.sum())

    @property
    def withheld(self) -> int:
        return int(self.by_matcher.sum())


def all_of(noted: Iterable[Noted]) -> Noted:
    """Several as one."""
    parts = list(noted)
    return Noted(
        _sum([one.spread for one in parts]),
        _sum([one.by_matcher for one in parts]),
        *summed([(one.leads, one.by_lead) for one in parts]),
        pa.concat_arrays([_NO_TEXTS, *(one.texts for one in parts)]),
        np.concatenate([np.zeros((0, 2)), *(one.positions for one in parts)]),
        *summed([(one.cells, one.by_cell) for one in parts]),
    )


def summed(counted: Sequence[tuple[Counts, Counts]]) -> tuple[Counts, Counts]:
    """(names, ascending; how often each was counted) of several such pairs."""
    names, place = np.unique(np.concatenate([_none(), *(some for some, _ in counted)]), return_inverse=True)
    counts = np.zeros(len(names), np.int64)
    np.add.at(counts, place, np.concatenate([_none(), *(often for _, often in counted)]))
    return names, counts


def _sent_by_cell(routed: Routed, matchers: int) -> tuple[Counts, Counts]:
    if routed.cells is None:
        return _none(), _none()
    cells = routed.cells.astype(np.int64) * matchers
    sent = [cells[share.posts] + share.matcher for share in routed.shares]
    names, counts = np.unique(np.concatenate([_none(), *sent]), return_counts=True)
    return names, counts.astype(np.int64)


def _sum(counts: list[Counts]) -> Counts:
    whole = np.zeros(max(map(len, counts), default=0), np.int64)
    for some in counts:
        whole[: len(some)] += some
    return whole
