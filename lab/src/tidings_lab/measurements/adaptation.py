"""Shedding that follows the load: 16 K, 32 K, 2 K and again 16 K posts a second, second by second (S³-TM, figure 6.23).

The clock is simulated, nothing else is: every second a batch of real posts is routed by the real router with what the
level allows, and the matchers take as long for it as the real matcher was measured to take for a post, slowed down by
one factor so that they manage a set rate when nothing is shed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.routing.shed import Shed
from tidings.stream.shed_levels import Buffer, Levels, Shedding
from tidings.text.analyzer import Received
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_matchers import Fleet
from tidings_lab.workload import fitted, numbered_posts, workloads


@dataclass(frozen=True, slots=True)
class Machine:
    """Matchers whose speed was measured; `cost` is what a post costs each of them, in seconds."""

    fleet: Fleet
    posts: Received
    cost: NDArray[np.float64]
    policy: str
    levels: Levels

    def sent(self, level: int, first: int, count: int) -> NDArray[np.int64]:
        """How many of some posts every matcher is sent at a level."""
        places = np.arange(first, first + count) % len(self.posts)
        batch = Received(self.posts.terms, np.ascontiguousarray(self.posts.bounds[places]))
        routed = self.fleet.route(batch, Shed(self.policy, self.levels.limit(level), first))
        loads = np.zeros(self.fleet.matchers, np.int64)
        for share in routed.shares:
            loads[share.matcher] = len(share.posts)
        return loads

    def rate(self, level: int, first: int, count: int) -> float:
        """Posts a second that all matchers together take of such posts; the slowest decides."""
        return count / float((self.sent(level, first, count) * self.cost).max())


def steps(parameters: Parameters) -> int:
    return int(len(parameters["rates"]) * len(parameters["policies"]))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each second of each policy, and one for each phase."""
    fold, _, subscribed = next(workloads(numbered_posts(posts.texts), parameters, seed))
    fleet = Fleet(subscribed, fitted(parameters["algorithm"], subscribed, fold.known, parameters["matchers"]),
                  parameters["placement"], seed)  # fmt: skip
    received = subscribed.received(fold.unseen)
    work = fleet.work(received, parameters["repetitions"])
    measured = work.best / np.maximum(1, work.loads)
    slower = len(received) / float(work.best.max()) / parameters["capacity"]
    for policy in parameters["policies"]:
        levels = Levels(parameters["most"], parameters["step"])
        yield from _phases(Machine(fleet, received, measured * slower, policy, levels), parameters, slower)


def _phases(machine: Machine, parameters: Parameters, slower: float) -> Iterator[tuple[str, list[Row]]]:
    loads = [float(machine.sent(level, 0, len(machine.posts)).sum()) for level in range(machine.levels.highest + 1)]
    buffer = Buffer.for_latency(parameters["latency_s"], parameters["capacity"], loads)
    shedding, waiting, second, taken = Shedding(), 0.0, 0, 0
    for phase, rate in enumerate(parameters["rates"]):
        rows: list[Row] = []
        for _ in range(parameters["phase_s"]):
            level = shedding.level if machine.policy != "off" else 0
            able = machine.rate(level, taken, parameters["sampled"])
            taken += parameters["sampled"]
            waiting = max(0.0, waiting + rate - able)
            rows.append({"policy": machine.policy, "phase": phase, "second": second, "rate": rate, "able": able,
                         "level": level, "waiting": waiting, "delay": waiting / able})  # fmt: skip
            shedding = shedding.adapted(waiting, buffer, machine.levels)
            second += 1
        yield f"{machine.policy}: {rate:,} posts a second", [*rows, _phase(rows, parameters, slower)]


def _phase(rows: list[Row], parameters: Parameters, slower: float) -> Row:
    """A phase in a row: how high the level went, how soon it came near to where it stayed, how long posts waited."""
    levels, delays = (np.array([row[name] for row in rows]) for name in ("level", "delay"))
    settled = float(np.median(levels[len(levels) // 2 :]))
    return {
        "summary": True,
        "policy": rows[0]["policy"],
        "phase": rows[0]["phase"],
        "highest_level": int(levels.max()),
        "last_level": int(levels[-1]),
        "settled_after_s": int(np.argmax(np.abs(levels - settled) <= 1)),
        "in_time": float((delays <= parameters["latency_s"]).mean()),
        "longest_delay": float(delays.max()),
        "slowed_down": slower,
    }
