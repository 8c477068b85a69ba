"""What routing notices of posts in passing: where they would go, what was withheld, and some of their texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.route.router import Routed

Counts = NDArray[np.int64]
_NO_TEXTS = pa.array([], pa.large_string())


def _none() -> Counts:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Noted:
    """Of some posts: ``spread[n]`` of them lead to `n` matchers, `by_matcher` were withheld from each.

    Word ``leads[i]`` led to less than it should for ``by_lead[i]`` posts. `texts` are some of the posts.
    """

    spread: Counts = field(default_factory=_none)
    by_matcher: Counts = field(default_factory=_none)
    leads: Counts = field(default_factory=_none)
    by_lead: Counts = field(default_factory=_none)
    texts: pa.Array = field(default_factory=lambda: _NO_TEXTS)

    @classmethod
    def of(cls, routed: Routed, texts: pa.Array = _NO_TEXTS) -> Noted:
        if routed.withheld is None:
            return cls(spread=routed.spread, texts=texts)
        matchers = len(routed.spread) - 1
        leads = np.flatnonzero(routed.withheld.by_lead)
        return cls(routed.spread, routed.withheld.by_matcher[:matchers], leads, routed.withheld.by_lead[leads], texts)

    @property
    def posts(self) -> int:
        return int(self.spread.sum())

    @property
    def withheld(self) -> int:
        return int(self.by_matcher.sum())


def all_of(noted: Iterable[Noted]) -> Noted:
    """Several as one."""
    parts = list(noted)
    leads, place = np.unique(np.concatenate([_none(), *(one.leads for one in parts)]), return_inverse=True)
    by_lead = np.zeros(len(leads), np.int64)
    np.add.at(by_lead, place, np.concatenate([_none(), *(one.by_lead for one in parts)]))
    return Noted(
        _sum([one.spread for one in parts]),
        _sum([one.by_matcher for one in parts]),
        leads,
        by_lead,
        pa.concat_arrays([_NO_TEXTS, *(one.texts for one in parts)]),
    )


def _sum(counts: list[Counts]) -> Counts:
    whole = np.zeros(max(map(len, counts), default=0), np.int64)
    for some in counts:
        whole[: len(some)] += some
    return whole
