"""Delay until articles are found, and the number of requests, for several polling policies.

Time is simulated and nothing is fetched: an article is found at the first visit after its publication.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tidings.crawl.schedule import SchedulePolicy, UpdateHistory, add_jitter, interval_s, update_history
from tidings_lab.history import FeedHistory, RecordedFeed


@dataclass(frozen=True, slots=True)
class PollResult:
    """Number of visits, and the delay of every article and of every update in seconds.

    Articles published at the same time are one update.
    """

    visits: int
    waits_s: NDArray[np.float64]
    update_waits_s: NDArray[np.float64]


Visits = Callable[[RecordedFeed], NDArray[np.float64]]


def simulate_polling(history: FeedHistory, visits: Visits) -> PollResult:
    """Visit every feed at the given times. An article that no visit finds waits until the end of the history."""
    made, waits, update_waits = 0, [np.zeros(0)], [np.zeros(0)]
    for feed in history.feeds:
        times = np.append(visits(feed), feed.visited_at[-1])
        published = np.array([item.at for item in feed.items])
        waits.append(times[np.searchsorted(times, published)] - published)
        updates = np.unique(published)
        update_waits.append(times[np.searchsorted(times, updates)] - updates)
        made += len(times) - 1
    return PollResult(made, np.concatenate(waits), np.concatenate(update_waits))


def fixed_interval(interval: float) -> Visits:
    """Visit each feed at a fixed interval, with a phase of its own."""

    def visits(feed: RecordedFeed) -> NDArray[np.float64]:
        phase = crc32(feed.name.encode()) / 2**32
        return np.arange(feed.visited_at[0] + phase * interval, feed.visited_at[-1], interval)

    return visits


def adaptive_schedule(pace: SchedulePolicy) -> Visits:
    """Visit as the crawler does, by what it has observed of the feed so far."""

    def visits(feed: RecordedFeed) -> NDArray[np.float64]:
        published = np.array([item.at for item in feed.items])
        number = crc32(feed.name.encode())
        rhythm, last, seen, times = UpdateHistory(), feed.visited_at[0], 0, list[float]()
        while (now := last + add_jitter(interval_s(rhythm, pace), number, len(times))) < feed.visited_at[-1]:
            known = int(np.searchsorted(published, now, "right"))
            rhythm = update_history(rhythm, known - seen, now - last, pace)
            last, seen = now, known
            times.append(now)
        return np.array(times)

    return visits


def oracle_visits(feed: RecordedFeed) -> NDArray[np.float64]:
    """Visit exactly when something is published."""
    return np.unique([item.at for item in feed.items])
