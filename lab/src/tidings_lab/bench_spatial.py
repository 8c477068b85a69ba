"""PS²Stream's Q1 as a stream whose subscriptions change: `hybrid` over 8 matchers and replicated, in turns.

The stream is that of `tidings run`. There is one update per five posts, as in the paper: subscriptions are added, and
removed at the end of their lifetime. Every batch changes the store, and the stream brings its index up to date by
itself: `tuples` are posts and the updates that reached the index. A post has too many matches for a database, so the
sink syncs the spill files of a batch to disk, with a list of subscriptions per post, and then drops them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import tidings
from tidings.index.manifest import list_versions, load_manifest
from tidings.plan.load_model import POSTS_PER_UPDATE
from tidings.store import BatchChunk, NewSubscription, Store, open_store
from tidings.stream.commit_queue import MatchChunks, spill
from tidings.testing.stream import RunningStream, StreamHarness
from tidings_lab.clock import tree_cpu_seconds
from tidings_lab.errors import ContendersDisagree
from tidings_lab.located_posts import load_located
from tidings_lab.progress import Report, print_line
from tidings_lab.spatial_workload import Tweets, departures, draw_subscriptions, to_rows

MATCHERS = 8
ARMS: Mapping[str, Mapping[str, Any]] = {
    "hybrid": {"execution_mode": "partitioned", "partitioner": "hybrid", "matchers": MATCHERS},
    "replicated": {"execution_mode": "replicated"},
}
BATCH_POSTS = 100_000  # one file per batch: about a second of work
_DRAWN_FROM = 100_000  # posts
_WARM_UPS = 1  # turns
_TIMEOUT_S = 900.0
_POLL_S = 0.02
_MAX_FLUSHES = 1_000
_NO_INTEGERS = pa.nulls(0, pa.int64())
_NOTHING = BatchChunk(
    pa.table({"id": _NO_INTEGERS}),
    pa.table({"subscription": _NO_INTEGERS, "post_row": _NO_INTEGERS}),
    pa.table({"reason": pa.nulls(0, pa.string())}),
)


@dataclass(frozen=True, slots=True)
class Updates:
    """Insertions in their order, and the ids of all subscriptions by the number of insertions before their removal."""

    new: Sequence[NewSubscription]
    removed: NDArray[np.int64]
    removed_at: NDArray[np.int64]

    @classmethod
    def draw(cls, subscriptions: int, new: pa.Table, seed: int) -> Updates:
        """Draw lifetimes; ids are those of a store: from 1, in the order of insertion."""
        leaves = departures(subscriptions, len(new), seed)
        order = np.argsort(leaves, kind="stable")
        return cls(to_rows(new, with_costs=True), order + 1, leaves[order])

    def apply(self, store: Store, first: int, insertions: int) -> int:
        """Apply the insertions from `first` on and the removals up to there; return the number of updates."""
        bounds = np.searchsorted(self.removed_at, [first, first + insertions])
        added = store.subscriptions.add_many(self.new[first : first + insertions])
        return len(added) + store.subscriptions.remove_many(self.removed[slice(*bounds.tolist())].tolist())


@dataclass
class UpdatingSink:
    """Syncs the spill files of a batch and drops its matches; changes the subscriptions once per batch."""

    store: Store
    updates: Updates
    per_batch: int  # insertions; 0 to stop changing subscriptions and to count matches instead
    applied: int = 0  # insertions
    matches: int = 0

    def write(self, stream: str, batch: int, index_version: int, chunks: Iterable[BatchChunk]) -> Iterable[BatchChunk]:
        assert isinstance(chunks, MatchChunks)
        if self.per_batch:
            self.updates.apply(self.store, self.applied, self.per_batch)
            self.applied += self.per_batch
        else:
            self.matches += sum(map(_count_matches, chunks.tables()))
        if chunks.spill_dir is not None:
            spill(chunks, chunks.spill_dir)
        return [_NOTHING._replace(delivered_posts=chunks.rows - chunks.rejected)]


def _count_matches(rows: pa.Table) -> int:
    return sum(len(lists.flatten()) for lists in rows["subscriptions"].chunks)


@dataclass
class Arm:
    """A stream with its own store; `turns` are its measurements."""

    name: str
    folder: Path
    sink: UpdatingSink
    running: AbstractContextManager[RunningStream]
    stack: ExitStack
    stream: RunningStream | None = None
    posts: int = 0
    turns: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def open(
        cls, folder: Path, name: str, subscriptions: Sequence[NewSubscription], sink: UpdatingSink, stack: ExitStack
    ) -> Arm:
        sink.store.subscriptions.add_many(subscriptions)
        (folder / "posts").mkdir()
        harness = StreamHarness(
            tidings.session(), folder / "posts", folder / "state", match_sink=sink, max_posts_per_batch=1, **ARMS[name]
        )
        return cls(name, folder, sink, harness.running_stream(), stack)

    def match(self, posts: pa.Table, file_posts: int) -> dict[str, Any]:
        """Give posts to the stream as new files and wait until they are committed."""
        files = self._write_files(posts, file_posts)
        cpu, position, start = tree_cpu_seconds(), self.log_position(), time.time()
        for file in files:
            os.rename(file, self.folder / "posts" / file.name)
        self.posts += len(posts)
        if self.stream is None:  # a stream needs a first file to learn its plan from
            self.stream = self.stack.enter_context(self.running)
        self.stream.wait_for(lambda snapshot: snapshot.posts >= self.posts, _TIMEOUT_S)
        batches = [row for row in self.sink.store.batches.recent() if row.started_at >= start]
        end, cpu_end = max(row.finished_at or 0.0 for row in batches), tree_cpu_seconds()
        return {
            "seconds": end - start,
            "cpu_seconds": None if cpu is None or cpu_end is None else cpu_end - cpu,
            "updates": self.log_position() - position,
            "batches": len(batches),
        }

    def _write_files(self, posts: pa.Table, file_posts: int) -> list[Path]:
        paths = []
        for start in range(0, len(posts), file_posts):
            table = posts.slice(start, file_posts)
            ids = pa.array(np.arange(len(table)) + self.posts + start)
            paths.append(self.folder / f"{self.posts + start:012}.parquet")
            pq.write_table(table.add_column(0, "id", ids), paths[-1])
        return paths

    def log_position(self) -> int:
        """Return up to which change of subscriptions the newest version of the index has all."""
        folder = self.folder / "state" / "index"
        versions = list_versions(folder) if folder.is_dir() else []
        return load_manifest(folder, versions[-1]).log_position if versions else 0

    def flush(self, post: pa.Table) -> None:
        """Run small batches without further updates until all updates are in the index."""
        self.sink.per_batch = 0
        for _ in range(_MAX_FLUSHES):
            self.match(post, 1)
            if self.log_position() == self.sink.store.subscriptions.position():
                return
            time.sleep(_POLL_S)
        raise ContendersDisagree(f"{self.name}: updates did not reach the index after {_MAX_FLUSHES:,} batches.")

    def count_matches(self, posts: pa.Table, file_posts: int) -> int:
        self.sink.matches = 0
        self.match(posts, file_posts)
        return self.sink.matches


def measure_space(
    folder: Path,
    subscriptions: int,
    posts: int | None,
    repetitions: int,
    seed: int,
    report: Report = print_line,
    batch_posts: int = BATCH_POSTS,
) -> dict[str, Any]:
    """Measure all arms in turns with the same posts and updates; then compare their matches."""
    table = load_located(posts, seed)
    batches = (_WARM_UPS + repetitions) * -(-len(table) // batch_posts)
    per_batch = batch_posts // (2 * POSTS_PER_UPDATE)  # insertions; as many removals
    report(f"drawing {subscriptions:,} subscriptions of Q1 for {len(table):,} posts, and {batches * per_batch:,} more")
    tweets = Tweets.of(table.slice(0, _DRAWN_FROM))
    drawn = to_rows(draw_subscriptions("Q1", subscriptions, tweets, seed))
    updates = Updates.draw(subscriptions, draw_subscriptions("Q1", batches * per_batch, tweets, seed + 1), seed)
    with ExitStack() as stack:
        arms = list(_open_arms(folder, drawn, updates, per_batch, stack))
        for turn in range(-_WARM_UPS, repetitions):
            for at in range(len(arms)):
                arm = arms[(at + turn) % len(arms)]
                arm.turns.append({"turn": turn, **arm.match(table, batch_posts)})
            _report_turn(turn, arms, len(table), report)
        matches = _check_agreement(arms, table, batch_posts)
    return {
        "posts": len(table),
        "subscriptions": subscriptions,
        "matchers": MATCHERS,
        "batch_posts": batch_posts,
        "matches_per_post": matches / len(table),
        "rows": [_summarize(arm, arms[-1], len(table)) for arm in arms],
    }


def _open_arms(
    folder: Path, subscriptions: Sequence[NewSubscription], updates: Updates, per_batch: int, stack: ExitStack
) -> Iterator[Arm]:
    for name in ARMS:
        state = folder / name / "state"
        state.mkdir(parents=True)
        sink = UpdatingSink(stack.enter_context(open_store(state)), updates, per_batch)
        yield Arm.open(folder / name, name, subscriptions, sink, stack)


def _check_agreement(arms: Sequence[Arm], posts: pa.Table, batch_posts: int) -> int:
    """Return the number of matches that all arms find once they have the same subscriptions."""
    for arm in arms:
        arm.flush(posts.slice(0, 1))
    live = {arm.name: arm.sink.store.sizes().subscriptions for arm in arms}
    found = {arm.name: arm.count_matches(posts, batch_posts) for arm in arms}
    if len(set(live.values())) > 1 or len(set(found.values())) > 1:
        raise ContendersDisagree(f"Arms differ: subscriptions {live}, matches {found}.")
    return next(iter(found.values()))


def _report_turn(turn: int, arms: Sequence[Arm], posts: int, report: Report) -> None:
    rates = "; ".join(
        f"{arm.name} {(posts + arm.turns[-1]['updates']) / arm.turns[-1]['seconds']:,.0f}" for arm in arms
    )
    report(f"  {'warm-up' if turn < 0 else f'turn {turn + 1}'}, tuples/s: {rates}")


def _summarize(arm: Arm, reference: Arm, posts: int) -> dict[str, Any]:
    """Return rates over all turns together, and the ratio of the seconds of the reference in the same turn."""
    turns, others = ([row for row in one.turns if row["turn"] >= 0] for one in (arm, reference))
    seconds, updates = (sum(row[name] for row in turns) for name in ("seconds", "updates"))
    ratios = [other["seconds"] / row["seconds"] for row, other in zip(turns, others, strict=True)]
    return {
        "arm": arm.name,
        "tuples_per_second": (posts * len(turns) + updates) / seconds,
        "posts_per_second": posts * len(turns) / seconds,
        "updates_per_post": updates / (posts * len(turns)),
        "ratio_to_replicated": statistics.median(ratios),
        "ratios": ratios,
        "turns": turns,
    }
