"""Compare the distributed result with one calculator that sees all posts: coverage and error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidings.correlate.calculator import Calculator
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_router import Notifications
from tidings.correlate.tracker import Reports, number_tag_sets

IGNORED_SUPPORT = 3  # the audit of the paper ignores tag sets up to this support: they may be typing errors


@dataclass(frozen=True, slots=True)
class Audit:
    """Of the tag sets above `IGNORED_SUPPORT`: how many have a coefficient, and its error."""

    expected: int
    found: int
    exact: int
    mean_error: float
    max_error: float

    @property
    def coverage(self) -> float:
        return self.found / self.expected if self.expected else 1.0


def compute_exact(posts: TaggedPosts, settings: CorrelationSettings, min_support: int) -> Reports:
    """Return every coefficient of every window, counted by one calculator."""
    calculator, panes = Calculator(settings.panes, min_support), posts.times // settings.slide_us
    notifications = Notifications(0, 0, panes, panes, np.ones(len(posts), np.int64), posts.tags, posts.starts)
    reports = [*calculator.process(notifications), *calculator.finish()]
    return Reports.concat([Reports.of(end, 0, counted) for end, counted in reports])


def audit(reports: Reports, exact: Reports, ignored_support: int = IGNORED_SUPPORT) -> Audit:
    """Compare two results that have one coefficient per window and tag set."""
    exact = exact.take(np.flatnonzero(exact.counted.support > ignored_support))
    numbers = number_tag_sets(Reports.concat([exact, reports]))
    row_of = np.full(int(numbers.max(initial=0)) + 1, -1)
    row_of[numbers[len(exact) :]] = np.arange(len(reports))
    rows = row_of[numbers[: len(exact)]]
    is_found = rows >= 0
    errors = np.abs(exact.jaccard[is_found] - reports.jaccard[rows[is_found]])
    return Audit(
        len(exact),
        int(is_found.sum()),
        int((errors == 0).sum()),
        float(errors.mean()) if len(errors) else 0.0,
        float(errors.max(initial=0)),
    )
