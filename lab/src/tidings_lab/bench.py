"""Run benchmarks, store their results and draw them. `python -m tidings_lab.bench` is `tidings-lab bench`.

The benchmarks: `spine` (the matching pipeline and alternatives on Spark), `modes` (partitioned and replicated),
`kernels` (one core), `growth` (1 K to 10 M subscriptions), `plans` (word plans), `correlations` (tags), `space`
(keywords and regions as a stream), `hot-spot` (rebalancing), `stream`, `serve` (polling feeds over HTTP), `crawl`
(visiting feeds), `startup` (from a restart to the first match) and `soak` (the stream for an hour while subscriptions
change).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidings.errors import InputError
from tidings_lab import REPOSITORY, provenance, results
from tidings_lab.datasets import Posts, SubscriptionSet, benchmark_subscriptions, load_posts
from tidings_lab.progress import Report, print_line
from tidings_lab.thresholds import check_thresholds

CONTENDERS = ("floor", "tidings-replicated", "tidings-partitioned", "spark-sql", "trie", "polars", "duckdb")
SEED = 2026


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to run and with how much data. None is replaced by the default of the size."""

    only: Sequence[str] = ()  # benchmarks and contenders; empty: all but `soak`
    is_quick: bool = False
    posts: int | None = None
    subscriptions: int | None = None
    located_subscriptions: int | None = None
    repetitions: int | None = None
    minutes: float | None = None
    posts_per_second: int = 1_000
    out: Path = results.RESULTS
    docs: Path = REPOSITORY / "docs"
    has_figures: bool = True
    command: str = "tidings-lab bench"

    @property
    def contenders(self) -> list[str]:
        return [name for name in self.only if name in CONTENDERS]

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks to run, in their order."""
        if not self.only:
            return list(DEFAULT_BENCHMARKS)
        return [name for name in BENCHMARKS if name in self.only or (name == "spine" and self.contenders)]

    def check(self) -> None:
        known = (*BENCHMARKS, *CONTENDERS)
        if unknown := [name for name in self.only if name not in known]:
            raise InputError(f"--only {unknown[0]}: not a benchmark or a contender. Choose from: {', '.join(known)}.")


@dataclass(frozen=True, slots=True)
class BenchInput:
    """The data and sizes that all benchmarks share."""

    posts: Posts
    subscriptions: SubscriptionSet
    max_posts: int | None
    located_subscriptions: int
    repetitions: int
    minutes: float
    posts_per_second: int
    is_quick: bool
    contenders: Sequence[str]
    report: Report

    @classmethod
    def load(cls, options: BenchOptions, report: Report) -> BenchInput:
        quick = options.is_quick
        max_posts = options.posts or (100_000 if quick else None)
        posts = load_posts(max_posts, SEED)
        return cls(
            posts=posts,
            subscriptions=benchmark_subscriptions(options.subscriptions or (5_000 if quick else 100_000), SEED, posts),
            max_posts=max_posts,
            located_subscriptions=options.located_subscriptions or (20_000 if quick else 1_000_000),
            repetitions=options.repetitions or (2 if quick else 5),
            minutes=options.minutes or (0.5 if quick else 60),
            posts_per_second=options.posts_per_second,
            is_quick=quick,
            contenders=options.contenders,
            report=report,
        )

    def parameters(self) -> dict[str, Any]:
        return {
            "posts": len(self.posts),
            "subscriptions": len(self.subscriptions),
            "located_subscriptions": self.located_subscriptions,
            "repetitions": self.repetitions,
            "minutes": self.minutes,
            "posts_per_second": self.posts_per_second,
            "contenders": list(self.contenders),
        }


def run_benchmarks(options: BenchOptions, report: Report = print_line) -> int:
    """Run the chosen benchmarks and return the exit code: 1 if a soak had problems.

    Missed thresholds are reported but do not fail: machines differ. Raises ContendersDisagree.
    """
    options.check()
    given = BenchInput.load(options, report)
    posts, count = given.posts, len(given.subscriptions)
    report(f"{len(posts):,} posts ({posts.source}), {count:,} subscriptions. {posts.note}")
    problems: list[str] = []
    for name in options.benchmarks:
        report(f"{name}:")
        result = _run_benchmark(name, given, options.command)
        path = results.save_result(result, options.out)
        if options.is_quick:
            report("  thresholds (not meaningful in a quick run):")
        for threshold in check_thresholds(name, result["measured"]):
            report(f"  {threshold}")
        report(f"  result: {path}")
        problems += result["measured"]["problems"] if name == "soak" else []
    if options.has_figures and not options.is_quick:
        from tidings_lab.figures import draw_all

        report("written: " + ", ".join(map(str, draw_all(options.out, options.docs))))
    for problem in problems:
        report(f"FAIL  {problem}")
    return 1 if problems else 0


def _run_benchmark(name: str, given: BenchInput, command: str) -> results.Result:
    size = "quick" if given.is_quick else "full"
    result = results.new_result("benchmark", name, size, command, SEED, given.parameters())
    result["code"] = provenance.code_digests(provenance.BENCHMARK_MODULES[name])
    result["data"] = given.posts.to_dict() | {"subscriptions": given.subscriptions.to_dict()}
    start = time.perf_counter()
    result["measured"] = BENCHMARKS[name](given)
    result["seconds"] = round(time.perf_counter() - start, 1)
    return result


def _run_spine(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_pipeline import measure_spine

    sample = min(len(given.posts), 2_000 if given.is_quick else 100_000)
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        measured = measure_spine(
            Path(folder),
            given.posts,
            given.subscriptions,
            given.repetitions,
            sample,
            given.report,
            given.contenders,
        )
    _stop_spark()
    return measured


def _run_modes(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_modes import QUICK, ModeSizes, measure_modes

    sizes = QUICK if given.is_quick else ModeSizes()
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        measured = measure_modes(Path(folder), given.posts, sizes, given.repetitions, SEED, given.report)
    _stop_spark()
    return measured


def _run_kernels(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_kernels import QUICK, KernelSizes, measure_kernels

    sizes = QUICK if given.is_quick else KernelSizes()
    return measure_kernels(given.posts, given.subscriptions, given.repetitions, sizes, given.report)


def _run_growth(given: BenchInput) -> list[dict[str, Any]]:
    from tidings_lab.bench_scale import SIZES, measure_growth
    from tidings_lab.sample_queries import NumberedPosts

    sizes = SIZES[:3] if given.is_quick else SIZES
    return measure_growth(NumberedPosts.of(given.posts.texts), SEED, sizes, given.report)


def _run_plans(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_plans import QUICK, PlanSizes, measure_plans

    sizes = QUICK if given.is_quick else PlanSizes()
    return measure_plans(given.posts, given.subscriptions, given.repetitions, sizes, given.report)


def _run_correlations(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_correlations import measure_correlations
    from tidings_lab.tagged_posts import load_tagged

    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        tagged = load_tagged(given.max_posts, SEED)
        measured = measure_correlations(Path(folder), tagged, given.repetitions, given.report)
    _stop_spark()
    return measured


def _run_space(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_spatial import measure_space

    count = given.located_subscriptions
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        measured = measure_space(Path(folder), count, given.max_posts, given.repetitions, SEED, given.report)
    _stop_spark()
    return measured


def _run_hot_spot(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_hot_spot import QUICK, HotSpotSizes, measure_hot_spot

    sizes = QUICK if given.is_quick else HotSpotSizes()
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        return measure_hot_spot(Path(folder), sizes, SEED, given.report)


def _run_stream(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_stream import measure_stream

    measured = measure_stream(given.posts, len(given.subscriptions), SEED, given.is_quick, given.report)
    _stop_spark()
    return measured


def _run_serve(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_serving import QUICK, ServingLoad, measure_serving

    return measure_serving(given.posts, QUICK if given.is_quick else ServingLoad(), SEED, given.report)


def _run_crawl(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_crawl import measure_crawling

    measured = measure_crawling(SEED, given.is_quick, given.repetitions, given.report)
    _stop_spark()
    return measured


def _run_startup(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.bench_startup import QUICK, StartupLoad, measure_startup

    load = QUICK if given.is_quick else StartupLoad(repetitions=given.repetitions)
    return measure_startup(given.posts, load, SEED, given.report)


def _run_soak(given: BenchInput) -> dict[str, Any]:
    from tidings_lab.soak import SoakLoad, measure_soak

    load = SoakLoad(given.minutes, len(given.subscriptions), given.posts_per_second)
    return measure_soak(given.posts, load, SEED, given.report)


def _stop_spark() -> None:
    """Stop Spark, so that its memory and threads do not disturb the next benchmark."""
    import tidings

    tidings.session().stop()


BENCHMARKS: Mapping[str, Callable[[BenchInput], Any]] = {
    "spine": _run_spine,
    "modes": _run_modes,
    "kernels": _run_kernels,
    "growth": _run_growth,
    "plans": _run_plans,
    "correlations": _run_correlations,
    "space": _run_space,
    "hot-spot": _run_hot_spot,
    "stream": _run_stream,
    "serve": _run_serve,
    "crawl": _run_crawl,
    "startup": _run_startup,
    "soak": _run_soak,
}
DEFAULT_BENCHMARKS = tuple(name for name in BENCHMARKS if name != "soak")  # a soak takes an hour


if __name__ == "__main__":
    from tidings_lab.cli import main

    main(["bench", *sys.argv[1:]])
