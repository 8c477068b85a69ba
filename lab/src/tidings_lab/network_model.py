"""A made-up world of web servers and crawlers: cities, how far apart they are, and what fetching a feed takes.

The time between two cities is that of light in glass along the great circle, longer by what routes wind (a factor for
each pair), and by what a server's own access line takes. Fetching is connecting, agreeing on keys, asking, and a round
for every doubling of what TCP sends at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Latitude, longitude, and a rough share of the world's web servers, in percent.
CITIES: dict[str, tuple[float, float, float]] = {
    "Ashburn": (39.0, -77.5, 18),
    "New York": (40.7, -74.0, 7),
    "Boston": (42.4, -71.1, 3),
    "Chicago": (41.9, -87.6, 5),
    "Dallas": (32.8, -96.8, 5),
    "San Jose": (37.3, -121.9, 10),
    "Seattle": (47.6, -122.3, 5),
    "Toronto": (43.7, -79.4, 2),
    "São Paulo": (-23.6, -46.6, 2),
    "London": (51.5, -0.1, 6),
    "Paris": (48.9, 2.4, 4),
    "Frankfurt": (50.1, 8.7, 9),
    "Amsterdam": (52.4, 4.9, 5),
    "Stockholm": (59.3, 18.1, 2),
    "Moscow": (55.8, 37.6, 2),
    "Mumbai": (19.1, 72.9, 2),
    "Singapore": (1.4, 103.8, 3),
    "Hong Kong": (22.3, 114.2, 2),
    "Tokyo": (35.7, 139.7, 6),
    "Sydney": (-33.9, 151.2, 2),
}
_EARTH_KM, _GLASS_KM_S = 6_371.0, 200_000.0
_WINDING = (0.55, 0.25)  # of the logarithm of the factor by which routes are longer: mean, deviation
_ACCESS_MS = (2.0, 4.0)  # shape and scale of the gamma distribution
_THINKING_MS = (4.2, 0.9)  # a server's own time: mean and deviation of its logarithm; 67 ms in the middle
_FIRST_WINDOW_BYTES = 14_600  # ten segments
_ROUNDS_BEFORE = 3.0  # connect, agree on keys, ask


@dataclass(frozen=True, slots=True)
class World:
    """Servers, their round-trip times to crawlers, and the time each takes to answer."""

    rtt_ms: NDArray[np.float64]  # (server, crawler)
    thinking_ms: NDArray[np.float64]
    rounds: NDArray[np.float64]

    @classmethod
    def made(cls, servers: int, sites: list[str], document_bytes: NDArray[np.float64], seed: int) -> World:
        """So many servers, in cities by their shares; the sizes of what they serve are drawn from these."""
        rng = np.random.default_rng([seed, 60])
        names, shares = list(CITIES), np.array([share for _, _, share in CITIES.values()], float)
        cities = rng.choice(len(names), servers, p=shares / shares.sum())
        between = city_rtt_ms(names, sites, rng)
        rtt = between[cities] + rng.gamma(*_ACCESS_MS, servers)[:, None]
        sizes = rng.choice(document_bytes, servers)
        rounds = _ROUNDS_BEFORE + np.ceil(np.log2(sizes / _FIRST_WINDOW_BYTES + 1))
        return cls(rtt, rng.lognormal(*_THINKING_MS, servers), rounds)

    def fetch_ms(self, crawler: NDArray[np.intp]) -> NDArray[np.float64]:
        """What each server's feed takes, fetched by this crawler."""
        rtt = self.rtt_ms[np.arange(len(crawler)), crawler]
        taken: NDArray[np.float64] = self.rounds * rtt + self.thinking_ms
        return taken

    def estimated_ms(self, error: float, seed: int) -> NDArray[np.float64]:
        """Round-trip times as one would know them: each off by a factor of about so much."""
        rng = np.random.default_rng([seed, 61])
        noisy: NDArray[np.float64] = self.rtt_ms * rng.lognormal(0.0, error, self.rtt_ms.shape)
        return noisy


def city_rtt_ms(names: list[str], sites: list[str], rng: np.random.Generator) -> NDArray[np.float64]:
    """(city, site) round trips."""
    places = np.radians(np.array([CITIES[name][:2] for name in names]))
    ours = np.radians(np.array([CITIES[name][:2] for name in sites]))
    lat, lon = places[:, None, 0], places[:, None, 1]
    cosine = np.sin(lat) * np.sin(ours[:, 0]) + np.cos(lat) * np.cos(ours[:, 0]) * np.cos(lon - ours[:, 1])
    km = _EARTH_KM * np.arccos(np.clip(cosine, -1, 1))
    straight_ms = 2 * km / _GLASS_KM_S * 1000
    winding: NDArray[np.float64] = np.maximum(1.0, rng.lognormal(*_WINDING, straight_ms.shape))
    round_trips: NDArray[np.float64] = straight_ms * winding
    return round_trips
