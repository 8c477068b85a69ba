"""The posts of the demonstration: made up, always the same, arriving as JSON Lines files."""

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
    """The named queries of the demonstration."""
    return pa.table({"id": list(DEMO_QUERIES), "query": list(DEMO_QUERIES.values())})


def demo_posts(count: int) -> list[dict[str, Any]]:
    """So many posts as JSON can hold them; fields without a value are left out."""
    rows = generate_posts(count, SEED).to_pylist()
    return [_plain(row) for row in rows]


def write_sample(folder: Path, count: int) -> tuple[Path, Path]:
    """Posts and subscriptions to try `tidings match` on."""
    folder.mkdir(parents=True, exist_ok=True)
    posts, subscriptions = folder / "posts.jsonl", folder / "subscriptions.txt"
    _write(posts, demo_posts(count))
    subscriptions.write_text("".join(f"{query}\n" for query in DEMO_QUERIES.values()), encoding="utf-8")
    return posts, subscriptions


class Feed(threading.Thread):
    """Writes posts at a steady rate, twice a second a file, until they are out or it is told to stop."""

    def __init__(self, folder: Path, posts: list[dict[str, Any]], rate: int) -> None:
        super().__init__(daemon=True, name="tidings-feed")
        self.sent = 0
        self._folder, self._posts, self._step = folder, posts, max(1, int(rate * _TICK_SECONDS))
        self._is_over = threading.Event()

    def run(self) -> None:
        while self.sent < len(self._posts) and not self._is_over.wait(_TICK_SECONDS):
            self.send()

    def send(self) -> None:
        """The next file; it gets its name when it is whole, so that Spark never sees half a file."""
        part = self._posts[self.sent : self.sent + self._step]
        hidden = self._folder / ".arriving"
        _write(hidden, part)
        hidden.rename(self._folder / f"posts-{self.sent:08d}.jsonl")
        self.sent += len(part)

    def stop(self) -> None:
        self._is_over.set()
        if self.is_alive():
            self.join()


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name != "time" else value.isoformat() for name, value in row.items() if value is not None}


def _write(file: Path, posts: list[dict[str, Any]]) -> None:
    with file.open("w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(post, ensure_ascii=False) + "\n" for post in posts)
