"""Set correlations: tagged posts/s from file to file on Spark compared with the floor; cost of each algorithm."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tidings
from tidings.correlate.audit import audit, compute_exact
from tidings.correlate.partition.plan import compute_gini
from tidings.correlate.partition.registry import ALGORITHMS
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.reference_topology import correlate
from tidings.correlate.settings import CorrelationSettings
from tidings_lab.progress import Report, print_line
from tidings_lab.tagged_posts import TaggedTable

PARTITIONS = 8
WINDOW = "7 days"


def measure_correlations(
    folder: Path, posts: TaggedTable, repetitions: int, report: Report = print_line
) -> dict[str, Any]:
    """Measure everything. The window is a week: the real data has some thousand posts per week."""
    times = _time_in_turns(folder, posts, repetitions, report)
    parsed = posts.parse()
    compared = [row for catch_up in (False, True) for row in _compare(parsed, catch_up, report)]
    rates = {name: [len(posts) / seconds for seconds in every] for name, every in times.items()}
    ratios = [ours / floor for ours, floor in zip(rates["correlate"], rates["floor"], strict=True)]
    return {
        "posts": len(posts),
        "source": posts.source,
        "partitions": PARTITIONS,
        "window": WINDOW,
        "seconds": times,
        "posts_per_second": statistics.median(rates["correlate"]),
        "floor_posts_per_second": statistics.median(rates["floor"]),
        "ratio_to_floor": statistics.median(ratios),
        "compared": compared,
    }


def _time_in_turns(folder: Path, posts: TaggedTable, repetitions: int, report: Report) -> dict[str, list[float]]:
    """Time floor and correlation in turns after a warm-up."""
    file = folder / "tagged.parquet"
    posts.write(file)
    times: dict[str, list[float]] = {"floor": [], "correlate": []}
    for number in range(repetitions + 1):
        seconds = {"floor": _time(_floor, file), "correlate": _time(_correlate, file)}
        if number:
            for name, one in seconds.items():
                times[name].append(one)
            rates = ", ".join(f"{name} {len(posts) / one:,.0f}" for name, one in seconds.items())
            report(f"  repetition {number}, tagged posts/s: {rates}")
    return times


def _time(action: Callable[[Path], None], file: Path) -> float:
    start = time.perf_counter()
    action(file)
    return time.perf_counter() - start


def _floor(file: Path) -> None:
    from tidings_lab.stages import identity

    posts = tidings.session().read.parquet(str(file))
    posts.mapInArrow(identity, posts.schema).write.format("noop").mode("overwrite").save()


def _correlate(file: Path) -> None:
    from tidings.batch.correlate_files import write_coefficients
    from tidings.spark.correlate import correlate as on_spark

    spark = tidings.session()
    found = on_spark(spark.read.parquet(str(file)), CorrelationSettings.parse(WINDOW, partitions=PARTITIONS))
    out = file.with_name("coefficients")
    shutil.rmtree(out, ignore_errors=True)
    write_coefficients(spark, found, out, "parquet")


def _compare(posts: TaggedPosts, catch_up: bool, report: Report) -> list[dict[str, Any]]:
    """Run all algorithms on the same posts, as printed in the paper or with catching up."""
    exact = compute_exact(posts, CorrelationSettings.parse(WINDOW), 4)
    rows = []
    for algorithm in ALGORITHMS:
        chosen = CorrelationSettings.parse(WINDOW, partitions=PARTITIONS, algorithm=algorithm, catch_up=catch_up)
        found = correlate(posts, chosen)
        router, result = found.pipeline.router, audit(found.reports, exact)
        sent = router.sent[:PARTITIONS]
        row = {
            "algorithm": algorithm,
            "catch_up": catch_up,
            "communication": int(sent.sum()) / router.notified,
            "notifications_per_post": router.notifications / router.notified,
            "gini": compute_gini(sent),
            "max_load": int(sent.max()) / int(sent.sum()),
            "additions": router.additions,
            "repartitions": len(found.pipeline.repartitions),
            "coverage": result.coverage,
            "mean_error": result.mean_error,
        }
        rows.append(row)
        mode = "catching up" if catch_up else "as printed"
        shown = ("communication", "gini", "coverage", "mean_error", "repartitions")
        report(f"  {algorithm:<7} {mode:<12}" + ", ".join(f"{name} {row[name]:.4g}" for name in shown))
    return rows
