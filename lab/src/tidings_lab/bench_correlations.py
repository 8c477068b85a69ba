"""Set correlations: tagged posts a second from file to file on Spark, beside the floor; what each algorithm costs."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tidings
from tidings.correlate.audit import audit, centralised
from tidings.correlate.partition.plan import gini
from tidings.correlate.partition.registry import ALGORITHMS
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.reference_topology import correlate
from tidings.correlate.settings import Settings
from tidings_lab.tagged_posts import TaggedTable

PARTITIONS = 8
WINDOW = "7 days"
Say = Callable[[str], None]


def measure_correlations(folder: Path, posts: TaggedTable, repetitions: int, say: Say = print) -> dict[str, Any]:
    """Every figure of this part; the window is a week, as the real posts are some thousand a week."""
    times = _take_turns(folder, posts, repetitions, say)
    parsed = posts.parsed()
    compared = [row for catch_up in (False, True) for row in _compared(parsed, catch_up, say)]
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


def _take_turns(folder: Path, posts: TaggedTable, repetitions: int, say: Say) -> dict[str, list[float]]:
    """The floor and ours in turn, once to warm up."""
    file = folder / "tagged.parquet"
    posts.write(file)
    times: dict[str, list[float]] = {"floor": [], "correlate": []}
    for number in range(repetitions + 1):
        seconds = {"floor": _timed(_floor, file), "correlate": _timed(_correlate, file)}
        if number:
            for name, one in seconds.items():
                times[name].append(one)
            told = ", ".join(f"{name} {len(posts) / one:,.0f}" for name, one in seconds.items())
            say(f"  repetition {number}, tagged posts/s: {told}")
    return times


def _timed(action: Callable[[Path], None], file: Path) -> float:
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
    found = on_spark(spark.read.parquet(str(file)), Settings.checked(WINDOW, partitions=PARTITIONS))
    out = file.with_name("coefficients")
    shutil.rmtree(out, ignore_errors=True)
    write_coefficients(spark, found, out, "parquet")


def _compared(posts: TaggedPosts, catch_up: bool, say: Say) -> list[dict[str, Any]]:
    """All algorithms on the same posts, as in the paper or with catching up."""
    exact = centralised(posts, Settings.checked(WINDOW), 4)
    rows = []
    for algorithm in ALGORITHMS:
        chosen = Settings.checked(WINDOW, partitions=PARTITIONS, algorithm=algorithm, catch_up=catch_up)
        found = correlate(posts, chosen)
        told, result = found.dissemination.disseminator, audit(found.reports, exact)
        sent = told.sent[:PARTITIONS]
        row = {
            "algorithm": algorithm,
            "catch_up": catch_up,
            "communication": int(sent.sum()) / told.notified,
            "told": told.told / told.notified,
            "gini": gini(sent),
            "max_load": int(sent.max()) / int(sent.sum()),
            "additions": told.additions,
            "repartitions": len(found.dissemination.repartitions),
            "coverage": result.coverage,
            "mean_error": result.mean_error,
        }
        rows.append(row)
        mode = "catching up" if catch_up else "as printed"
        figures = ("communication", "gini", "coverage", "mean_error", "repartitions")
        say(f"  {algorithm:<7} {mode:<12}" + ", ".join(f"{name} {row[name]:.4g}" for name in figures))
    return rows
