"""Model of web servers and crawlers: cities, round-trip times, and the time to fetch a feed.

A round trip between two cities takes the time of light in glass along the great circle, times a detour factor per pair,
plus the delay of the server's access line. A fetch needs three round trips (TCP, TLS, request) and one per doubling of
the TCP window.
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
_DETOUR = (0.55, 0.25)  # mean and deviation of the logarithm of the detour factor of routes
_ACCESS_MS = (2.0, 4.0)  # shape and scale of the gamma distribution
_RESPONSE_MS = (4.2, 0.9)  # mean and deviation of the logarithm of the server's response time; median 67 ms
_FIRST_WINDOW_BYTES = 14_600  # ten segments
_SETUP_ROUNDS = 3.0  # TCP, TLS, request


@dataclass(frozen=True, slots=True)
class NetworkModel:
    """Servers, their round-trip times to crawlers, and their response times."""

    rtt_ms: NDArray[np.float64]  # (server, crawler)
    response_ms: NDArray[np.float64]
    rounds: NDArray[np.float64]

    @classmethod
    def generate(cls, servers: int, sites: list[str], document_bytes: NDArray[np.float64], seed: int) -> NetworkModel:
        """Place servers in cities by their shares and draw document sizes from `document_bytes`."""
        rng = np.random.default_rng([seed, 60])
        names, shares = list(CITIES), np.array([share for _, _, share in CITIES.values()], float)
        cities = rng.choice(len(names), servers, p=shares / shares.sum())
        between = city_rtt_ms(names, sites, rng)
        rtt = between[cities] + rng.gamma(*_ACCESS_MS, servers)[:, None]
        sizes = rng.choice(document_bytes, servers)
        rounds = _SETUP_ROUNDS + np.ceil(np.log2(sizes / _FIRST_WINDOW_BYTES + 1))
        return cls(rtt, rng.lognormal(*_RESPONSE_MS, servers), rounds)

    def fetch_ms(self, crawler: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the time to fetch each server's feed by the given crawler."""
        rtt = self.rtt_ms[np.arange(len(crawler)), crawler]
        fetch_ms: NDArray[np.float64] = self.rounds * rtt + self.response_ms
        return fetch_ms

    def estimated_ms(self, error: float, seed: int) -> NDArray[np.float64]:
        """Return estimated round-trip times: each with a log-normal error of this deviation."""
        rng = np.random.default_rng([seed, 61])
        noisy: NDArray[np.float64] = self.rtt_ms * rng.lognormal(0.0, error, self.rtt_ms.shape)
        return noisy


def city_rtt_ms(names: list[str], sites: list[str], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return round-trip times as (city, site)."""
    places = np.radians(np.array([CITIES[name][:2] for name in names]))
    targets = np.radians(np.array([CITIES[name][:2] for name in sites]))
    lat, lon = places[:, None, 0], places[:, None, 1]
    cosine = np.sin(lat) * np.sin(targets[:, 0]) + np.cos(lat) * np.cos(targets[:, 0]) * np.cos(lon - targets[:, 1])
    km = _EARTH_KM * np.arccos(np.clip(cosine, -1, 1))
    straight_ms = 2 * km / _GLASS_KM_S * 1000
    detour: NDArray[np.float64] = np.maximum(1.0, rng.lognormal(*_DETOUR, straight_ms.shape))
    round_trips: NDArray[np.float64] = straight_ms * detour
    return round_trips
