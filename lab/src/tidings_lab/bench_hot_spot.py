"""A moving hot spot over 8 matchers: what the rebalancer of the product gains, and what it costs without one.

The streams with and without rebalancing match the same batches in turns, on simulated matchers (`simulated_stream`). A
second stream without rebalancing shows the noise. Throughput is that of the slowest matcher: the posts of a phase
divided by the CPU time of its busiest matcher, the time until the rebalancer reacts included.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidings.balance.rebalance.options import RebalanceOptions
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.progress import Report, print_line
from tidings_lab.simulated_stream import NO_REBALANCING, BatchCost, SimulatedStream
from tidings_lab.spatial_scenarios import SCENARIOS
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

MATCHERS = 8
PARTITIONER = "hybrid"
ARMS: Mapping[str, RebalanceOptions] = {
    "rebalanced": RebalanceOptions(interval_s=None),  # local steps only: a day is longer than this
    "unchanged": NO_REBALANCING,
    "unchanged again": NO_REBALANCING,
}
REFERENCE = "unchanged"
WORKLOADS = ("balanced", "hot spot")
_WARM_UPS = 2  # batches


@dataclass(frozen=True, slots=True)
class HotSpotSizes:
    """A phase lasts ``batches × batch_s`` seconds of simulated time."""

    subscriptions: int = 100_000
    learned: int = 60_000
    phases: int = 4
    batches: int = 30
    batch_posts: int = 10_000
    batch_s: float = 2.0


QUICK = HotSpotSizes(subscriptions=10_000, learned=20_000, phases=2, batches=12, batch_posts=4_000)


def measure_hot_spot(folder: Path, sizes: HotSpotSizes, seed: int, report: Report = print_line) -> dict[str, Any]:
    """Measure all arms on a balanced stream and on one with a moving hot spot."""
    table = load_located(None, seed, with_times=True)
    known, unseen = table.slice(0, sizes.learned), table.slice(sizes.learned)
    subscriptions = draw_subscriptions("Q1", sizes.subscriptions, Tweets.of(known), seed)
    return {
        "matchers": MATCHERS,
        "partitioner": PARTITIONER,
        "subscriptions": sizes.subscriptions,
        "batch_posts": sizes.batch_posts,
        "batch_s": sizes.batch_s,
        "rows": [
            row
            for workload in WORKLOADS
            for row in _measure_workload(folder / workload, workload, known, unseen, subscriptions, sizes, seed, report)
        ],
    }


def _measure_workload(
    folder: Path,
    workload: str,
    known: pa.Table,
    unseen: pa.Table,
    subscriptions: pa.Table,
    sizes: HotSpotSizes,
    seed: int,
    report: Report,
) -> list[dict[str, Any]]:
    draw = SCENARIOS[workload](unseen, np.random.default_rng([seed, 8]))
    with ExitStack() as stack:
        streams = {}
        for name, options in ARMS.items():
            (folder / name).mkdir(parents=True)
            streams[name] = SimulatedStream(
                folder / name, subscriptions, PARTITIONER, MATCHERS, as_located(known), options
            )
            stack.callback(streams[name].close)
        for _ in range(_WARM_UPS):
            posts = known.slice(0, sizes.batch_posts)
            for stream in streams.values():
                stream.run_batch(posts, sizes.batch_s)
        phases: dict[str, list[list[BatchCost]]] = {name: [] for name in ARMS}
        for phase in range(sizes.phases):
            batches = [draw(phase, sizes.batch_posts) for _ in range(sizes.batches)]
            costs: dict[str, list[BatchCost]] = {name: [] for name in ARMS}
            for number, posts in enumerate(batches):
                for at in range(len(ARMS)):
                    name = list(ARMS)[(at + number) % len(ARMS)]
                    costs[name].append(streams[name].run_batch(posts, sizes.batch_s))
            for name, measured in costs.items():
                phases[name].append(measured)
            rates = "; ".join(
                f"{name} {measure_phase(measured)['throughput']:,.0f}" for name, measured in costs.items()
            )
            report(f"  {workload}, phase {phase + 1}, posts/s of the slowest matcher: {rates}")
    seconds = sizes.phases * sizes.batches * sizes.batch_s
    return [_summarize(workload, name, phases[name], phases[REFERENCE], seconds) for name in ARMS]


def measure_phase(costs: list[BatchCost]) -> dict[str, Any]:
    """Return the throughput of the slowest matcher in a phase, and the work."""
    by_matcher = np.sum([cost.matching for cost in costs], axis=0)
    posts = sum(cost.posts for cost in costs)
    return {
        "throughput": posts / float(by_matcher.max()),
        "slowest_s": float(by_matcher.max()),
        "time_imbalance": float(by_matcher.max() / by_matcher.mean()),
        "work_s": float(by_matcher.sum()),
        "rebalancing_s": sum(cost.rebalancing for cost in costs),
        "switches": sum(cost.is_switch for cost in costs),
        "bytes_written": sum(cost.bytes_written for cost in costs),
        "posts": posts,
    }


def _summarize(
    workload: str, arm: str, phases: list[list[BatchCost]], reference: list[list[BatchCost]], seconds: float
) -> dict[str, Any]:
    """Return totals over all phases; the throughput of all posts is limited by the slowest matcher of each phase."""
    measured, others = ([measure_phase(costs) for costs in one] for one in (phases, reference))
    slowest, other = (sum(phase["slowest_s"] for phase in one) for one in (measured, others))
    rebalancing = sum(phase["rebalancing_s"] for phase in measured)
    return {
        "workload": workload,
        "arm": arm,
        "throughput": sum(phase["posts"] for phase in measured) / slowest,
        "ratio_to_unchanged": other / slowest,
        "time_imbalance": float(np.mean([phase["time_imbalance"] for phase in measured])),
        "rebalancing_share_of_core": rebalancing / seconds,
        "switches": sum(phase["switches"] for phase in measured),
        "bytes_written": sum(phase["bytes_written"] for phase in measured),
        "phases": measured,
    }
