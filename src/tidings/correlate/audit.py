"""How good the distributed result is: coverage and error against one calculator that sees everything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidings.correlate.calculator import Calculator
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import Settings
from tidings.correlate.tag_router import Notifications
from tidings.correlate.tracker import Reports, set_numbers

SEEN_MORE_THAN = 3  # the paper's audit looks at these tag sets only: rarer ones may be typing errors


@dataclass(frozen=True, slots=True)
class Audit:
    """Of the tag sets seen often enough, how many have a coefficient, and how far these are off on average."""

    expected: int
    found: int
    exact: int
    mean_error: float
    max_error: float

    @property
    def coverage(self) -> float:
        return self.found / self.expected if self.expected else 1.0


def centralised(posts: TaggedPosts, settings: Settings, min_support: int) -> Reports:
    """Every coefficient of every window, counted in one place."""
    calculator, panes = Calculator(settings.panes, min_support), posts.times // settings.slide_us
    told = Notifications(0, 0, panes, panes, np.ones(len(posts), np.int64), posts.tags, posts.starts)
    reports = [*calculator.take(told), *calculator.finish()]
    return Reports.together([Reports.of(end, 0, counted) for end, counted in reports])


def audit(found: Reports, exact: Reports, seen_more_than: int = SEEN_MORE_THAN) -> Audit:
    """Compare two results with one coefficient for each window and tag set."""
    exact = exact.take(np.flatnonzero(exact.counted.support > seen_more_than))
    both = Reports.together([exact, found])
    numbers = set_numbers(both)
    where = np.full(int(numbers.max(initial=0)) + 1, -1)
    where[numbers[len(exact) :]] = np.arange(len(found))
    matched = where[numbers[: len(exact)]]
    is_there = matched >= 0
    errors = np.abs(exact.jaccard[is_there] - found.jaccard[matched[is_there]])
    return Audit(
        len(exact),
        int(is_there.sum()),
        int((errors == 0).sum()),
        float(errors.mean()) if len(errors) else 0.0,
        float(errors.max(initial=0)),
    )
