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
from tidings_lab.simulated_stream import NO_REBALANCING, build_state, run_in_turns, summarize_batches, warm_up
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
Phase = dict[str, dict[str, Any]]  # totals of a phase by arm


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
        open_copy = build_state(folder / "state", subscriptions, PARTITIONER, MATCHERS, as_located(known))
        streams = {name: open_copy(folder / name, options, None) for name, options in ARMS.items()}
        for stream in streams.values():
            stack.callback(stream.close)
        warm_up(streams, known, sizes.batches // 2, sizes.batch_posts, sizes.batch_s)
        phases: list[Phase] = []
        for number in range(sizes.phases):
            batches = [draw(number, sizes.batch_posts) for _ in range(sizes.batches)]
            costs = run_in_turns(streams, batches, sizes.batch_s)
            phases.append({name: summarize_batches(measured) for name, measured in costs.items()})
            rates = "; ".join(f"{name} {measured['throughput']:,.0f}" for name, measured in phases[-1].items())
            report(f"  {workload}, phase {number + 1}, posts/s of the slowest matcher: {rates}")
    seconds = sizes.phases * sizes.batches * sizes.batch_s
    return [_summarize(workload, name, phases, seconds) for name in ARMS]


def _summarize(workload: str, arm: str, phases: list[Phase], seconds: float) -> dict[str, Any]:
    """Return totals over all phases; the slowest matcher of each phase limits its throughput."""
    own = [phase[arm] for phase in phases]
    slowest, other = (sum(phase[name]["slowest_s"] for phase in phases) for name in (arm, REFERENCE))
    posts, rebalancing, steps, written = (
        sum(phase[name] for phase in own) for name in ("posts", "rebalancing_s", "steps", "bytes_written")
    )
    return {
        "workload": workload,
        "arm": arm,
        "throughput": posts / slowest,
        "ratio_to_unchanged": other / slowest,
        "time_imbalance": float(np.mean([phase["time_imbalance"] for phase in own])),
        "rebalancing_share_of_core": rebalancing / seconds,
        "steps": steps,
        "bytes_written": written,
        "phases": own,
    }
