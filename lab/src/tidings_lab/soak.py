"""The stream for an hour and more: `tidings run` under a steady load, with subscriptions that come and go all the time.

What is kept is short, so that everything that should be deleted is deleted many times over. One post of every file is
marked and must be found exactly once. The record holds every look at the stream, what grew, and what went wrong.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidings.store import open_store
from tidings_lab.churn import Churn
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.feeder import MARKER, Feeder
from tidings_lab.sample_queries import draw_queries
from tidings_lab.soak_report import Seen, columns, problems, trends
from tidings_lab.soak_samples import Observer
from tidings_lab.streaming import Streaming, streaming

Say = Callable[[str], None]
WORDS = (4, 5)  # of a subscription: about one match a post
_KEPT = ("--keep-days", "0.01", "--keep-matches", "1000", "--processed", "delete")  # a quarter of an hour
_GLANCE_S = 0.25
_SAMPLES = 360  # of a whole run
_START_S = 120.0
_DRAIN_S = 120.0
_ALL_BATCHES = 1_000_000


@dataclass(frozen=True, slots=True)
class Load:
    """How long, how much."""

    minutes: float = 60.0
    subscriptions: int = 100_000
    posts_per_second: int = 1_000
    changed_share: float = 0.01  # of the subscriptions, a minute
    file_every_s: float = 1.0
    options: tuple[str, ...] = ("--trigger", "1 s")

    @property
    def changed_a_minute(self) -> int:
        return round(self.subscriptions * self.changed_share)

    @property
    def sample_every_s(self) -> float:
        return max(2.0, self.minutes * 60 / _SAMPLES)


def measure_soak(posts: Posts, load: Load, seed: int, say: Say) -> dict[str, Any]:
    """Run it; returns what the record keeps. What went wrong is in `problems`."""
    rng = np.random.default_rng([seed, 4])
    texts = sample_texts(posts, rng)
    queries, later = (
        draw_queries(texts, count, rng, *WORDS).to_pylist()
        for count in (load.subscriptions, max(1, round(load.changed_a_minute * load.minutes)))
    )
    with tempfile.TemporaryDirectory(prefix="tidings-soak-") as name, open_store(Path(name) / "state") as store:
        marker = store.subscribe(MARKER)
        live = store.subscribe_many([(query,) for query in queries])
        with streaming(Path(name), (*_KEPT, *load.options)) as stream:
            observer = Observer(stream.state, store, stream.process.pid, marker, stream.places)
            feeder = Feeder(stream.posts, posts, load.posts_per_second, load.file_every_s, marked=1)
            churn = Churn(store, live, later, load.changed_a_minute, rng)
            return _Soak(load, stream, observer, feeder, churn).run(say)


@dataclass(frozen=True, slots=True)
class _Soak:
    """A stream, what loads it, and who looks at it."""

    load: Load
    stream: Streaming
    observer: Observer
    feeder: Feeder
    churn: Churn

    def run(self, say: Say) -> dict[str, Any]:
        """Start, look for as long as told, let it catch up, stop."""
        self.feeder.put()
        self._until_taken(1, _START_S)
        self.observer.begin()
        self.feeder.start()
        self.churn.start()
        self._observe(say)
        self.churn.stop()
        self.feeder.stop()
        self._until_taken(self.feeder.put_posts, _DRAIN_S)
        self.observer.sample(self.feeder.put_posts)
        return self._described(self._ended())

    def _until_taken(self, posts: int, seconds: float) -> None:
        """Wait; that the stream has ended or takes too long is told by what is missing in the end."""
        end = time.monotonic() + seconds
        while self.stream.runs and time.monotonic() < end:
            told = self.observer.glance()
            if told is not None and told.posts >= posts:
                break
            time.sleep(_GLANCE_S)

    def _observe(self, say: Say) -> None:
        """Look again and again until the time is over or the stream has ended; tell once a minute."""
        start = time.monotonic()
        next_sample, next_line = start, start + 60
        while self.stream.runs and (now := time.monotonic()) < start + self.load.minutes * 60:
            self.observer.glance()
            if now >= next_sample:
                next_sample += self.load.sample_every_s
                sample = self.observer.sample(self.feeder.put_posts)
                if now >= next_line:
                    next_line += 60
                    say(f"  {(now - start) / 60:3.0f} min: {described(sample)}")
            time.sleep(_GLANCE_S)

    def _ended(self) -> Seen:
        ran, store, last = self.stream.runs, self.observer.store, self.observer.samples[-1]
        code = self.stream.stop()
        self.observer.read_marked()
        return Seen(
            ended_early=not ran,
            exit_code=code,
            posts_put=self.feeder.put_posts,
            posts_taken=last["posts"],
            marked_put=self.feeder.put_marked,
            marked_found=self.observer.marked,
            matches=last["matches"],
            unfinished=sum(one.state != "done" for one in store.ledger(last=_ALL_BATCHES)),
            rejected=store.sizes().rejected,
            load=str(self.feeder.failure or self.churn.failure or ""),
            said=tuple(self.stream.said),
        )

    def _described(self, seen: Seen) -> dict[str, Any]:
        return {
            "minutes": self.load.minutes,
            "subscriptions": self.load.subscriptions,
            "posts_per_second": self.load.posts_per_second,
            "changed_a_minute": self.load.changed_a_minute,
            "changed": self.churn.changed,
            "options": [*_KEPT, *self.load.options],
            "posts": seen.posts_taken,
            "matches": seen.matches,
            "batches": self.observer.samples[-1]["batches"],
            "problems": list(problems(seen)),
            "trends": trends(self.observer.samples),
            "samples": columns(self.observer.samples),
        }


def described(sample: Mapping[str, Any]) -> str:
    """One line of progress."""
    memory = ", ".join(f"{name} {sample[f'{name}_mb']:,.0f}" for name in ("driver", "jvm", "workers"))
    disk = sum(sample["disk_mb"].values())
    return (
        f"{memory} MB; {sample['segments']} segments, version {sample['index_version']}; "
        f"batch {sample['batch_ms']} ms, latency {sample['latency_ms']} ms, {sample['behind_posts']:,} posts behind; "
        f"{disk:,.0f} MB on disk; {sample['matches']:,} matches"
    )
