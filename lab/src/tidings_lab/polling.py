"""How long articles wait until they are known, and how many requests that takes, for several ways to poll.

Time is that of the history: nothing is fetched, an article is known at the first visit after it was there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tidings.crawl.schedule import Pace, Rhythm, interval_s, observed, spread
from tidings_lab.history import History, PastFeed


@dataclass(frozen=True, slots=True)
class Polled:
    """Visits made, and the seconds until the visit that found it, of every article, and of every update.

    Articles that came at once are one update: who writes once a month ten articles has one.
    """

    visits: int
    waits_s: NDArray[np.float64]
    update_waits_s: NDArray[np.float64]


Visits = Callable[[PastFeed], NDArray[np.float64]]


def poll(history: History, visits: Visits) -> Polled:
    """Let every feed be visited when this says; an article nobody came for waits until the end."""
    made, waits, update_waits = 0, [np.zeros(0)], [np.zeros(0)]
    for feed in history.feeds:
        times = np.append(visits(feed), feed.looks[-1])
        there = np.array([item.at for item in feed.items])
        waits.append(times[np.searchsorted(times, there)] - there)
        updates = np.unique(there)
        update_waits.append(times[np.searchsorted(times, updates)] - updates)
        made += len(times) - 1
    return Polled(made, np.concatenate(waits), np.concatenate(update_waits))


def every(interval: float) -> Visits:
    """Each feed at a fixed interval, from its own moment on."""

    def visits(feed: PastFeed) -> NDArray[np.float64]:
        phase = crc32(feed.name.encode()) / 2**32
        return np.arange(feed.looks[0] + phase * interval, feed.looks[-1], interval)

    return visits


def scheduled(pace: Pace) -> Visits:
    """As the crawler does it: by what it has seen of the feed so far."""

    def visits(feed: PastFeed) -> NDArray[np.float64]:
        there = np.array([item.at for item in feed.items])
        number = crc32(feed.name.encode())
        rhythm, last, seen, times = Rhythm(), feed.looks[0], 0, list[float]()
        while (now := last + spread(interval_s(rhythm, pace), number, len(times))) < feed.looks[-1]:
            known = int(np.searchsorted(there, now, "right"))
            rhythm = observed(rhythm, known - seen, now - last, pace)
            last, seen = now, known
            times.append(now)
        return np.array(times)

    return visits


def clairvoyant(feed: PastFeed) -> NDArray[np.float64]:
    """The moment something is there, and never else."""
    return np.unique([item.at for item in feed.items])
