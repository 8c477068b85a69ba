"""Assign feeds to crawlers with capacities so that the sum of latencies is minimal.

`assign_feeds` takes the hosts of the due feeds and the site of every task, and returns the task of each feed.
`assign_min_latency` is exact: no other assignment within the capacities has a smaller sum of latencies. It starts with
every feed at its nearest crawler, which is optimal except for the capacities, and moves feeds from overfull crawlers
along the cheapest path to one with free capacity (successive shortest paths over crawlers, not over feeds).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tidings.crawl.latency import Latencies
from tidings.errors import InputError

STEP_MS = 1.0  # latencies are rounded to this: estimates are not more precise, and equal ones move together
SLACK = 0.1  # a task may take this much more than its even share
_UNREACHABLE = 1 << 28  # in steps; an unreachable feed goes to any crawler
_NEVER = np.int64(1) << 60


def assign_feeds(
    hosts: Sequence[str], task_sites: Sequence[str], latencies: Latencies | None = None, slack: float = SLACK
) -> NDArray[np.intp]:
    """Return the task of each feed, given by its host; all feeds of a host go to one task.

    Tasks at sites without latencies take their share without regard to latency. A host with very many feeds may give
    its task more than its share, because one task must apply the rate limit of the host.
    """
    if not task_sites:
        raise InputError("No tasks to assign feeds to.")
    names, host_of = np.unique(np.array(hosts, str), return_inverse=True)
    sites = sorted(set(task_sites))
    tasks_at = [np.flatnonzero(np.array(task_sites) == site) for site in sites]
    capacity = ceil(len(hosts) / len(task_sites) * (1 + slack))
    ms = np.zeros((len(names), len(sites))) if latencies is None else latencies.to_matrix(names.tolist(), sites)
    site_of_feed = assign_min_latency(ms[host_of], [capacity * len(tasks) for tasks in tasks_at])
    site_of_host = _majority(host_of, site_of_feed, len(names), len(sites))
    feeds_of_host = np.bincount(host_of, minlength=len(names))
    task_of_host = np.zeros(len(names), np.intp)
    for site, tasks in enumerate(tasks_at):
        hosts_of_site = np.flatnonzero(site_of_host == site)
        task_of_host[hosts_of_site] = tasks[_balance_hosts(feeds_of_host[hosts_of_site], len(tasks))]
    return task_of_host[host_of]


def _majority(host_of: NDArray[np.intp], site_of_feed: NDArray[np.intp], hosts: int, sites: int) -> NDArray[np.intp]:
    """Return for each host the site that most of its feeds were assigned to; the first of equal ones."""
    counts = np.bincount(host_of * sites + site_of_feed, minlength=hosts * sites).reshape(hosts, sites)
    chosen: NDArray[np.intp] = counts.argmax(axis=1)
    return chosen


def _balance_hosts(sizes: NDArray[np.intp], tasks: int) -> NDArray[np.intp]:
    """Assign hosts to tasks, the largest first, each to the task with the smallest load."""
    loads, given = np.zeros(tasks, np.int64), np.zeros(len(sizes), np.intp)
    for host in np.argsort(-sizes, kind="stable").tolist():
        given[host] = least = int(loads.argmin())
        loads[least] += sizes[host]
    return given


def assign_min_latency(
    latencies_ms: NDArray[np.float64], capacities: Sequence[int], step_ms: float = STEP_MS
) -> NDArray[np.intp]:
    """Return the crawler of each feed, from (feed, crawler) latencies and the capacity of each crawler.

    The sum of latencies, each rounded to `step_ms`, is minimal. A latency that is not finite means unreachable and is
    used only if nothing else is left.
    """
    capacity = np.asarray(capacities, np.int64)
    if latencies_ms.ndim != 2 or latencies_ms.shape[1] != len(capacity):
        raise InputError(f"Latencies have the shape {latencies_ms.shape}, but there are {len(capacity)} crawlers.")
    if len(latencies_ms) > capacity.sum():
        raise InputError(
            f"{len(latencies_ms):,} feeds do not fit into crawlers with a capacity of {int(capacity.sum()):,}."
        )
    steps = np.nan_to_num(latencies_ms / step_ms, nan=_UNREACHABLE, posinf=_UNREACHABLE, neginf=_UNREACHABLE)
    return _Assignment(np.minimum(np.rint(steps), _UNREACHABLE).astype(np.int64), capacity).resolve()


class _Assignment:
    """The crawler of each feed, and the cost of moving a feed from one crawler to another."""

    def __init__(self, cost: NDArray[np.int64], capacity: NDArray[np.int64]) -> None:
        crawlers = len(capacity)
        nearest = cost.argmin(axis=1) if len(cost) else np.zeros(0, np.intp)
        self._cost, self._capacity = cost, capacity
        self._feeds = [np.flatnonzero(nearest == crawler) for crawler in range(crawlers)]
        self._extra = np.full((crawlers, crawlers), _NEVER)  # cost of the cheapest feed to move, from row to column
        self._cheapest = np.zeros((crawlers, crawlers), np.int64)  # number of feeds with that cost
        for crawler in range(crawlers):
            self._update_costs(crawler)

    def resolve(self) -> NDArray[np.intp]:
        """Move feeds until no crawler exceeds its capacity; return the crawler of each feed."""
        while (over := self._loads() - self._capacity).max(initial=0) > 0:
            path = self._cheapest_path(over > 0, over < 0)
            amount = min(over[path[0]], -over[path[-1]], *(self._cheapest[pair] for pair in _pairs(path)))
            self._move(path, int(amount))
        chosen = np.zeros(len(self._cost), np.intp)
        for crawler, feeds in enumerate(self._feeds):
            chosen[feeds] = crawler
        return chosen

    def _loads(self) -> NDArray[np.int64]:
        return np.array([len(feeds) for feeds in self._feeds], np.int64)

    def _update_costs(self, crawler: int) -> None:
        feeds = self._feeds[crawler]
        if not len(feeds):
            self._extra[crawler] = _NEVER
            return
        extra = self._cost[feeds] - self._cost[feeds, crawler][:, None]
        self._extra[crawler] = extra.min(axis=0)
        self._cheapest[crawler] = (extra == self._extra[crawler]).sum(axis=0)

    def _cheapest_path(self, sources: NDArray[np.bool_], targets: NDArray[np.bool_]) -> list[int]:
        """Return the path from an overfull crawler to one with free capacity (Bellman-Ford over all edges)."""
        reached, rounds = np.where(sources, np.int64(0), _NEVER), list[NDArray[np.int64]]()
        while len(rounds) < len(sources):
            through = np.minimum(reached[:, None] + self._extra, _NEVER)
            better = through.min(axis=0) < reached
            if not better.any():
                break
            rounds.append(np.where(better, through.argmin(axis=0), -1))
            reached = np.where(better, through.min(axis=0), reached)
        path = [int(np.where(targets, reached, 2 * _NEVER).argmin())]
        for came_from in reversed(rounds):
            if came_from[path[0]] >= 0:
                path.insert(0, int(came_from[path[0]]))
        return path

    def _move(self, path: list[int], amount: int) -> None:
        """Move `amount` of the cheapest feeds of each crawler of the path to the next one."""
        going = {}
        for source, target in _pairs(path):
            feeds = self._feeds[source]
            extra = self._cost[feeds, target] - self._cost[feeds, source]
            going[source, target] = np.flatnonzero(extra == self._extra[source, target])[:amount]
        moved = {pair: self._feeds[pair[0]][places] for pair, places in going.items()}
        for (source, _), places in going.items():
            self._feeds[source] = np.delete(self._feeds[source], places)
        for (_, target), feeds in moved.items():
            self._feeds[target] = np.concatenate([self._feeds[target], feeds])
        for crawler in path:
            self._update_costs(crawler)


def _pairs(path: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(path))
