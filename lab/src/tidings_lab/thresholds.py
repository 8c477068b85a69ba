"""Design goals of the benchmarks: the measured value, the limit, and whether it is met."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidings_lab.soak_report import MAX_WORKER_GROWTH_MB_PER_HOUR

COUNTED_TERMS = 3  # of the subscriptions whose bytes are counted
_TIDINGS = ("tidings-replicated", "tidings-partitioned")
# seconds in which a plan must be learned, by the number of matchers
_LEARNING_LIMITS_S = {64: 2.0, 256: 4.0}
_MAX_GROWTH_MB_PER_HOUR = {"workers": MAX_WORKER_GROWTH_MB_PER_HOUR, "driver": 50.0, "serve": 20.0}


@dataclass(frozen=True, slots=True)
class Threshold:
    """`value` must be at least (or at most) `limit`; `target` is what we aim for beyond that."""

    name: str
    value: float
    limit: float
    at_least: bool = True
    target: float | None = None

    @property
    def is_met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def goal(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.limit:,g}"

    def __str__(self) -> str:
        target = f", target {self.target:g}" if self.target is not None else ""
        return (
            f"{'pass' if self.is_met else 'FAIL'}  {self.name}: {format_number(self.value)} (goal {self.goal}{target})"
        )


def format_number(value: float) -> str:
    """Return a number with three or four significant digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def check_thresholds(benchmark: str, measured: Any) -> list[Threshold]:
    """Return the thresholds of a benchmark with its measured values."""
    check = _CHECKS.get(benchmark)
    return [] if check is None else list(check(measured))


def _check_spine(spine: dict[str, Any]) -> Iterator[Threshold]:
    by_name = {contender["name"]: contender for contender in spine["contenders"]}
    replicated, partitioned = (by_name.get(name) for name in _TIDINGS)
    if partitioned:
        yield Threshold("Tidings partitioned / floor", partitioned["ratio_to_floor"], 0.3)
    if not replicated:
        return
    yield Threshold("Tidings replicated / floor", replicated["ratio_to_floor"], 0.45, target=0.6)
    rate = replicated["posts_per_second"]
    if "spark-sql" in by_name:
        yield Threshold("Tidings replicated / Spark SQL join", rate / by_name["spark-sql"]["posts_per_second"], 5)
    others = [item["posts_per_second"] for name, item in by_name.items() if name not in (*_TIDINGS, "floor")]
    if others:
        yield Threshold("Tidings replicated / fastest alternative", rate / max(others), 1)


def _check_modes(modes: dict[str, Any]) -> Iterator[Threshold]:
    """The default partitioner of each workload has a goal; the others are shown."""
    for workload in modes["workloads"]:
        rows = {(row["form"], row["arm"]): row for row in workload["rows"]}
        name, arm = workload["workload"], "salb+" if workload["workload"] == "words" else "hybrid"
        for form, limit in (("batch", 0.75), ("store", 0.5)):
            ratio = rows[form, arm]["ratio_to_replicated"]
            yield Threshold(f"{name}, {form}: `{arm}` over {modes['matchers']} matchers / replicated", ratio, limit)


def _check_kernels(kernels: dict[str, Any]) -> Iterator[Threshold]:
    count = kernels["subscriptions"]["subscriptions"]
    yield Threshold(f"matching {count:,} subscriptions, posts/s", kernels["matching"]["posts_per_second"], 800_000)
    if "find_c" in kernels:
        ratio = min(kernels["find_numba"]["cpu_seconds"]) / min(kernels["find_c"]["cpu_seconds"])
        yield Threshold("inner loop, time in numba / time in C", ratio, 1.2, at_least=False)
    for row in kernels["bytes"]:
        name = f"bytes per subscription of {COUNTED_TERMS} terms, {row['subscriptions']:,} subscriptions"
        yield Threshold(name, row["bytes_per_subscription"], 64, at_least=False)
    for row in kernels["from_numbers"]:
        limit_s = max(1.0, row["subscriptions"] / 1_000_000)
        name = f"compiling {row['subscriptions']:,} subscriptions from term ids, s"
        yield Threshold(name, row["best_seconds"], limit_s, at_least=False)
    for row in kernels["from_strings"]:
        name = f"compiling {row['subscriptions']:,} subscriptions from query strings, s"
        yield Threshold(name, row["best_seconds"], 30, at_least=False)


def _check_plans(plans: dict[str, Any]) -> Iterator[Threshold]:
    for row in plans["learning"]:
        if row["matchers"] in _LEARNING_LIMITS_S:
            name = f"`{row['algorithm']}` learns {row['posts']:,} posts for {row['matchers']} matchers, s"
            yield Threshold(name, row["best_seconds"], _LEARNING_LIMITS_S[row["matchers"]], at_least=False)
    for row in plans["routing"]:
        name = f"routing by `{row['algorithm']}` to {row['matchers']} matchers, CPU ns per post"
        yield Threshold(name, row["best_ns"], 1000, at_least=False)
    for row in plans.get("placing", []):  # results from before 2026-11-19 have none
        name = f"placing by `lasp` on {row['matchers']:,} matchers, CPU µs per subscription"
        yield Threshold(name, row["best_us"], 50, at_least=False)
    for matchers in sorted({row["matchers"] for row in plans["compared"]}):
        rows = [row for row in plans["compared"] if row["matchers"] == matchers and row["split"]]
        throughput = {row["algorithm"]: row["throughput"] for row in rows}
        ours = throughput.pop("salb+")
        yield Threshold(f"`salb+` / best other plan, {matchers} matchers", ours / max(throughput.values()), 1)


def _check_correlations(measured: dict[str, Any]) -> Iterator[Threshold]:
    calculators = measured["partitions"]
    yield Threshold(f"tagged posts/s end to end, {calculators} calculators", measured["posts_per_second"], 200_000)
    as_printed = {row["algorithm"]: row for row in measured["compared"] if not row["catch_up"]}
    for name, row in as_printed.items():
        yield Threshold(f"coverage of tag sets seen more than 3 times, `{name}`", row["coverage"], 0.97)
    ours = as_printed["ds+scl"]
    yield Threshold("mean error of `ds+scl`", ours["mean_error"], 0.05, at_least=False)
    communication = ours["communication"] / as_printed["ds"]["communication"]
    yield Threshold("communication of `ds+scl` / `ds`", communication, 1.1, at_least=False)
    limit = round(1.1 * as_printed["scl"]["gini"], 4)
    yield Threshold("Gini coefficient of `ds+scl` (goal: 1.1 × `scl`)", ours["gini"], limit, at_least=False)


def _check_space(space: dict[str, Any]) -> Iterator[Threshold]:
    rows = {row["arm"]: row for row in space["rows"]}
    name = f"Q1, {space['subscriptions']:,} subscriptions that change, `hybrid` over {space['matchers']} matchers"
    yield Threshold(f"{name}: posts and updates/s", rows["hybrid"]["tuples_per_second"], 100_000)


def _check_hot_spot(measured: dict[str, Any]) -> Iterator[Threshold]:
    rows = {(row["workload"], row["arm"]): row for row in measured["rows"]}
    name = f"slowest of {measured['matchers']} matchers under a moving hot spot, throughput rebalanced / unchanged"
    yield Threshold(name, rows["hot spot", "rebalanced"]["ratio_to_unchanged"], 1.2)
    share = rows["balanced", "rebalanced"]["rebalancing_share_of_core"]
    yield Threshold("CPU time of rebalancing without a hot spot, share of a core", share, 0.01, at_least=False)


def _check_stream(stream: dict[str, Any]) -> Iterator[Threshold]:
    yield Threshold("stream into SQLite / batch rate", stream["sustained"]["ratio_to_batch"], 0.5)


def _check_serve(serve: dict[str, Any]) -> Iterator[Threshold]:
    yield Threshold(f"responses/s to a reader of {serve['feeds']:,} feeds", serve["answers_per_second"], 2_000)
    yield Threshold("share of polls without news answered by 304", serve["not_modified_share"], 1)
    yield Threshold("writes to the store caused by polls", float(serve["wrote"]), 0, at_least=False)


def _check_crawl(crawl: dict[str, Any]) -> Iterator[Threshold]:
    history, rate = crawl["history"], crawl["rate"]
    yield Threshold("share of bandwidth saved on the real history", history["saved"], 0.99, target=0.998)
    yield Threshold("articles missed on the real history", float(history["missed"]), 0, at_least=False)
    for turn in ("new", "unchanged"):
        yield Threshold(f"feeds/s, {rate['feeds']:,} {turn} feeds", rate[turn]["feeds_per_second"], 300)


def _check_startup(startup: dict[str, Any]) -> Iterator[Threshold]:
    medians = {(row["command"], row["version"]): row for row in startup["medians"]}
    yield Threshold(
        "seconds from `serve` to the first match", medians["serve", "this"]["first_match_s"], 15, at_least=False
    )
    for command in ("run", "serve"):
        if (baseline := medians.get((command, "baseline"))) is not None:
            for name, quantity in (("time", "first_match_s"), ("CPU time", "first_match_cpu_s")):
                ratio = medians[command, "this"][quantity] / baseline[quantity]
                yield Threshold(f"{name} of `{command}` until then / that of the baseline", ratio, 0.5, at_least=False)


def _check_soak(soak: dict[str, Any]) -> Iterator[Threshold]:
    """The number of segments must stay logarithmic, and memory must not grow in the second half."""
    trends = soak["trends"]
    if "segments" in trends:
        limit = round(math.log2(soak["subscriptions"]) + 2)
        yield Threshold("largest number of segments", trends["segments"]["max"], limit, at_least=False)
    for process, limit_mb in _MAX_GROWTH_MB_PER_HOUR.items():
        if f"{process}_private_mb" in trends:
            growth = trends[f"{process}_private_mb"]["per_hour"]
            name = "service" if process == "serve" else process
            yield Threshold(f"private memory of the {name}, growth in MB per hour", growth, limit_mb, at_least=False)


_CHECKS: Mapping[str, Callable[[Any], Iterator[Threshold]]] = {
    "spine": _check_spine,
    "modes": _check_modes,
    "kernels": _check_kernels,
    "plans": _check_plans,
    "correlations": _check_correlations,
    "space": _check_space,
    "hot-spot": _check_hot_spot,
    "stream": _check_stream,
    "serve": _check_serve,
    "crawl": _check_crawl,
    "startup": _check_startup,
    "soak": _check_soak,
}
