"""Files of tagged posts, and the coefficients of their windows by definition."""

from __future__ import annotations

import json
import os
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

SLIDE, PANES, LATENESS = 10, 3, 4  # seconds, slides, seconds


class TaggedFeed:
    """A directory of files of tagged posts. The tags change with time; the load rises and falls."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.posts, self.files, self.moments = folder, [], 0, 0
        folder.mkdir()

    def add_files(self, count: int, moments: int = 1) -> None:
        """Add files; each has the posts of some moments, five seconds apart."""
        rng = np.random.default_rng(self.files)
        for _ in range(count):
            self.write([post for _ in range(moments) for post in self._posts(rng)])

    def _posts(self, rng: np.random.Generator) -> list[tuple[int, list[str]]]:
        moment, self.moments = self.moments, self.moments + 1
        rows = []
        for _ in range(60 if moment % 6 < 3 else 15):
            tags = sorted({f"t{n}" for n in rng.zipf(1.6, rng.integers(1, 4)) % 9 + moment // 3})
            rows.append((1_600_000_000 + moment * 5 + int(rng.integers(0, 6)), tags))
        return rows

    def write(self, rows: list[tuple[int, list[str]]]) -> None:
        text = "".join(
            json.dumps({"id": len(self.posts) + n, "time": at, "text": " ".join(f"#{tag}" for tag in tags)}) + "\n"
            for n, (at, tags) in enumerate(rows)
        )
        self.posts += rows
        partial, path = self.folder / ".partial", self.folder / f"{self.files:05d}.jsonl"
        partial.write_text(text)
        modified_at = time.time() - 3600 + self.files  # Spark reads files in the order of their times
        os.utime(partial, (modified_at, modified_at))
        partial.rename(path)
        self.files += 1

    def windows(self) -> dict:
        """Return (window end, tags) -> (support, union) of all complete windows, by definition."""
        until = (max(at for at, _ in self.posts) - LATENESS) // SLIDE
        by_end: dict[int, list[set[str]]] = {}
        for at, tags in self.posts:
            for end in range(at // SLIDE + 1, at // SLIDE + PANES + 1):
                if end <= until:
                    by_end.setdefault(end, []).append(set(tags))
        return {
            (end * SLIDE, subset): counts
            for end, posts in by_end.items()
            for subset in {subset for post in posts for subset in _subsets(post)}
            if (counts := _counts(set(subset), posts))[0] >= 2
        }


def _subsets(post: set[str]) -> list[tuple[str, ...]]:
    return [tags for size in range(2, len(post) + 1) for tags in combinations(sorted(post), size)]


def _counts(tags: set[str], posts: list[set[str]]) -> tuple[int, int]:
    return sum(tags <= post for post in posts), sum(bool(tags & post) for post in posts)


def reported_windows(windows: Path) -> dict:
    rows = pq.read_table(windows).to_pylist()
    coefficients = {
        (int(row["window_end"].timestamp()), tuple(sorted(row["tags"]))): (row["support"], row["union"]) for row in rows
    }
    assert len(coefficients) == len(rows), "a coefficient is reported twice"
    return coefficients
