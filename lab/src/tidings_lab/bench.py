"""``python -m tidings_lab.bench``: run the benchmarks, keep the raw results, draw them.

Parts: `spine` (the contenders on Spark), `kernels` (one core), `growth` (1 K to 10 M subscriptions), `plans`,
`correlations` (tags), `space` (keywords and regions), `stream`, `serve` (feeds polled over HTTP), `crawl` (feeds
visited), and, only when asked for, `soak` (the stream for an hour while subscriptions come and go).
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidings.errors import TidingsError
from tidings_lab import bench_kernels, bench_plans, bench_scale, figures, results
from tidings_lab.datasets import REPOSITORY, Posts, Subscriptions, benchmark_subscriptions, load_posts
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.thresholds import bars

PARTS = ("spine", "kernels", "growth", "plans", "correlations", "space", "stream", "serve", "crawl", "soak")
UNASKED = PARTS[:-1]
CONTENDERS = ("floor", "tidings-replicated", "tidings-partitioned", "spark-sql", "trie", "polars", "duckdb")
SEED = 2026


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; 1 when contenders disagree or a soak had problems.

    Missed bars are told, not punished: machines differ.
    """
    options = _options(arguments)
    posts = load_posts(options.posts, SEED)
    subscriptions = benchmark_subscriptions(options.subscriptions, SEED, posts)
    run = results.new_record(shlex.join(["python", "-m", "tidings_lab.bench", *options.told]), SEED, options.quick)
    run["data"] = posts.described() | {"subscriptions": subscriptions.described()}
    _say(f"{len(posts):,} posts ({posts.source}), {len(subscriptions):,} subscriptions. {posts.note}")
    path = options.out
    for part in PARTS:
        if part in options.parts:
            start = time.perf_counter()
            _say(f"{part}:")
            try:
                run["parts"][part] = _run(part, posts, subscriptions, options)
            except TidingsError as error:
                _say(f"FAIL  {error}")
                return error.exit_code
            run.setdefault("part_seconds", {})[part] = round(time.perf_counter() - start, 1)
            run["bars"] = [bar.described() for bar in bars(run["parts"])]
            path = results.save(run, options.out)
    if options.quick:
        _say("bars (too little was run for them to mean anything):")
    for bar in bars(run["parts"]):
        _say(str(bar))
    _say(f"raw results: {path}")
    if options.figures:
        _say("drawn: " + ", ".join(map(str, figures.draw_all(options.out, options.docs))))
    return 1 if run["parts"].get("soak", {}).get("problems") else 0


def _run(part: str, posts: Posts, subscriptions: Subscriptions, options: argparse.Namespace) -> Any:
    if part == "spine":
        return _spine(posts, subscriptions, options)
    if part == "kernels":
        sizes = bench_kernels.QUICK if options.quick else bench_kernels.Sizes()
        return bench_kernels.measure_kernels(posts, subscriptions, options.repetitions, sizes, _say)
    if part == "plans":
        sizes_of_plans = bench_plans.QUICK if options.quick else bench_plans.Sizes()
        return bench_plans.measure_plans(posts, subscriptions, options.repetitions, sizes_of_plans, _say)
    if part == "correlations":
        return _correlations(options)
    if part == "space":
        return _space(options)
    if part == "stream":
        return _stream(posts, options)
    if part == "serve":
        return _serve(posts, options)
    if part == "crawl":
        return _crawl(options)
    if part == "soak":
        return _soak(posts, options)
    sizes_to_grow = bench_scale.SIZES[:3] if options.quick else bench_scale.SIZES
    return bench_scale.measure_growth(NumberedPosts.of(posts.texts), SEED, sizes_to_grow, _say)


def _spine(posts: Posts, subscriptions: Subscriptions, options: argparse.Namespace) -> dict[str, Any]:
    from tidings_lab.bench_pipeline import measure_spine

    sample = min(len(posts), 2_000 if options.quick else 100_000)
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        measured = measure_spine(
            Path(folder), posts, subscriptions, options.repetitions, sample, _say, options.contenders
        )
    _stop_spark()  # its memory and threads must not weigh on what comes next
    return measured


def _correlations(options: argparse.Namespace) -> dict[str, Any]:
    from tidings_lab.bench_correlations import measure_correlations
    from tidings_lab.tagged_posts import load_tagged

    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        tagged = load_tagged(options.posts, SEED)
        measured = measure_correlations(Path(folder), tagged, options.repetitions, _say)
    _stop_spark()
    return measured


def _space(options: argparse.Namespace) -> dict[str, Any]:
    from tidings_lab.bench_spatial import measure_space

    count = 20_000 if options.quick else options.located
    with tempfile.TemporaryDirectory(prefix="tidings-bench-") as folder:
        measured = measure_space(Path(folder), count, options.posts, options.repetitions, SEED, _say)
    _stop_spark()
    return measured


def _stream(posts: Posts, options: argparse.Namespace) -> dict[str, Any]:
    from tidings_lab.bench_stream import measure_stream

    measured = measure_stream(posts, options.subscriptions, SEED, options.quick, _say)
    _stop_spark()
    return measured


def _serve(posts: Posts, options: argparse.Namespace) -> dict[str, Any]:
    from tidings_lab.bench_serving import QUICK, Load, measure_serving

    return measure_serving(posts, QUICK if options.quick else Load(), SEED, _say)


def _crawl(options: argparse.Namespace) -> dict[str, Any]:
    from tidings_lab.bench_crawl import measure_crawling

    measured = measure_crawling(SEED, options.quick, options.repetitions, _say)
    _stop_spark()
    return measured


def _soak(posts: Posts, options: argparse.Namespace) -> dict[str, Any]:
    from tidings_lab.soak import Load, measure_soak

    load = Load(options.minutes, options.subscriptions, options.rate)
    measured = measure_soak(posts, load, SEED, _say)
    for problem in measured["problems"]:
        _say(f"FAIL  {problem}")
    return measured


def _stop_spark() -> None:
    import tidings

    tidings.session().stop()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    told = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m tidings_lab.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small samples: to see that it runs")
    names = ", ".join((*PARTS, *CONTENDERS))
    parser.add_argument("--only", action="append", metavar="NAME", help=f"a part or a contender, may repeat: {names}")
    parser.add_argument("--posts", type=int, help="how many posts (default: all there are)")
    parser.add_argument("--subscriptions", type=int, help="how many subscriptions (default: 100,000)")
    parser.add_argument("--located", type=int, default=1_000_000, help="subscriptions of `space` (default: 1,000,000)")
    parser.add_argument("--repetitions", type=int, help="of everything that is timed (default: 5)")
    parser.add_argument("--minutes", type=float, help="how long the soak runs (default: 60)")
    parser.add_argument("--rate", type=int, default=1_000, help="posts a second of the soak (default: 1,000)")
    parser.add_argument("--out", type=Path, default=Path("lab/results"), help="folder of the raw results")
    parser.add_argument("--docs", type=Path, default=REPOSITORY / "docs", help="folder of the figures and the table")
    parser.add_argument("--no-figures", dest="figures", action="store_false", help="raw results only")
    options = parser.parse_args(told)
    unknown = set(options.only or ()) - {*PARTS, *CONTENDERS}
    if unknown:
        parser.error(f"there is no part or contender called {', '.join(sorted(unknown))}; choose from {names}")
    return _completed(options, told)


def _completed(options: argparse.Namespace, told: list[str]) -> argparse.Namespace:
    quick = options.quick
    options.told = told
    options.posts = options.posts or (100_000 if quick else None)
    options.subscriptions = options.subscriptions or (5_000 if quick else 100_000)
    options.repetitions = options.repetitions or (2 if quick else 5)
    options.minutes = options.minutes or (0.5 if quick else 60)
    options.figures = options.figures and not quick
    only = options.only or list(UNASKED)
    options.contenders = [name for name in only if name in CONTENDERS]
    options.parts = [name for name in only if name in PARTS] + (["spine"] if options.contenders else [])
    return options


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
