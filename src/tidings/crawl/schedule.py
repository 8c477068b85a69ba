"""Compute when to visit a feed again, from its history. Pure functions without clock or network.

A request has a cost, and so has the time until an update is seen; articles that arrive together are one update. A feed
with λ updates per second that is visited every I seconds costs worth/I for requests and λ·I/2 for waiting. The sum is
minimal at I = √(2·worth/λ): a feed with a hundredth of the updates is visited a tenth as often.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from math import sqrt

DAY_S = 86_400.0
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})")
_HISTORY_S = 60 * DAY_S
_SAME_UPDATE_S = 900.0  # articles dated within the same interval are one update
_PRIOR_EVENTS, _PRIOR_S = 0.25, DAY_S / 4  # an unknown feed has one article per day


@dataclass(frozen=True, slots=True)
class SchedulePolicy:
    """Limits of the interval, the cost of a request, and the half-life of the history.

    `request_worth_s` is the delay of one update, in seconds, that costs as much as a request: at 40, a feed with one
    article per hour is visited every nine minutes, a feed with one per week every two hours.
    """

    min_interval_s: float = 300.0
    max_interval_s: float = DAY_S
    request_worth_s: float = 40.0
    half_life_s: float = 14 * DAY_S
    max_retry_after_s: float = 7 * DAY_S  # limit of Retry-After


@dataclass(frozen=True, slots=True)
class UpdateHistory:
    """Articles and updates of a feed over the time observed, with exponential decay; failures in a row.

    A visit with new articles is one update, independent of their number. The field names are stored as JSON.
    """

    articles: float = 0.0
    over_s: float = 0.0
    updates: float = 0.0
    failures: int = 0
    window: int = 0
    """Articles in the document: as many may arrive between two visits without one being missed."""
    asked_for_s: float = 0.0
    """Interval that the feed and its server requested last time (ttl, Cache-Control)."""

    @property
    def rate(self) -> float:
        """Articles per second."""
        return (self.articles + _PRIOR_EVENTS) / (self.over_s + _PRIOR_S)

    @property
    def update_rate(self) -> float:
        """Updates per second."""
        return (self.updates + _PRIOR_EVENTS) / (self.over_s + _PRIOR_S)


def estimate_history(dates: Sequence[float | None], now: float) -> UpdateHistory:
    """Estimate the history of a feed from the dates of its articles, at the first visit."""
    past = sorted(at for at in dates if at is not None and now - _HISTORY_S < at <= now)
    known = sum(at is not None and at <= now for at in dates)
    if not known:
        return UpdateHistory()
    # The document has only the latest articles: what was before them was not observed.
    over_s = now - past[0] if known == len(past) else _HISTORY_S
    updates = len({at // _SAME_UPDATE_S for at in past})
    return UpdateHistory(articles=float(len(past)), over_s=over_s, updates=float(updates))


def update_history(rhythm: UpdateHistory, new: int, since_s: float, policy: SchedulePolicy) -> UpdateHistory:
    """Add the articles since the last visit; earlier ones decay."""
    decay = 0.5 ** (since_s / policy.half_life_s)
    return replace(
        rhythm,
        articles=rhythm.articles * decay + new,
        over_s=rhythm.over_s * decay + since_s,
        updates=rhythm.updates * decay + (new > 0),
    )


def interval_s(rhythm: UpdateHistory, policy: SchedulePolicy, has_gap: bool = False) -> float:
    """Return the interval after a successful visit. `has_gap`: articles may have been missed, so use the shortest."""
    interval = sqrt(2 * policy.request_worth_s / rhythm.update_rate)
    if rhythm.window:
        interval = min(interval, rhythm.window / rhythm.rate / 4)  # articles arrive in bursts
    if has_gap:
        interval = policy.min_interval_s
    return min(policy.max_interval_s, max(policy.min_interval_s, interval, rhythm.asked_for_s))


def failure_interval_s(rhythm: UpdateHistory, policy: SchedulePolicy) -> float:
    """Return the interval after failures in a row; it doubles each time."""
    return float(min(policy.max_interval_s, interval_s(rhythm, policy) * 2.0 ** min(rhythm.failures - 1, 16)))


def add_jitter(seconds: float, feed: int, visits: int) -> float:
    """Change the interval by up to 5 %, deterministically, so that feeds added together do not stay due together."""
    digest = blake2b(f"{feed} {visits}".encode(), digest_size=4).digest()
    return seconds * (0.95 + 0.1 * int.from_bytes(digest, "big") / 2**32)


def freshness_s(cache_control: str, expires: str, date: str) -> float:
    """Return how long a response is fresh according to its headers, or 0."""
    control = cache_control.lower()
    if "no-cache" in control or "no-store" in control:
        return 0.0
    if max_age := _MAX_AGE.search(control):
        return float(max_age[1])
    try:
        return max(0.0, (parsedate_to_datetime(expires) - parsedate_to_datetime(date)).total_seconds())
    except (ValueError, TypeError, IndexError):
        return 0.0
