"""Load shedding under a changing rate: 16 K, 32 K, 2 K, 16 K posts per second (S³-TM, figure 6.23).

Only the clock is simulated. Every second, the real router routes a batch of real posts at the current level. Matching
takes the measured time per post, multiplied by a factor so that the matchers reach a given rate without shedding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidings.routing.shed import ShedDecision
from tidings.stream.shed_levels import BacklogBuffer, ShedLevels, ShedState
from tidings.text.analyzer import AnalyzedBatch
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.simulated_matchers import SimulatedCluster
from tidings_lab.workload import fit_plan, iter_workloads


@dataclass(frozen=True, slots=True)
class SimulatedMachine:
    """Matchers with measured speed; `cost` is the time per post of each of them, in seconds."""

    cluster: SimulatedCluster
    posts: AnalyzedBatch
    cost: NDArray[np.float64]
    policy: str
    levels: ShedLevels

    def route(self, level: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the number of posts that each matcher gets at a shedding level."""
        places = np.arange(first, first + count) % len(self.posts)
        batch = AnalyzedBatch(self.posts.terms, np.ascontiguousarray(self.posts.bounds[places]))
        routed = self.cluster.route(batch, ShedDecision(self.policy, self.levels.limit(level), first))
        loads = np.zeros(self.cluster.matchers, np.int64)
        for share in routed.batches:
            loads[share.matcher] = len(share.posts)
        return loads

    def rate(self, level: int, first: int, count: int) -> float:
        """Return the posts/s that all matchers together can match; the slowest one decides."""
        return count / float((self.route(level, first, count) * self.cost).max())


def steps(parameters: Parameters) -> int:
    return int(len(parameters["rates"]) * len(parameters["policies"]))


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per second and policy, and one per phase."""
    workload = next(iter_workloads(posts, parameters, seed))
    fold, subscribed = workload.fold, workload.subscribed
    plan = fit_plan(parameters["algorithm"], subscribed, fold.known, parameters["matchers"])
    cluster = SimulatedCluster(subscribed, plan, parameters["placement"], seed)
    received = subscribed.analyze(fold.unseen)
    work = cluster.work(received, parameters["repetitions"])
    measured = work.best / np.maximum(1, work.loads)
    slowdown = len(received) / float(work.best.max()) / parameters["capacity"]
    for policy in parameters["policies"]:
        levels = ShedLevels(parameters["max_limit"], parameters["step"])
        yield from _simulate(
            SimulatedMachine(cluster, received, measured * slowdown, policy, levels), parameters, slowdown
        )


def _simulate(machine: SimulatedMachine, parameters: Parameters, slowdown: float) -> Iterator[tuple[str, list[Row]]]:
    loads = [float(machine.route(level, 0, len(machine.posts)).sum()) for level in range(machine.levels.highest + 1)]
    buffer = BacklogBuffer.for_latency(parameters["latency_s"], parameters["capacity"], loads)
    shedding, waiting, second, taken = ShedState(), 0.0, 0, 0
    for phase, rate in enumerate(parameters["rates"]):
        rows: list[Row] = []
        for _ in range(parameters["phase_s"]):
            level = shedding.level if machine.policy != "off" else 0
            service_rate = machine.rate(level, taken, parameters["sampled"])
            taken += parameters["sampled"]
            waiting = max(0.0, waiting + rate - service_rate)
            about = {"policy": machine.policy, "phase": phase, "second": second, "rate": rate}
            load = {"service_rate": service_rate, "level": level, "waiting": waiting, "delay": waiting / service_rate}
            rows.append({**about, **load})
            shedding = shedding.step(waiting, buffer, machine.levels)
            second += 1
        yield (
            f"{machine.policy}, phase {phase + 1}: {rate:,} posts per second",
            [*rows, _summarize(rows, parameters, slowdown)],
        )


def _summarize(rows: list[Row], parameters: Parameters, slowdown: float) -> Row:
    """Return one row per phase: the levels, the time until they settled, and the delays."""
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
        "slowed_down": slowdown,
    }
