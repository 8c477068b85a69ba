"""What is asked of a deployment, and the machines it may be built from."""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Demand:
    """How many subscriptions and feeds there are, and how busy feeds and readers are."""

    subscriptions: int
    feeds: int
    articles_per_feed_day: float
    poll_s: float = 900.0  # a reader asks for each subscription so often
    crawl_s: float = 900.0  # a feed is asked for so often
    queue_hits: int = 100  # the most a hit queue holds, as `web/reading.py` serves it
    keep_s: float = 7 * DAY_S  # the longest a hit is kept

    @property
    def articles_s(self) -> float:
        """New articles a second, of all feeds."""
        return self.feeds * self.articles_per_feed_day / DAY_S


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. The talk's: 25 Mbps each way, 1 GB, four cores."""

    bandwidth_bps: float = 25e6
    memory_bytes: float = 1e9
    cores: float = 4.0
    headroom: float = 0.0  # share of everything that must stay free

    def usable(self, amount: float) -> float:
        return amount * (1 - self.headroom)


# What the talk evaluates (subscriptions, feeds) and the nodes it needs: crawlers, filters, reflectors.
TALK = (
    (1_000_000, 100_000, (1, 1, 1)),
    (10_000_000, 1_000_000, (1, 28, 28)),
    (20_000_000, 500_000, (1, 25, 25)),
    (40_000_000, 250_000, (1, 28, 28)),
)
