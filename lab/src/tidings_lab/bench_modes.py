"""Partitioned over 8 matchers and replicated, side by side, on the paths that users take, in turns.

*Batch* is `tidings.match` into Spark's noop sink. *Store* is `tidings run` on files of posts, from the begin of the
first micro-batch to the commit of the last one into SQLite. Every turn of a stream continues it with the same posts as
new files. Replicated mode is measured twice: the ratio of both is the noise.
"""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidings
from tidings.config import MAX_POSTS_PER_BATCH
from tidings.store import open_store
from tidings_lab.clock import tree_cpu_seconds
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.errors import ContendersDisagree
from tidings_lab.located_posts import load_located
from tidings_lab.progress import Report, print_line
from tidings_lab.sample_queries import draw_queries
from tidings_lab.spatial_workload import Tweets, draw_subscriptions

MATCHERS = 8
FORMS = ("batch", "store")
PARTITIONERS: Mapping[str, tuple[str, ...]] = {"words": ("salb+", "hash"), "places": ("hybrid", "metric", "kdtree")}
QUERY_TERMS = (3, 6)  # minimum and maximum per subscription: about one match per post
_FILES = 8  # per turn
_WARM_UPS = 1  # turns
_DRAWN_FROM = 100_000  # located posts that Q1 is drawn from


@dataclass(frozen=True, slots=True)
class ModeSizes:
    posts: int = 400_000
    subscriptions: int = 100_000


QUICK = ModeSizes(20_000, 5_000)


@dataclass(frozen=True, slots=True)
class ModeWorkload:
    """Posts and subscriptions of one kind: `words`, or `places` (words and regions)."""

    name: str
    posts: pa.Table
    subscriptions: pa.Table

    def rows(self) -> list[tuple[object, ...]]:
        """Return the subscriptions as rows of a store."""
        queries: list[str] = self.subscriptions.column("query").to_pylist()
        if "region" not in self.subscriptions.column_names:
            return [(query,) for query in queries]
        regions = self.subscriptions.column("region").to_pylist()
        return [(query, "", tuple(region)) for query, region in zip(queries, regions, strict=True)]


@dataclass
class Arm:
    """One mode or partitioner with its measurements per turn; `turns` has one row per turn and form."""

    name: str
    options: dict[str, Any]
    turns: list[dict[str, Any]] = field(default_factory=list)


def make_arms(workload: str) -> list[Arm]:
    """Return replicated mode, twice, and every partitioner for 8 matchers."""
    arms = [Arm(name, {"plan": "replicated"}) for name in ("replicated", "replicated again")]
    partitioned = {"plan": "partitioned", "matchers": MATCHERS}
    return arms + [Arm(name, {**partitioned, "partitioner": name}) for name in PARTITIONERS[workload]]


def measure_modes(
    folder: Path, posts: Posts, sizes: ModeSizes, repetitions: int, seed: int, report: Report = print_line
) -> dict[str, Any]:
    """Measure both workloads in both forms."""
    workloads = (draw_words(posts, sizes, seed), draw_places(sizes, seed))
    return {
        "matchers": MATCHERS,
        "workloads": [measure_workload(folder / one.name, one, repetitions, report) for one in workloads],
    }


def draw_words(posts: Posts, sizes: ModeSizes, seed: int) -> ModeWorkload:
    rng = np.random.default_rng([seed, 3])
    queries = draw_queries(sample_texts(posts, rng), sizes.subscriptions, rng, *QUERY_TERMS)
    table = pa.table({"id": np.arange(1, sizes.subscriptions + 1), "query": queries})
    return ModeWorkload("words", _number(posts.table.slice(0, sizes.posts).select(["text"])), table)


def draw_places(sizes: ModeSizes, seed: int) -> ModeWorkload:
    located = load_located(sizes.posts, seed)
    table = draw_subscriptions("Q1", sizes.subscriptions, Tweets.of(located.slice(0, _DRAWN_FROM)), seed)
    return ModeWorkload("places", _number(located), table.set_column(0, "id", pa.array(np.arange(1, len(table) + 1))))


def _number(posts: pa.Table) -> pa.Table:
    return posts.add_column(0, "id", pa.array(np.arange(len(posts))))


def measure_workload(folder: Path, workload: ModeWorkload, repetitions: int, report: Report) -> dict[str, Any]:
    """Measure all arms in turns; their order rotates, so that none always follows the same other one."""
    report(f"  {workload.name}: {len(workload.posts):,} posts, {len(workload.subscriptions):,} subscriptions")
    write_posts(workload.posts, folder / "posts", 0)
    arms = make_arms(workload.name)
    actions = {form: {arm.name: _ACTIONS[form](folder, workload, arm) for arm in arms} for form in FORMS}
    for turn in range(-_WARM_UPS, repetitions):
        for form in FORMS:
            for at in range(len(arms)):
                arm = arms[(at + turn) % len(arms)]
                cpu = tree_cpu_seconds()
                measured = actions[form][arm.name]()
                arm.turns.append({"turn": turn, "form": form, **measured, "cpu_seconds": _since(cpu)})
            _report_turn(turn, form, arms, len(workload.posts), report)
    _check_agreement(workload.name, arms)
    for arm in arms:
        arm.turns = [row for row in arm.turns if row["turn"] >= 0]
    shutil.rmtree(folder)
    return {
        "workload": workload.name,
        "posts": len(workload.posts),
        "subscriptions": len(workload.subscriptions),
        "rows": [_summarize(arm, arms[0], form, len(workload.posts)) for form in FORMS for arm in arms],
    }


def _check_agreement(workload: str, arms: list[Arm]) -> None:
    found = {arm.name: sorted({row["matches"] for row in arm.turns}) for arm in arms}
    if len({count for counts in found.values() for count in counts}) > 1:
        raise ContendersDisagree(f"Modes found different numbers of matches ({workload}): {found}.")


def write_posts(posts: pa.Table, folder: Path, turn: int) -> None:
    """Write the posts as files; the ids of every turn are new."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(posts) // _FILES)
    ids = pa.array(posts.column("id").to_numpy() + turn * len(posts))
    table = posts.set_column(0, "id", ids)
    for number in range(_FILES):
        pq.write_table(table.slice(number * size, size), folder / f"{turn:03}-{number:03}.parquet")


def _batch_action(folder: Path, workload: ModeWorkload, arm: Arm) -> Callable[[], dict[str, Any]]:
    """Return an action that runs `tidings.match` on the files; the index is built before."""
    from tidings.spark.api import prepare_match

    posts = tidings.session().read.parquet(str(folder / "posts"))
    matches = prepare_match(posts, workload.subscriptions, **arm.options).matches
    found = matches.count()

    def run() -> dict[str, Any]:
        start = time.perf_counter()
        matches.write.format("noop").mode("overwrite").save()
        return {"seconds": time.perf_counter() - start, "matches": found}

    return run


def _store_action(folder: Path, workload: ModeWorkload, arm: Arm) -> Callable[[], dict[str, Any]]:
    """Return an action that continues the stream with new files. The warm-up learns the plan."""
    from tidings.testing.stream import StreamHarness

    source, state = folder / f"{arm.name} posts", folder / arm.name
    state.mkdir(parents=True)
    with open_store(state) as store:
        store.subscriptions.add_many(workload.rows())
    options = {name: value for name, value in arm.options.items() if name != "plan"}
    harness = StreamHarness(
        tidings.session(),
        *(source, state),
        execution_mode=arm.options["plan"],
        max_posts_per_batch=MAX_POSTS_PER_BATCH,
        **options,
    )
    turns = iter(range(1_000))

    def run() -> dict[str, Any]:
        write_posts(workload.posts, source, next(turns))
        begun = time.time()
        harness.run()
        with open_store(state) as store:
            batches = [row for row in store.batches.recent() if row.started_at >= begun]
        ends = [row.finished_at for row in batches]
        matching_ms = [float(str(row.metrics["matching"])) for row in batches]
        return {
            "seconds": max(end for end in ends if end is not None) - min(row.started_at for row in batches),
            "matching_seconds": sum(matching_ms) / 1000,
            "matches": sum(row.matches for row in batches),
            "batches": len(batches),
        }

    return run


_ACTIONS: Mapping[str, Callable[[Path, ModeWorkload, Arm], Callable[[], dict[str, Any]]]] = {
    "batch": _batch_action,
    "store": _store_action,
}


def _since(cpu: float | None) -> float | None:
    now = tree_cpu_seconds()
    return None if cpu is None or now is None else now - cpu


def _report_turn(turn: int, form: str, arms: list[Arm], posts: int, report: Report) -> None:
    rates = ", ".join(f"{arm.name} {posts / arm.turns[-1]['seconds']:,.0f}" for arm in arms)
    report(f"    {'warm-up' if turn < 0 else f'turn {turn + 1}'}, {form}, posts/s: {rates}")


def _summarize(arm: Arm, reference: Arm, form: str, posts: int) -> dict[str, Any]:
    """Return medians, and the medians of the ratios to replicated mode in the same turn."""
    turns = [row for row in arm.turns if row["form"] == form]
    others = [row for row in reference.turns if row["form"] == form]
    values = ("seconds", "cpu_seconds", *(("matching_seconds",) if form == "store" else ()))
    ratios = {
        f"{value}_ratios": [other[value] / row[value] for row, other in zip(turns, others, strict=True)]
        for value in values
        if all(row[value] for row in (*turns, *others))
    }
    return {
        "arm": arm.name,
        "form": form,
        "posts_per_second": posts / statistics.median(row["seconds"] for row in turns),
        "ratio_to_replicated": statistics.median(ratios["seconds_ratios"]),
        **(
            {"cpu_ratio_to_replicated": statistics.median(found)} if (found := ratios.get("cpu_seconds_ratios")) else {}
        ),
        "matches_per_post": statistics.median(row["matches"] for row in turns) / posts,
        **ratios,
        "turns": turns,
    }
