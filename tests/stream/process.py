"""Run `tidings run` in a process of its own, as users do: start, wait for a batch, stop, kill, compare the matches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.runs import TIDINGS, environment

from tidings.demo.generate import DEMO_QUERIES, generate_posts
from tidings.failpoints import VARIABLE
from tidings.matching.brute_force import match_all
from tidings.query.parse import parse
from tidings.store import open_store
from tidings.stream.metrics.snapshot import StreamSnapshot, load_snapshot

QUERIES = tuple(DEMO_QUERIES.values())
TIMEOUT_S = 450.0
_POLL_S = 0.02
_BACKGROUND = """
import tidings.stream.commit_queue as commit_queue
commit_queue.ASYNC_COMMIT_ROWS = 0
from tidings.cli.main import main
main()
"""
BACKGROUND_COMMITS = (sys.executable, "-c", _BACKGROUND)  # commits every batch in the background, however small it is

Pairs = set[tuple[int, int]]


@dataclass
class PostFeed:
    """A directory that gets files of generated posts, one per batch if batches are as small as possible."""

    folder: Path
    posts_per_file: int = 40
    seed: int = 5
    rows: list[dict] = field(default_factory=list)
    files: int = 0
    age_s: float = 3600

    def add_files(self, count: int = 1, change: Callable[[dict], dict] = lambda row: row) -> list[dict]:
        """Add complete files; return the posts in them."""
        self.folder.mkdir(exist_ok=True)
        new = []
        for _ in range(count):
            rows = [change(row) for row in self._rows()]
            self.add_text(f"{self.files:05d}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            new += rows
        self.rows += new
        return new

    def add_text(self, name: str, text: str | bytes) -> Path:
        partial, path = self.folder / f".{name}", self.folder / name
        partial.write_bytes(text.encode() if isinstance(text, str) else text)
        modified_at = time.time() - self.age_s + self.files  # Spark reads files in the order of their times
        os.utime(partial, (modified_at, modified_at))
        partial.rename(path)
        self.files += 1
        return path

    def _rows(self) -> Iterable[dict]:
        first = self.files * self.posts_per_file
        for row in generate_posts(self.posts_per_file, self.seed + self.files).to_pylist():
            fields = {name: value for name, value in row.items() if value is not None}
            yield {**fields, "id": first + row["id"], "time": row["time"].isoformat()}


def expected_matches(rows: Sequence[dict], queries: Iterable[str], first: int = 1) -> Pairs:
    """Return the matches by brute force, with subscriptions numbered from `first` as the store does."""
    posts = [(row["text"], row.get("lat"), row.get("lon")) for row in rows]
    matches = match_all(posts, [parse(query) for query in queries])
    return {(subscription + first, rows[post]["id"]) for subscription, post in matches}


def subscribe(state: Path | str, *queries: str) -> list[int]:
    with open_store(state) as store:
        return list(store.subscriptions.add_many([(query,) for query in queries]))


def stored_matches(state: Path | str) -> Pairs:
    """Return the matches in the store; fail if one is stored twice or if a cursor does not grow."""
    pairs: list[tuple[int, int]] = []
    with open_store(state) as store:
        for subscription in store.subscriptions.all():
            matches = store.matches.since(subscription.id, limit=1_000_000)
            cursors = [match.cursor for match in matches]
            assert cursors == sorted(set(cursors)), "cursors must grow"
            pairs += [(subscription.id, int(match.post_id)) for match in matches]
        assert len(set(pairs)) == len(pairs), "a match is stored twice"
        rows = store.database.fetch("SELECT count(*), count(DISTINCT subscription || ' ' || post) FROM match")[0]
        assert rows[0] == rows[1], "a row is stored twice"
        assert store.sizes().matches == rows[0], "the count is wrong"
    return set(pairs)


class StreamProcess:
    """A running `tidings run`."""

    def __init__(
        self,
        posts: Path | str,
        state: Path | str,
        *options: str,
        failpoint: str = "",
        command: Sequence[str] = TIDINGS,
        one_file_per_batch: bool = True,
        work_dir: Path | None = None,
    ) -> None:
        sizes = ("--max-posts-per-batch", "1") if one_file_per_batch else ()
        places = ["--state", str(state), *(("--work-dir", str(work_dir)) if work_dir else ())]
        self.work_dir = work_dir or Path(state)
        self.process = subprocess.Popen(
            [*command, "run", "--posts", str(posts), *places, *sizes, "--trigger", "100 ms", *options],
            env={**environment(), VARIABLE: failpoint},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._out: list[str] = []
        self._err: list[str] = []
        pipes = ((self.process.stdout, self._out), (self.process.stderr, self._err))
        self._readers = [threading.Thread(target=_read_lines, args=pipe, daemon=True) for pipe in pipes]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> StreamProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()

    @property
    def out(self) -> str:
        return "".join(self._out)

    @property
    def err(self) -> str:
        """Log events, and the error if there is one."""
        return "".join(self._err)

    def wait_for(self, condition: Callable[[], object], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait for a condition; fail if it takes too long or the process ends."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"waited {timeout_s} s for: {what}\n{self.out}{self.err}"
            assert self.process.poll() is None or condition(), f"ended before: {what}\n{self.out}{self.err}"
            time.sleep(_POLL_S)

    def wait_until_started(self) -> None:
        self.wait_for(lambda: "stream started posts=" in self.err, "the stream has started")

    def wait_for_posts(self, count: int) -> StreamSnapshot:
        """Wait until this run has read a number of posts."""
        self.wait_for(lambda: self.snapshot is not None and self.snapshot.posts >= count, f"{count} posts are read")
        assert self.snapshot is not None
        return self.snapshot

    @property
    def snapshot(self) -> StreamSnapshot | None:
        """The metrics of this run; None before it has written some."""
        snapshot = load_snapshot(self.work_dir)
        return snapshot if snapshot is not None and snapshot.pid == self.process.pid else None

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        """Wait for the end; return the exit code."""
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(10)
        return code

    def stop(self, number: int = signal.SIGTERM, whole_group: bool = False) -> float:
        """Stop it with a signal; return the seconds until it has ended with exit code 0."""
        start = time.monotonic()
        os.killpg(self.process.pid, number) if whole_group else self.process.send_signal(number)
        assert self.wait() == 0, self.err
        return time.monotonic() - start

    def kill(self) -> None:
        """Send SIGKILL to the whole group: nothing is cleaned up."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()


def _read_lines(pipe: Iterable[str], lines: list[str]) -> None:
    for line in pipe:
        lines.append(line)  # noqa: PERF402 - each when it comes


def run_once(posts: Path | str, state: Path | str, *options: str, **settings) -> StreamProcess:
    """Match the input that exists; return the ended process."""
    with StreamProcess(posts, state, "--once", *options, **settings) as process:
        process.wait()
    return process


def run_to_end(posts: Path | str, state: Path, *options: str) -> None:
    """Match the input that exists, with exit code 0."""
    process = run_once(posts, state, *options)
    assert process.process.returncode == 0, process.err


def run_to_kill(
    posts: Path | str, state: Path, failpoint: str, *options: str, command: Sequence[str] = TIDINGS
) -> None:
    """Run until a failpoint kills the process."""
    process = run_once(posts, state, *options, failpoint=failpoint, command=command)
    assert process.process.returncode == -signal.SIGKILL, f"{failpoint} was not reached\n{process.err}"
