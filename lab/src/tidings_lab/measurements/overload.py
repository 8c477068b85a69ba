"""Overload of a running stream on Spark: twice the sustainable rate, with and without shedding (S³-TM, figure 6.23)."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tidings.store import open_store
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.overload_stream import (
    BatchOutcome,
    Phase,
    PhasedFeeder,
    RunningStream,
    read_outcomes,
    running_stream,
    sustained_rate,
)
from tidings_lab.runner import Parameters, Row, Step
from tidings_lab.sample_queries import draw_queries

OFF = "off"


def steps(parameters: Parameters) -> int:
    return 1


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]:
    """Yield a row per batch, phase and policy. All policies get the same posts at the same rates."""
    yield "all policies", partial(_measure_policies, posts, parameters, seed)


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a stream with one policy did with the posts of all phases."""

    policy: str
    phases: list[Phase]
    batches: list[BatchOutcome]
    cpu_s: float
    matching_s: float  # CPU seconds of the matchers, which are a part of it
    sent: int  # posts, once per matcher
    shed: int
    plan_version: int  # 1: hashed
    drained_s: float | None  # after the last phase; None if it did not catch up


def _measure_policies(posts: Posts, parameters: Parameters, seed: int) -> list[Row]:
    """Measure the sustainable rate without shedding, and every policy at multiples of it."""
    rng = np.random.default_rng([seed, 90])
    queries = draw_queries(sample_texts(posts, rng), parameters["subscriptions"], rng, *parameters["query_terms"])
    capacity, outcomes = 0.0, list[_Outcome]()
    for policy in (OFF, *parameters["policies"]):
        with tempfile.TemporaryDirectory(prefix="tidings-lab-") as name:
            folder = Path(name)
            for part in ("posts", "state"):
                (folder / part).mkdir()
            with open_store(folder / "state") as store:
                store.subscriptions.add_many([(query,) for query in queries.to_pylist()])
                with running_stream(folder, _options(policy, parameters)) as stream:
                    feeder = PhasedFeeder(folder / "posts", posts)
                    _warm_up(stream, feeder, parameters)
                    capacity = capacity or _measure_capacity(stream, feeder, store, parameters)
                    outcomes.append(_run_phases(policy, stream, feeder, store, capacity, parameters))
    rows = [row for outcome in outcomes for row in _batch_rows(outcome)]
    rows += [row for outcome in outcomes for row in _phase_rows(outcome, outcomes[0], parameters["latency_s"])]
    return [*rows, *(_total_row(outcome, outcomes[0], capacity) for outcome in outcomes)]


def _options(policy: str, parameters: Parameters) -> list[str]:
    options = ["--plan", "partitioned", "--matchers", str(parameters["matchers"]), "--shed", policy]
    options += ["--max-latency", f"{parameters['latency_s']:g} s", "--trigger", "200 ms"]
    options += ["--max-posts-per-batch", str(parameters["posts_per_batch"])]
    options += ["--matcher", parameters["matcher"]] if parameters["matcher"] else []
    return [*options, "--master", parameters["master"]] if parameters["master"] else options


def _warm_up(stream: RunningStream, feeder: PhasedFeeder, parameters: Parameters) -> None:
    """Feed slowly: the JVM compiles, and the stream learns its first plan, unless it would not be better."""
    feeder.write_file(parameters["warmup_rate"])
    if not stream.wait_until_read(feeder.written, parameters["start_s"]):
        raise RuntimeError(f"the stream did not start: {stream.log.read_text('utf-8')[-2000:]}")
    feeder.feed(0.0, parameters["warmup_rate"], parameters["warmup_s"])
    end = time.monotonic() + parameters["plan_s"]
    while time.monotonic() < end and not _has_learned(stream):
        feeder.feed(0.0, parameters["warmup_rate"], 1.0)
    stream.wait_until_read(feeder.written, parameters["drain_s"])


def _has_learned(stream: RunningStream) -> bool:
    """Return whether the stream uses a plan that it learned: the first one is hashed."""
    snapshot = stream.snapshot()
    return snapshot is not None and snapshot.plan_version > 1 and not snapshot.is_building_plan


def _measure_capacity(stream: RunningStream, feeder: PhasedFeeder, store: Any, parameters: Parameters) -> float:
    """Return the posts/s at which the stream reads a backlog without shedding, in batches of the usual size."""
    last = max((record.batch for record in store.batches.recent(limit=1)), default=-1)
    backlog, first = parameters["backlog_posts"], feeder.written
    size = max(1, parameters["posts_per_batch"] // 4)
    for _ in range(0, backlog, size):
        feeder.write_file(size)
    if not stream.wait_until_read(feeder.written, parameters["start_s"]):
        raise RuntimeError("the stream did not read the backlog; set fewer backlog_posts")
    records = [record for record in store.batches.recent(limit=1_000_000) if record.batch > last]
    return sustained_rate(records, feeder.written - first)


def _run_phases(
    policy: str,
    stream: RunningStream,
    feeder: PhasedFeeder,
    store: Any,
    capacity: float,
    parameters: Parameters,
) -> _Outcome:
    """Feed all phases and wait for the backlog."""
    cpu_s, before = stream.cpu_s(), stream.snapshot()
    feeder.first_id = feeder.written
    phases = [feeder.feed(factor, factor * capacity, parameters["phase_s"]) for factor in parameters["factors"]]
    has_drained = stream.wait_until_read(feeder.written, parameters["drain_s"])
    spent, after = stream.cpu_s() - cpu_s, stream.snapshot()
    assert before is not None
    assert after is not None
    sent, shed, matching_s = (
        sum(getattr(load, name) for load in after.matchers) - sum(getattr(load, name) for load in before.matchers)
        for name in ("posts", "shed", "seconds")
    )
    stream.stop()
    batches = [one for one in read_outcomes(store, stream.sink) if one.record.started_at >= phases[0].started_at]
    end = phases[-1].started_at + parameters["phase_s"]
    last = max((one.record.finished_at or 0.0 for one in batches), default=end)
    return _Outcome(
        policy,
        phases,
        batches,
        spent,
        matching_s,
        sent,
        shed,
        after.plan_version,
        max(0.0, last - end) if has_drained else None,
    )


def _batch_rows(outcome: _Outcome) -> Iterator[Row]:
    """Yield a row per batch: when it ended, the rate of posts then, its level, and the latency of its matches."""
    start = outcome.phases[0].started_at
    for one in outcome.batches:
        ended = (one.record.finished_at or 0.0) - start
        phase = max((p for p in outcome.phases if p.started_at - start <= ended), key=lambda p: p.started_at)
        row: Row = {"policy": outcome.policy, "second": round(ended, 2), "rate": round(phase.rate)}
        row |= {"level": _level(one), "matched": len(one.posts)}
        if len(one.posts):
            row["latency_s"] = float(np.percentile(one.latency_s, 99))
        yield row


def _level(one: BatchOutcome) -> int:
    return int(json.loads(one.record.shed)["level"]) if one.record.shed else 0


def _phase_rows(outcome: _Outcome, reference: _Outcome, accepted_s: float) -> Iterator[Row]:
    """Yield a row per phase; `kept` is relative to what was found without shedding of the same posts."""
    posts, latency = _concat(outcome)
    everything, _ = _concat(reference)
    for number, phase in enumerate(outcome.phases):
        other = reference.phases[number]
        assert (phase.first_id - outcome.phases[0].first_id) == (other.first_id - reference.phases[0].first_id)
        inside = (posts >= phase.first_id) & (posts < phase.end_id)
        expected = int(((everything >= other.first_id) & (everything < other.end_id)).sum())
        ended = phase.started_at + (outcome.phases[1].started_at - outcome.phases[0].started_at)
        levels = [_level(one) for one in outcome.batches if phase.started_at <= one.record.started_at < ended]
        row: Row = {"summary": True, "policy": outcome.policy, "phase": number, "factor": phase.factor}
        row |= {"rate": round(phase.rate), "posts": phase.end_id - phase.first_id, "matches": int(inside.sum())}
        row |= {"kept": float(inside.sum()) / max(1, expected), "highest_level": max(levels, default=0)}
        row |= {"last_level": levels[-1] if levels else 0}
        if inside.any():
            row |= {f"p{p}_s": float(np.percentile(latency[inside], p)) for p in (50, 99)}
            row["late"] = row["p99_s"] / accepted_s
        yield row


def _concat(outcome: _Outcome) -> tuple[Any, Any]:
    posts = np.concatenate([np.zeros(0, np.int64), *(one.posts for one in outcome.batches)])
    return posts, np.concatenate([np.zeros(0), *(one.latency_s for one in outcome.batches)])


def _total_row(outcome: _Outcome, reference: _Outcome, capacity: float) -> Row:
    """Return what the whole run took, relative to the run without shedding."""
    posts = outcome.phases[-1].end_id - outcome.phases[0].first_id
    row: Row = {"total": True, "policy": outcome.policy, "capacity": capacity, "posts": posts}
    row |= {"cpu_s": outcome.cpu_s, "cpu_saved": 1 - outcome.cpu_s / reference.cpu_s}
    row |= {"matching_s": outcome.matching_s, "matching_saved": 1 - outcome.matching_s / reference.matching_s}
    row |= {
        "shed_pairs": outcome.shed / max(1, outcome.sent + outcome.shed),
        "drained_s": outcome.drained_s,
        "plan_version": outcome.plan_version,
    }
    found, everything = (len(_concat(one)[0]) for one in (outcome, reference))
    kept, left = found / max(1, everything), 1 - row["matching_saved"]
    return {**row, "matches": found, "kept": kept, "kept_over_work": kept / left}
