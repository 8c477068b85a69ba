"""Many migrations of cells while posts are matched: bytes, duration, latency (PS²Stream VI-D, figures 12b to 15)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.balance.rebalance.options import RebalanceOptions
from tidings_lab.datasets import Posts
from tidings_lab.located_posts import as_located, load_located
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.simulated_stream import LiveBatch, SimulatedStream, build_state
from tidings_lab.spatial_scenarios import DrawPhase, draw_hot_spot
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

_CALIBRATION_BATCHES, _CALIBRATION_PHASE = 20, 999
_MAX_EXTENSION = 10  # times the batches, until there were enough migrations
_PARTS = 50  # posts of a phase are drawn once and used in turns
_ROUNDING_MS = 1e-6
_UNAFFECTED_MS, _LONG_MS = 100.0, 1_000.0  # the classes of figures 12c and 15


def steps(parameters: Parameters) -> int:
    return len(parameters["subscriptions"]) * len(parameters["selectors"])


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield a row per number of subscriptions and selector of cells."""
    table = load_located(parameters["posts_sampled"], seed, with_times=True)
    for count in parameters["subscriptions"]:
        for selector in parameters["selectors"]:
            yield f"{count:,} subscriptions, {selector}", partial(_measure, count, selector, table, parameters, seed)


def _measure(count: int, selector: str, table: pa.Table, parameters: Parameters, seed: int) -> list[Row]:
    known, unseen = table.slice(0, parameters["learned"]), table.slice(parameters["learned"])
    subscriptions = draw_subscriptions("Q1", count, Tweets.of(known), seed)
    options = RebalanceOptions(interval_s=None, cell_selection=selector)
    draw = draw_hot_spot(unseen, np.random.default_rng([seed, 8]))
    with tempfile.TemporaryDirectory(prefix="tidings-lab-") as folder:
        open_copy = build_state(
            Path(folder) / "state", subscriptions, "kdtree", parameters["workers"], as_located(known)
        )
        with closing(open_copy(Path(folder) / selector, options, None)) as stream:
            run = LiveRun(stream, draw, parameters)
            run.run()
    size = 1 + sorted(parameters["subscriptions"]).index(count)
    return [{"subscriptions": count, "size": size, "algorithm": selector, **run.summarize()}]


@dataclass
class LiveRun:
    """A stream at a moderate rate, in real time, under a hot spot that moves; its clock runs faster.

    Matchers run one after another here, so a batch arrives when all of them together are done with the last one after
    `pace` times their time. The latency of a batch is what it would be if they ran at the same time: it waits for the
    batch before, then for the switch to a new version, the dispatcher and the slowest matcher.
    """

    stream: SimulatedStream
    draw: DrawPhase
    parameters: Parameters
    batches: list[LiveBatch] = field(default_factory=list)
    arrived: list[float] = field(default_factory=list)
    migration_s: list[float] = field(default_factory=list)
    migration_bytes: list[int] = field(default_factory=list)

    def run(self) -> None:
        posts, per_phase = self.parameters["batch_posts"], self.parameters["phase_batches"]
        interval = self._calibrate(posts)
        start, building_since, files = time.perf_counter(), None, self.stream.list_files()
        parts: list[pa.Table] = []
        for number in range(_MAX_EXTENSION * self.parameters["batches"]):
            if number >= self.parameters["batches"] and len(self.migration_s) >= self.parameters["migrations"]:
                break
            if number % per_phase == 0:
                parts = [self.draw(number // per_phase, posts) for _ in range(min(_PARTS, per_phase))]
            arrival = start + number * interval
            time.sleep(max(0.0, arrival - time.perf_counter()))
            now = time.perf_counter()
            batch = self.stream.run_live_batch(parts[number % len(parts)], (now - start) * self.parameters["clock"])
            self.batches.append(batch)
            self.arrived.append(number * interval)
            if batch.is_switch and building_since is not None:
                written = self.stream.list_files()
                self.migration_bytes.append(sum(size for path, size in written.items() if path not in files))
                self.migration_s.append(now + batch.switch_s - building_since)
                files = written
            building_since = (building_since or now) if batch.is_building else None

    def _calibrate(self, posts: int) -> float:
        """Return the seconds between batches: a multiple of the time that one takes without rebalancing."""
        part, seconds = self.draw(_CALIBRATION_PHASE, posts), []
        for _ in range(_CALIBRATION_BATCHES):
            start = time.perf_counter()
            self.stream.run_live_batch(part, 0.0)
            seconds.append(time.perf_counter() - start)
        return float(self.parameters["pace"] * np.median(seconds))

    def _affected(self, latency_ms: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return the batches during a build or a switch, and those that waited in the queue after them."""
        affected = np.zeros(len(self.batches), bool)
        for number, batch in enumerate(self.batches):
            waited = latency_ms[number] > 1e3 * batch.service_s + _ROUNDING_MS
            after = number > 0 and affected[number - 1] and waited
            affected[number] = batch.is_building or batch.is_switch or after
        return affected

    def summarize(self) -> Row:
        latency_ms = 1e3 * latencies(self.arrived, [batch.service_s for batch in self.batches])
        is_moving = self._affected(latency_ms)
        switches = [1e3 * batch.switch_s for batch in self.batches if batch.is_switch]
        row: Row = {
            "migrations": len(self.migration_s),
            "p50_ms": float(np.percentile(latency_ms, 50)),
            "p99_ms": float(np.percentile(latency_ms, 99)),
            "max_ms": float(latency_ms.max()),
            "below_100_ms": float(np.mean(latency_ms < _UNAFFECTED_MS)),
            "100_to_1000_ms": float(np.mean((latency_ms >= _UNAFFECTED_MS) & (latency_ms < _LONG_MS))),
            "above_1000_ms": float(np.mean(latency_ms >= _LONG_MS)),
            "moving_share": float(is_moving.mean()),
        }
        if self.migration_s:
            row |= {"migration_mb": float(np.mean(self.migration_bytes)) / 1e6, "switch_ms": float(np.mean(switches))}
            row |= {"migration_s": float(np.mean(self.migration_s))}
        if is_moving.any() and not is_moving.all():
            quiet, moving = (float(np.percentile(latency_ms[chosen], 99)) for chosen in (~is_moving, is_moving))
            row |= {"p99_quiet_ms": quiet, "p99_moving_ms": moving, "slowdown": moving / quiet}
        return row


def latencies(arrived: Sequence[float], service_s: Sequence[float]) -> NDArray[np.float64]:
    """Return the seconds from arrival to end of batches that are served in order, one at a time."""
    end, found = 0.0, []
    for arrival, service in zip(arrived, service_s, strict=True):
        end = max(end, arrival) + service
        found.append(end - arrival)
    return np.array(found)
