"""The bars a run is held against: what was measured, what was asked for, and whether it is enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tidings_lab.bench_kernels import WORDS

_TIDINGS = ("tidings-replicated", "tidings-partitioned")


@dataclass(frozen=True, slots=True)
class Bar:
    """`value` must be at least (or at most) `wanted`."""

    name: str
    value: float
    wanted: float
    at_least: bool = True
    aim: float | None = None

    @property
    def passed(self) -> bool:
        return self.value >= self.wanted if self.at_least else self.value <= self.wanted

    def described(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}

    def __str__(self) -> str:
        sign, aim = "≥" if self.at_least else "≤", f", aim {self.aim:g}" if self.aim is not None else ""
        verdict = "pass" if self.passed else "FAIL"
        return f"{verdict}  {self.name}: {number(self.value)} (bar {sign} {self.wanted:,g}{aim})"


def number(value: float) -> str:
    """Three or four digits that count."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def bars(parts: dict[str, Any]) -> list[Bar]:
    """The bars of whatever parts were run."""
    known = {
        "spine": _of_spine,
        "kernels": _of_kernels,
        "plans": _of_plans,
        "correlations": _of_correlations,
        "space": _of_space,
        "stream": _of_stream,
        "serve": _of_serve,
        "crawl": _of_crawl,
        "soak": _of_soak,
    }
    return [bar for part, judge in known.items() if part in parts for bar in judge(parts[part])]


def _of_spine(spine: dict[str, Any]) -> Iterator[Bar]:
    by_name = {one["name"]: one for one in spine["contenders"]}
    replicated, partitioned = (by_name.get(name) for name in _TIDINGS)
    if partitioned:
        yield Bar("Tidings partitioned, of the floor", partitioned["ratio_to_floor"], 0.3)
    if not replicated:
        return
    yield Bar("Tidings replicated, of the floor", replicated["ratio_to_floor"], 0.45, aim=0.6)
    speed = replicated["posts_per_second"]
    if "spark-sql" in by_name:
        yield Bar("Tidings replicated, times the Spark SQL join", speed / by_name["spark-sql"]["posts_per_second"], 5)
    others = [one["posts_per_second"] for name, one in by_name.items() if name not in (*_TIDINGS, "floor")]
    if others:
        yield Bar("Tidings replicated, times the fastest other", speed / max(others), 1)


def _of_kernels(kernels: dict[str, Any]) -> Iterator[Bar]:
    count = kernels["subscriptions"]["subscriptions"]
    yield Bar(f"matching, posts/s at {count:,} subscriptions", kernels["matching"]["posts_per_second"], 800_000)
    if "find_c" in kernels:
        behind = min(kernels["find_numba"]["cpu_seconds"]) / min(kernels["find_c"]["cpu_seconds"])
        yield Bar("the loop in numba, times the time of C", behind, 1.2, at_least=False)
    for one in kernels["bytes"]:
        name = f"bytes a subscription of {WORDS} words, at {one['subscriptions']:,}"
        yield Bar(name, one["bytes_per_subscription"], 64, at_least=False)
    for one in kernels["from_numbers"]:
        seconds = max(1.0, one["subscriptions"] / 1_000_000)
        name = f"seconds to compile {one['subscriptions']:,} from word numbers"
        yield Bar(name, one["best_seconds"], seconds, at_least=False)
    for one in kernels["from_strings"]:
        name = f"seconds to compile {one['subscriptions']:,} from strings"
        yield Bar(name, one["best_seconds"], 30, at_least=False)


def _of_plans(plans: dict[str, Any]) -> Iterator[Bar]:
    limits = {64: 2.0, 256: 4.0}
    for one in plans["learning"]:
        if one["matchers"] in limits:
            name = f"plans: seconds in which {one['algorithm']} learns {one['posts']:,} posts for {one['matchers']}"
            yield Bar(name, one["best_seconds"], limits[one["matchers"]], at_least=False)
    for one in plans["routing"]:
        yield Bar(f"plans: ns to route a post, words by {one['algorithm']}", one["best_ns"], 1000, at_least=False)
    for matchers in sorted({one["matchers"] for one in plans["compared"]}):
        reached = {one["algorithm"]: one["throughput"] for one in plans["compared"] if _is(one, matchers)}
        ours = reached.pop("salb+")
        yield Bar(f"plans: salb+ for {matchers}, times the best other plan", ours / max(reached.values()), 1)


def _is(one: dict[str, Any], matchers: int) -> bool:
    return bool(one["matchers"] == matchers and one["split"])


def _of_correlations(found: dict[str, Any]) -> Iterator[Bar]:
    yield Bar(f"tags: posts/s end to end, {found['partitions']} calculators", found["posts_per_second"], 200_000)
    printed = {one["algorithm"]: one for one in found["compared"] if not one["catch_up"]}
    for name, one in printed.items():
        yield Bar(f"tags: coverage of sets seen more than 3 times, {name}", one["coverage"], 0.97)
    ours = printed["ds+scl"]
    yield Bar("tags: mean error of ds+scl", ours["mean_error"], 0.05, at_least=False)
    communication = ours["communication"] / printed["ds"]["communication"]
    yield Bar("tags: communication of ds+scl, times that of ds", communication, 1.1, at_least=False)
    wanted = round(1.1 * printed["scl"]["gini"], 4)
    yield Bar("tags: Gini of ds+scl, against 1.1 times that of scl", ours["gini"], wanted, at_least=False)


def _of_space(space: dict[str, Any]) -> Iterator[Bar]:
    name = f"space: posts and updates a second on Q1, {space['subscriptions']:,} subscriptions"
    for told, form in (("a row a match", ""), ("a row a post", "_in_lists"), ("in files, as a stream", "_in_files")):
        if f"tuples_per_second{form}" in space:
            yield Bar(f"{name}, {told}", space[f"tuples_per_second{form}"], 160_000)


def _of_stream(stream: dict[str, Any]) -> Iterator[Bar]:
    yield Bar("the stream into SQLite, of the batch rate", stream["sustained"]["ratio_to_batch"], 0.5)


def _of_serve(serve: dict[str, Any]) -> Iterator[Bar]:
    yield Bar(f"serving: answers/s to a reader of {serve['feeds']:,} feeds", serve["answers_per_second"], 2_000)
    yield Bar("serving: polls without news that are answered so", serve["not_modified_share"], 1)
    yield Bar("serving: writes to the store by polls", float(serve["wrote"]), 0, at_least=False)


def _of_crawl(crawl: dict[str, Any]) -> Iterator[Bar]:
    history, rate = crawl["history"], crawl["rate"]
    yield Bar("crawl: bandwidth saved on the real history", history["saved"], 0.99, aim=0.998)
    yield Bar("crawl: articles missed in it", float(history["missed"]), 0, at_least=False)
    for turn in ("new", "unchanged"):
        yield Bar(f"crawl: feeds/s, {rate['feeds']:,} {turn} ones", rate[turn]["feeds_per_second"], 300)


def _of_soak(soak: dict[str, Any]) -> Iterator[Bar]:
    """A logarithmic number of segments means these; memory may breathe, but not grow on."""
    trends = soak["trends"]
    if "segments" in trends:
        most = math.log2(soak["subscriptions"]) + 2
        yield Bar("the soak: most segments", trends["segments"]["most"], round(most), at_least=False)
    for name in ("driver_mb", "workers_mb"):
        if name in trends:
            who = name.removesuffix("_mb")
            grown = trends[name]["per_hour"]
            yield Bar(f"the soak: MB an hour that the {who} grew in its second half", grown, 50, at_least=False)
