"""The demand on a deployment, and the machines it may use."""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Demand:
    """Number of subscriptions and feeds, and the activity of feeds and readers."""

    subscriptions: int
    feeds: int
    articles_per_feed_day: float
    poll_s: float = 900.0  # interval at which a reader polls a subscription
    crawl_s: float = 900.0  # interval at which a feed is visited
    queue_hits: int = 100  # most matches that a feed serves
    keep_s: float = 7 * DAY_S  # how long a match is served

    @property
    def articles_s(self) -> float:
        """New articles of all feeds per second."""
        return self.feeds * self.articles_per_feed_day / DAY_S


@dataclass(frozen=True, slots=True)
class NodeSize:
    """One machine. The talk's: 25 Mbps each way, 1 GB, four cores."""

    bandwidth_bps: float = 25e6
    memory_bytes: float = 1e9
    cores: float = 4.0
    headroom: float = 0.0  # share of everything that must stay free

    def usable_part(self, amount: float) -> float:
        return amount * (1 - self.headroom)


# Workloads of the talk: subscriptions, feeds, and the crawlers, filters and reflectors it needs.
TALK_WORKLOADS = (
    (1_000_000, 100_000, (1, 1, 1)),
    (10_000_000, 1_000_000, (1, 28, 28)),
    (20_000_000, 500_000, (1, 25, 25)),
    (40_000_000, 250_000, (1, 28, 28)),
)
