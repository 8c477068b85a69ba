"""The contenders side by side in one run: they must agree, then they take turns, again and again."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tidings
from tidings_lab.clock import tree_cpu_seconds
from tidings_lab.contenders import Contender, contenders
from tidings_lab.datasets import Posts, Subscriptions
from tidings_lab.errors import ContendersDisagree
from tidings_lab.inputs import Inputs, Scale, write_inputs

Say = Callable[[str], None]
Seconds = tuple[float, float | None]  # by the wall, and of the processor over all processes
# Whoever would need longer for all posts runs on the sample, and its posts/s are compared. Spark ends Python workers
# that were idle for a minute, so contenders without them must not keep the others waiting that long.
LONGEST_SECONDS = 25.0
# The bars compare these, so at one scale: a sample of a second tells more of Spark's start than of the join.
ALWAYS_ALL = ("floor", "tidings-replicated", "tidings-partitioned", "spark-sql")


def measure_spine(
    folder: Path,
    posts: Posts,
    subscriptions: Subscriptions,
    repetitions: int,
    sample: int,
    say: Say = print,
    only: Sequence[str] = (),
    longest_seconds: float = LONGEST_SECONDS,
) -> dict[str, Any]:
    """Write the inputs below `folder`, compare the tallies, measure; returns what the record keeps."""
    say(f"writing {len(posts):,} posts and {len(subscriptions):,} subscriptions in every form")
    inputs = write_inputs(folder, posts, subscriptions, sample)
    spark = tidings.session()
    found, skipped = contenders(spark, inputs)
    chosen = [one for one in found if not only or one.name in (*only, "floor")]
    agreed = agree(chosen, inputs.sample, say)
    scales = {one.name: _scale(one, inputs, longest_seconds, say) for one in chosen}
    times = take_turns(chosen, scales, repetitions, say)
    return {
        "cores": spark.sparkContext.defaultParallelism,
        "posts": inputs.everything.posts,
        "sample": inputs.sample.posts,
        "subscriptions": subscriptions.described() | {"accepted": inputs.accepted, "refused": inputs.refused},
        "queries_beyond_words": len(inputs.beyond_words),
        "agreed": agreed,
        "skipped": skipped,
        "contenders": [_result(one, scales, times, inputs.everything.posts) for one in chosen],
    }


def agree(chosen: Sequence[Contender], sample: Scale, say: Say) -> dict[str, Any]:
    """The tally of every contender on the sample; ContendersDisagree unless all are the same."""
    tallies = {}
    for one in chosen:
        tally = one.tally(sample)
        if tally is not None:
            tallies[one.name] = tally
            say(f"  {one.name:<22} {tally.matches:>12,} matches on {sample.posts:,} posts")
    if len(set(tallies.values())) > 1:
        told = ", ".join(f"{name}: {t.matches:,} ({t.checksum})" for name, t in tallies.items())
        raise ContendersDisagree(f"The contenders do not find the same matches: {told}.")
    matches, checksum = next(((t.matches, t.checksum) for t in tallies.values()), (0, 0))
    return {"posts": sample.posts, "matches": matches, "checksum": checksum, "contenders": list(tallies)}


def _scale(one: Contender, inputs: Inputs, longest_seconds: float, say: Say) -> Scale:
    """All posts for whoever gets through them in time, which the sample tells; then a warm-up at that scale."""
    seconds, _ = _timed(one, inputs.sample)
    expected = seconds * inputs.everything.posts / inputs.sample.posts
    scale = inputs.everything if expected <= longest_seconds or one.name in ALWAYS_ALL else inputs.sample
    if scale is inputs.everything:
        seconds, _ = _timed(one, scale)
    say(f"  {one.name:<22} warm-up: {scale.posts:,} posts in {seconds:.1f} s")
    return scale


def take_turns(
    chosen: Sequence[Contender], scales: dict[str, Scale], repetitions: int, say: Say
) -> dict[str, list[Seconds]]:
    """The seconds of every repetition; the contenders alternate, so that a slow minute of the machine hits them all."""
    times: dict[str, list[Seconds]] = {one.name: [] for one in chosen}
    for number in range(repetitions):
        for one in chosen:
            times[one.name].append(_timed(one, scales[one.name]))
        rates = (f"{one.name} {scales[one.name].posts / times[one.name][-1][0]:,.0f}" for one in chosen)
        say(f"  repetition {number + 1}, posts/s: {', '.join(rates)}")
    return times


def _timed(one: Contender, scale: Scale) -> Seconds:
    cpu, start = tree_cpu_seconds(), time.perf_counter()
    one.consume(scale)
    seconds, cpu_then = time.perf_counter() - start, tree_cpu_seconds()
    return seconds, None if cpu is None or cpu_then is None else cpu_then - cpu


def _result(
    one: Contender, scales: dict[str, Scale], times: dict[str, list[Seconds]], all_posts: int
) -> dict[str, Any]:
    scale, seconds = scales[one.name], [wall for wall, _ in times[one.name]]
    rates = [scale.posts / value for value in seconds]
    floor_rates = [scales["floor"].posts / wall for wall, _ in times["floor"]]
    ratios = [rate / floor for rate, floor in zip(rates, floor_rates, strict=True)]
    return {
        "name": one.name,
        "label": one.label,
        "starts_from": one.starts_from,
        "note": one.note,
        "posts": scale.posts,
        "extrapolated": scale.posts < all_posts,
        "seconds": seconds,
        "cpu_seconds": [cpu for _, cpu in times[one.name]],
        "posts_per_second": statistics.median(rates),
        "ratios_to_floor": ratios,
        "ratio_to_floor": statistics.median(ratios),
    }
