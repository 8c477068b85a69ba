"""Soak test: `tidings serve` for an hour under constant load while subscriptions change and feeds are read.

Retention is short, so that deletion happens many times. One post of every file is marked and must be found exactly
once. The result has all samples, the trends, and the problems.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidings.store import open_store
from tidings_lab.churn import Churn
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.feed_reader import FeedReader
from tidings_lab.feeder import MARKER, Feeder
from tidings_lab.progress import Report
from tidings_lab.sample_queries import draw_queries
from tidings_lab.soak_report import SoakOutcome, compute_trends, find_growth, find_problems, to_columns
from tidings_lab.soak_samples import StreamObserver
from tidings_lab.stream_process import StreamProcess, stream_process

QUERY_TERMS = (4, 5)  # minimum and maximum per subscription: about one match per post
_RETENTION = ("--keep-days", "0.01", "--keep-matches", "1000")  # 14 minutes
_POLL_S = 0.25
_SAMPLES = 360  # per run
_START_TIMEOUT_S = 120.0
_DRAIN_TIMEOUT_S = 120.0
_ALL_BATCHES = 1_000_000


@dataclass(frozen=True, slots=True)
class SoakLoad:
    """Duration and load."""

    minutes: float = 60.0
    subscriptions: int = 100_000
    posts_per_second: int = 1_000
    changed_share: float = 0.01  # of the subscriptions, per minute
    file_every_s: float = 1.0
    trigger: str = "1 s"
    master: str = ""  # of Spark; empty: all cores

    @property
    def changed_per_minute(self) -> int:
        return round(self.subscriptions * self.changed_share)

    @property
    def run_settings(self) -> dict[str, str]:
        return {"trigger": self.trigger, **({"master": self.master} if self.master else {})}

    @property
    def sample_every_s(self) -> float:
        return max(2.0, self.minutes * 60 / _SAMPLES)


def measure_soak(posts: Posts, load: SoakLoad, seed: int, report: Report) -> dict[str, Any]:
    """Run the soak test. `problems` of the result lists what failed."""
    rng = np.random.default_rng([seed, 4])
    texts = sample_texts(posts, rng)
    queries, replacements = (
        draw_queries(texts, count, rng, *QUERY_TERMS).to_pylist()
        for count in (load.subscriptions, max(1, round(load.changed_per_minute * load.minutes)))
    )
    with tempfile.TemporaryDirectory(prefix="tidings-soak-") as name, open_store(Path(name) / "state") as store:
        marker = store.subscriptions.add(MARKER)
        live = store.subscriptions.add_many([(query,) for query in queries])
        secret = store.feed_urls.get_or_create(marker)
        with stream_process(Path(name), _RETENTION, load.run_settings) as stream:
            observer = StreamObserver(stream.state, store, stream.process.pid, marker, stream.folders)
            feeder = Feeder(stream.posts, posts, load.posts_per_second, load.file_every_s, marked=1)
            churn = Churn(store, live, replacements, load.changed_per_minute, rng)
            reader = FeedReader(lambda: stream.url, secret)
            return _Soak(load, stream, observer, feeder, churn, reader).run(report)


@dataclass(frozen=True, slots=True)
class _Soak:
    """A stream, its load and its observer."""

    load: SoakLoad
    stream: StreamProcess
    observer: StreamObserver
    feeder: Feeder
    churn: Churn
    reader: FeedReader

    def run(self, report: Report) -> dict[str, Any]:
        """Start, observe for the given time, wait for the backlog, stop."""
        self.feeder.write_file()
        self._wait_until_read(1, _START_TIMEOUT_S)
        self.observer.reset()
        self.feeder.start()
        self.churn.start()
        self.reader.start()
        self._observe(report)
        self.reader.stop()
        self.churn.stop()
        self.feeder.stop()
        self._wait_until_read(self.feeder.posts_written, _DRAIN_TIMEOUT_S)
        self.observer.sample(self.feeder.posts_written)
        return self._describe(self._finish())

    def _wait_until_read(self, posts: int, seconds: float) -> None:
        """Wait until the stream has read this number of posts; `find_problems` reports a timeout later."""
        end = time.monotonic() + seconds
        while self.stream.is_running and time.monotonic() < end:
            snapshot = self.observer.observe_batch()
            if snapshot is not None and snapshot.posts >= posts:
                break
            time.sleep(_POLL_S)

    def _observe(self, report: Report) -> None:
        """Take samples until the time is over or the stream has ended; report once per minute."""
        start = time.monotonic()
        next_sample, next_line = start, start + 60
        while self.stream.is_running and (now := time.monotonic()) < start + self.load.minutes * 60:
            self.observer.observe_batch()
            if now >= next_sample:
                next_sample += self.load.sample_every_s
                sample = self.observer.sample(self.feeder.posts_written)
                if now >= next_line:
                    next_line += 60
                    report(f"  {(now - start) / 60:3.0f} min: {format_sample(sample)}")
            time.sleep(_POLL_S)

    def _finish(self) -> SoakOutcome:
        was_running, store, last = self.stream.is_running, self.observer.store, self.observer.samples[-1]
        code = self.stream.stop()
        self.observer.read_marked()
        return SoakOutcome(
            ended_early=not was_running,
            exit_code=code,
            posts_written=self.feeder.posts_written,
            posts_read=last["posts"],
            marked_written=self.feeder.marked_written,
            marked_found=self.observer.marked,
            matches=last["matches"],
            unfinished=sum(batch.state != "done" for batch in store.batches.recent(limit=_ALL_BATCHES)),
            rejected=store.sizes().rejected,
            load_error=str(self.feeder.failure or self.churn.failure or self.reader.failure or ""),
            restarts=max(0, len(self.observer.drivers) - 1),
            output_lines=tuple(self.stream.output_lines),
        )

    def _describe(self, outcome: SoakOutcome) -> dict[str, Any]:
        trends = compute_trends(self.observer.samples)
        return {
            "minutes": self.load.minutes,
            "subscriptions": self.load.subscriptions,
            "posts_per_second": self.load.posts_per_second,
            "changed_per_minute": self.load.changed_per_minute,
            "changed": self.churn.changed,
            "options": [*_RETENTION, *(f"{name}={value}" for name, value in self.load.run_settings.items())],
            "posts": outcome.posts_read,
            "matches": outcome.matches,
            "batches": self.observer.samples[-1]["batches"],
            "feed_responses": self.reader.responses,
            "problems": [*find_problems(outcome), *find_growth(trends, self.load.minutes)],
            "trends": trends,
            "samples": to_columns(self.observer.samples),
        }


def format_sample(sample: Mapping[str, Any]) -> str:
    """Return a line of progress."""
    roles = ("serve", "driver", "jvm", "workers")
    memory = ", ".join(f"{name} {sample[f'{name}_private_mb']:,.1f}" for name in roles)
    disk = sum(sample["disk_mb"].values())
    return (
        f"private {memory} MB; {sample['segments']} segments, version {sample['index_version']}; "
        f"batch {sample['batch_ms']} ms, latency {sample['latency_ms']} ms, backlog {sample['backlog_posts']:,} posts; "
        f"{disk:,.0f} MB on disk; {sample['matches']:,} matches"
    )
