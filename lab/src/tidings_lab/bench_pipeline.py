"""Compare the contenders in one run: check that they agree, then time them in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tidings
from tidings_lab.clock import tree_cpu_seconds
from tidings_lab.contenders import Contender, load_contenders
from tidings_lab.datasets import Posts, SubscriptionSet
from tidings_lab.errors import ContendersDisagree
from tidings_lab.inputs import Inputs, Scale, write_inputs
from tidings_lab.progress import Report

Seconds = tuple[float, float | None]  # wall time, and CPU time of all processes
# A contender that would take longer for all posts runs on the sample. Spark stops Python workers that are idle for a
# minute, so contenders without Python workers must not keep the others waiting for that long.
MAX_SECONDS = 25.0
# The thresholds compare these, so they run on all posts: a sample of a second measures Spark's start, not the join.
ALWAYS_ALL = ("floor", "tidings-replicated", "tidings-partitioned", "spark-sql")


def measure_spine(
    folder: Path,
    posts: Posts,
    subscriptions: SubscriptionSet,
    repetitions: int,
    sample: int,
    report: Report = print,
    only: Sequence[str] = (),
    max_seconds: float = MAX_SECONDS,
) -> dict[str, Any]:
    """Write the inputs below `folder`, check that all contenders agree, and time them."""
    report(f"writing {len(posts):,} posts and {len(subscriptions):,} subscriptions in all formats")
    inputs = write_inputs(folder, posts, subscriptions, sample)
    spark = tidings.session()
    available, skipped = load_contenders(spark, inputs)
    chosen = [contender for contender in available if not only or contender.name in (*only, "floor")]
    agreed = check_agreement(chosen, inputs.sample, report)
    scales = {contender.name: _choose_scale(contender, inputs, max_seconds, report) for contender in chosen}
    times = take_turns(chosen, scales, repetitions, report)
    return {
        "cores": spark.sparkContext.defaultParallelism,
        "posts": inputs.everything.posts,
        "sample": inputs.sample.posts,
        "subscriptions": subscriptions.to_dict() | {"accepted": inputs.accepted, "invalid": inputs.invalid},
        "queries_beyond_words": len(inputs.beyond_words),
        "agreed": agreed,
        "skipped": skipped,
        "contenders": [_describe(contender, scales, times, inputs.everything.posts) for contender in chosen],
    }


def check_agreement(chosen: Sequence[Contender], sample: Scale, report: Report) -> dict[str, Any]:
    """Count the matches of every contender on the sample. Raises ContendersDisagree if they differ."""
    tallies = {}
    for contender in chosen:
        tally = contender.count_matches(sample)
        if tally is not None:
            tallies[contender.name] = tally
            report(f"  {contender.name:<22} {tally.matches:>12,} matches on {sample.posts:,} posts")
    if len(set(tallies.values())) > 1:
        counts = ", ".join(f"{name}: {t.matches:,} ({t.checksum})" for name, t in tallies.items())
        raise ContendersDisagree(f"Contenders found different matches: {counts}.")
    matches, checksum = next(((t.matches, t.checksum) for t in tallies.values()), (0, 0))
    return {"posts": sample.posts, "matches": matches, "checksum": checksum, "contenders": list(tallies)}


def _choose_scale(contender: Contender, inputs: Inputs, max_seconds: float, report: Report) -> Scale:
    """Return all posts if the contender is fast enough, by its time on the sample, and warm it up at that scale."""
    seconds, _ = _time(contender, inputs.sample)
    expected = seconds * inputs.everything.posts / inputs.sample.posts
    scale = inputs.everything if expected <= max_seconds or contender.name in ALWAYS_ALL else inputs.sample
    if scale is inputs.everything:
        seconds, _ = _time(contender, scale)
    report(f"  {contender.name:<22} warm-up: {scale.posts:,} posts in {seconds:.1f} s")
    return scale


def take_turns(
    chosen: Sequence[Contender], scales: dict[str, Scale], repetitions: int, report: Report
) -> dict[str, list[Seconds]]:
    """Return the seconds of every repetition. The contenders alternate, so that a slow minute affects all of them."""
    times: dict[str, list[Seconds]] = {contender.name: [] for contender in chosen}
    for number in range(repetitions):
        for contender in chosen:
            times[contender.name].append(_time(contender, scales[contender.name]))
        rates = (
            f"{contender.name} {scales[contender.name].posts / times[contender.name][-1][0]:,.0f}"
            for contender in chosen
        )
        report(f"  repetition {number + 1}, posts/s: {', '.join(rates)}")
    return times


def _time(contender: Contender, scale: Scale) -> Seconds:
    cpu, start = tree_cpu_seconds(), time.perf_counter()
    contender.consume(scale)
    seconds, cpu_end = time.perf_counter() - start, tree_cpu_seconds()
    return seconds, None if cpu is None or cpu_end is None else cpu_end - cpu


def _describe(
    contender: Contender, scales: dict[str, Scale], times: dict[str, list[Seconds]], all_posts: int
) -> dict[str, Any]:
    scale, seconds = scales[contender.name], [wall for wall, _ in times[contender.name]]
    rates = [scale.posts / value for value in seconds]
    floor_rates = [scales["floor"].posts / wall for wall, _ in times["floor"]]
    ratios = [rate / floor for rate, floor in zip(rates, floor_rates, strict=True)]
    return {
        "name": contender.name,
        "label": contender.label,
        "starts_from": contender.starts_from,
        "note": contender.note,
        "posts": scale.posts,
        "extrapolated": scale.posts < all_posts,
        "seconds": seconds,
        "cpu_seconds": [cpu for _, cpu in times[contender.name]],
        "posts_per_second": statistics.median(rates),
        "ratios_to_floor": ratios,
        "ratio_to_floor": statistics.median(ratios),
    }
