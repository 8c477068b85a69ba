"""Which crawler fetches which feed: the nearest one that has room, at the least latency altogether.

`share_out` is what a crawl asks: the hosts of the due feeds and the site of every task in, a task for each feed out.
`assign` below it is exact: no other assignment within the capacities has a smaller sum of latencies. It begins with
every feed at its nearest crawler, which is optimal but for the capacities, and moves feeds from crawlers that have too
many along the cheapest chain to one that has room (successive shortest paths, over crawlers, not over feeds).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tidings.crawl.latency import Latencies
from tidings.errors import InputError

STEP_MS = 1.0  # latencies are compared in such steps: estimates are no better, and equal ones move together
SLACK = 0.1  # a task may take so much more than its even share, to be nearer to its feeds
_UNREACHABLE = 1 << 28  # steps; a feed no crawler reaches goes anywhere
_NEVER = np.int64(1) << 60


def share_out(
    hosts: Sequence[str], task_sites: Sequence[str], latencies: Latencies | None = None, slack: float = SLACK
) -> NDArray[np.intp]:
    """For each feed (given by its host) the task that fetches it; all feeds of a host go to one task.

    Tasks at sites of which nothing is known take their share without regard to latency. A host with very many feeds may
    give its task more than its share: politeness to a host is worth more.
    """
    if not task_sites:
        raise InputError("There is no task that could fetch a feed.")
    names, host_of = np.unique(np.array(hosts, str), return_inverse=True)
    sites = sorted(set(task_sites))
    tasks_at = [np.flatnonzero(np.array(task_sites) == site) for site in sites]
    room = ceil(len(hosts) / len(task_sites) * (1 + slack))
    ms = np.zeros((len(names), len(sites))) if latencies is None else latencies.between(names.tolist(), sites)
    site_of_feed = assign(ms[host_of], [room * len(tasks) for tasks in tasks_at])
    site_of_host = _majority(host_of, site_of_feed, len(names), len(sites))
    feeds_of_host = np.bincount(host_of, minlength=len(names))
    task_of_host = np.zeros(len(names), np.intp)
    for site, tasks in enumerate(tasks_at):
        mine = np.flatnonzero(site_of_host == site)
        task_of_host[mine] = tasks[_deal(feeds_of_host[mine], len(tasks))]
    return task_of_host[host_of]


def _majority(host_of: NDArray[np.intp], site_of_feed: NDArray[np.intp], hosts: int, sites: int) -> NDArray[np.intp]:
    """The site that most feeds of a host were given to; of equals the first."""
    counts = np.bincount(host_of * sites + site_of_feed, minlength=hosts * sites).reshape(hosts, sites)
    chosen: NDArray[np.intp] = counts.argmax(axis=1)
    return chosen


def _deal(sizes: NDArray[np.intp], tasks: int) -> NDArray[np.intp]:
    """The largest first, each to the task that has least so far."""
    loads, given = np.zeros(tasks, np.int64), np.zeros(len(sizes), np.intp)
    for host in np.argsort(-sizes, kind="stable").tolist():
        given[host] = least = int(loads.argmin())
        loads[least] += sizes[host]
    return given


def assign(latencies_ms: NDArray[np.float64], capacities: Sequence[int], step_ms: float = STEP_MS) -> NDArray[np.intp]:
    """The crawler of each feed, from (feed, crawler) latencies and the most feeds each crawler takes.

    The sum of latencies, each rounded to `step_ms`, is the least there can be. What is not a finite number is out of
    reach, and chosen only where nothing else is left.
    """
    room = np.asarray(capacities, np.int64)
    if latencies_ms.ndim != 2 or latencies_ms.shape[1] != len(room):
        raise InputError(f"Latencies to {len(room)} crawlers are needed, not {latencies_ms.shape}.")
    if len(latencies_ms) > room.sum():
        raise InputError(f"{len(latencies_ms):,} feeds do not fit into crawlers that take {int(room.sum()):,}.")
    steps = np.nan_to_num(latencies_ms / step_ms, nan=_UNREACHABLE, posinf=_UNREACHABLE, neginf=_UNREACHABLE)
    return _Moves(np.minimum(np.rint(steps), _UNREACHABLE).astype(np.int64), room).settled()


class _Moves:
    """Who is where, and what it costs to move one feed from a crawler to another."""

    def __init__(self, cost: NDArray[np.int64], room: NDArray[np.int64]) -> None:
        crawlers = len(room)
        nearest = cost.argmin(axis=1) if len(cost) else np.zeros(0, np.intp)
        self._cost, self._room = cost, room
        self._feeds = [np.flatnonzero(nearest == crawler) for crawler in range(crawlers)]
        self._extra = np.full((crawlers, crawlers), _NEVER)  # of the cheapest feed to move, from row to column
        self._cheapest = np.zeros((crawlers, crawlers), np.int64)  # how many feeds cost just that
        for crawler in range(crawlers):
            self._price(crawler)

    def settled(self) -> NDArray[np.intp]:
        """Move feeds until every crawler has room for its own."""
        while (over := self._loads() - self._room).max(initial=0) > 0:
            path = self._cheapest_path(over > 0, over < 0)
            amount = min(over[path[0]], -over[path[-1]], *(self._cheapest[pair] for pair in _pairs(path)))
            self._move(path, int(amount))
        chosen = np.zeros(len(self._cost), np.intp)
        for crawler, feeds in enumerate(self._feeds):
            chosen[feeds] = crawler
        return chosen

    def _loads(self) -> NDArray[np.int64]:
        return np.array([len(feeds) for feeds in self._feeds], np.int64)

    def _price(self, crawler: int) -> None:
        feeds = self._feeds[crawler]
        if not len(feeds):
            self._extra[crawler] = _NEVER
            return
        extra = self._cost[feeds] - self._cost[feeds, crawler][:, None]
        self._extra[crawler] = extra.min(axis=0)
        self._cheapest[crawler] = (extra == self._extra[crawler]).sum(axis=0)

    def _cheapest_path(self, sources: NDArray[np.bool_], targets: NDArray[np.bool_]) -> list[int]:
        """From a crawler that has too many to one that has room (Bellman and Ford, all edges at once)."""
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
        """So many of the cheapest feeds of each crawler of the path go to the next one."""
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
            self._price(crawler)


def _pairs(path: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(path))
