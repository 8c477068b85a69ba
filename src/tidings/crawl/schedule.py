"""When to look again: pure arithmetic on what was seen. No clock, no network.

A request costs a little, and every update costs its time until we know of it; articles that come together are one
update. A feed with λ updates a second that is asked every I seconds costs worth/I for requests and λ·I/2 for waiting,
least in sum at I = √(2·worth/λ): a feed with a hundredth of the updates is asked a tenth as often.
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
_LOOKED_BACK_S = 60 * DAY_S
_TOGETHER_S = 900.0  # articles dated within the same so many seconds came together
_PRIOR_EVENTS, _PRIOR_S = 0.25, DAY_S / 4  # an unknown feed has an article a day


@dataclass(frozen=True, slots=True)
class Pace:
    """How often at most and at least, what a request is worth, and how quickly the past is forgotten.

    ``worth_s`` is how many seconds of waiting for one update are worth a request: at 40 a feed with an article an
    hour is asked every nine minutes, one with an article a week every two hours.
    """

    least_s: float = 300.0
    most_s: float = DAY_S
    worth_s: float = 40.0
    half_life_s: float = 14 * DAY_S
    longest_wait_s: float = 7 * DAY_S  # that a server may ask for with Retry-After


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What was observed of a feed: articles, updates, and the time in which they came, all fading; failures in a row.

    A visit that finds something new is an update, however many articles it finds. After a hundred old articles in a day
    a feed is no busier than after one.
    """

    articles: float = 0.0
    over_s: float = 0.0
    updates: float = 0.0
    failures: int = 0
    window: int = 0
    """How many articles the document holds: as many may come unseen before one is missed."""
    asked_for_s: float = 0.0
    """How long the feed and its server asked to be left alone last time (ttl, Cache-Control)."""

    @property
    def rate(self) -> float:
        """Articles a second."""
        return (self.articles + _PRIOR_EVENTS) / (self.over_s + _PRIOR_S)

    @property
    def update_rate(self) -> float:
        """Updates a second."""
        return (self.updates + _PRIOR_EVENTS) / (self.over_s + _PRIOR_S)


def first_seen(dates: Sequence[float | None], now: float) -> Rhythm:
    """What the dates of its articles tell of a feed that is read for the first time."""
    past = sorted(at for at in dates if at is not None and now - _LOOKED_BACK_S < at <= now)
    known = sum(at is not None and at <= now for at in dates)
    if not known:
        return Rhythm()
    # The document ends where its window does, not where the feed began: what is beyond was not observed.
    over_s = now - past[0] if known == len(past) else _LOOKED_BACK_S
    together = len({at // _TOGETHER_S for at in past})
    return Rhythm(articles=float(len(past)), over_s=over_s, updates=float(together))


def observed(rhythm: Rhythm, new: int, since_s: float, pace: Pace) -> Rhythm:
    """Count what came since the last visit; what was before fades."""
    fading = 0.5 ** (since_s / pace.half_life_s)
    return replace(
        rhythm,
        articles=rhythm.articles * fading + new,
        over_s=rhythm.over_s * fading + since_s,
        updates=rhythm.updates * fading + (new > 0),
    )


def interval_s(rhythm: Rhythm, pace: Pace, is_torn: bool = False) -> float:
    """How long to wait after a visit that went well. ``is_torn``: articles may have been missed, so be quick."""
    wanted = sqrt(2 * pace.worth_s / rhythm.update_rate)
    if rhythm.window:
        wanted = min(wanted, rhythm.window / rhythm.rate / 4)  # articles come in bursts
    if is_torn:
        wanted = pace.least_s
    return min(pace.most_s, max(pace.least_s, wanted, rhythm.asked_for_s))


def backoff_s(rhythm: Rhythm, pace: Pace) -> float:
    """How long to wait after so many failures in a row: twice as long each time."""
    return float(min(pace.most_s, interval_s(rhythm, pace) * 2.0 ** min(rhythm.failures - 1, 16)))


def spread(seconds: float, feed: int, visits: int) -> float:
    """A twentieth more or less, the same in every run: feeds added together are not due together for ever."""
    digest = blake2b(f"{feed} {visits}".encode(), digest_size=4).digest()
    return seconds * (0.95 + 0.1 * int.from_bytes(digest, "big") / 2**32)


def freshness_s(cache_control: str, expires: str, date: str) -> float:
    """How long its server says a document stays as it is; 0 where it does not say."""
    control = cache_control.lower()
    if "no-cache" in control or "no-store" in control:
        return 0.0
    if found := _MAX_AGE.search(control):
        return float(found[1])
    try:
        return max(0.0, (parsedate_to_datetime(expires) - parsedate_to_datetime(date)).total_seconds())
    except (ValueError, TypeError, IndexError):
        return 0.0
