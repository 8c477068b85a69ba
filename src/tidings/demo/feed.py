"""Posts of the demo: generated, reproducible, written as JSON Lines files at a steady rate."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidings.demo.generate import DEMO_QUERIES, generate_posts

SEED = 2026
_TICK_SECONDS = 0.5


def demo_subscriptions() -> pa.Table:
    """Return the named queries of the demo."""
    return pa.table({"id": list(DEMO_QUERIES), "query": list(DEMO_QUERIES.values())})


def demo_posts(count: int) -> list[dict[str, Any]]:
    """Return `count` posts with JSON values; fields without a value are left out."""
    rows = generate_posts(count, SEED).to_pylist()
    return [_to_json_row(row) for row in rows]


def write_sample(folder: Path, count: int) -> tuple[Path, Path]:
    """Write sample posts and subscriptions for `tidings match`; return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    posts, subscriptions = folder / "posts.jsonl", folder / "subscriptions.txt"
    _write(posts, demo_posts(count))
    subscriptions.write_text("".join(f"{query}\n" for query in DEMO_QUERIES.values()), encoding="utf-8")
    return posts, subscriptions


class DemoFeed(threading.Thread):
    """Writes posts at a steady rate, two files per second, until all are written or `stop` is called."""

    def __init__(self, folder: Path, posts: list[dict[str, Any]], rate: int) -> None:
        super().__init__(daemon=True, name="tidings-feed")
        self.sent = 0
        self._folder, self._posts, self._step = folder, posts, max(1, int(rate * _TICK_SECONDS))
        self._stopped = threading.Event()

    def run(self) -> None:
        while self.sent < len(self._posts) and not self._stopped.wait(_TICK_SECONDS):
            self.send()

    def send(self) -> None:
        """Write the next file. It is renamed when complete, so that Spark never reads a partial file."""
        posts = self._posts[self.sent : self.sent + self._step]
        hidden = self._folder / ".arriving"
        _write(hidden, posts)
        hidden.rename(self._folder / f"posts-{self.sent:08d}.jsonl")
        self.sent += len(posts)

    def stop(self) -> None:
        self._stopped.set()
        if self.is_alive():
            self.join()


def _to_json_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name != "time" else value.isoformat() for name, value in row.items() if value is not None}


def _write(file: Path, posts: list[dict[str, Any]]) -> None:
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(post, ensure_ascii=False) + "\n" for post in posts)
