"""Running `tidings run` as users do, in processes of their own: start, wait for a batch, stop, kill, compare."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.runs import TIDINGS, environment

from tidings.demo.generate import DEMO_QUERIES, generate_posts
from tidings.failpoints import VARIABLE
from tidings.matching.brute_force import scan
from tidings.query.parse import parse
from tidings.store import open_store
from tidings.stream.metrics.snapshot import StreamFigures, load_figures

QUERIES = tuple(DEMO_QUERIES.values())
SECONDS = 450.0
_POLL_S = 0.02

Pairs = set[tuple[int, int]]


@dataclass
class Feed:
    """A directory that files of generated posts are put into, one a batch when batches are as small as can be."""

    folder: Path
    posts_a_file: int = 40
    seed: int = 5
    rows: list[dict] = field(default_factory=list)
    files: int = 0
    age_s: float = 3600

    def put(self, count: int = 1, change: Callable[[dict], dict] = lambda row: row) -> list[dict]:
        """So many files more, each put in place whole; the posts in them."""
        self.folder.mkdir(exist_ok=True)
        new = []
        for _ in range(count):
            rows = [change(row) for row in self._rows()]
            self.put_text(f"{self.files:05d}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            new += rows
        self.rows += new
        return new

    def put_text(self, name: str, text: str | bytes) -> Path:
        partial, path = self.folder / f".{name}", self.folder / name
        partial.write_bytes(text.encode() if isinstance(text, str) else text)
        moment = time.time() - self.age_s + self.files  # Spark takes them in the order of their times
        os.utime(partial, (moment, moment))
        partial.rename(path)
        self.files += 1
        return path

    def _rows(self) -> Iterable[dict]:
        first = self.files * self.posts_a_file
        for row in generate_posts(self.posts_a_file, self.seed + self.files).to_pylist():
            kept = {name: value for name, value in row.items() if value is not None}
            yield {**kept, "id": first + row["id"], "time": row["time"].isoformat()}


def wanted(rows: Sequence[dict], queries: Iterable[str], first: int = 1) -> Pairs:
    """What the scan finds: (subscription, post), with subscriptions numbered from `first` as the store does."""
    posts = [(row["text"], row.get("lat"), row.get("lon")) for row in rows]
    found = scan(posts, [parse(query) for query in queries])
    return {(subscription + first, rows[post]["id"]) for subscription, post in found}


def subscribe(state: Path | str, *queries: str) -> list[int]:
    with open_store(state) as store:
        return list(store.subscribe_many([(query,) for query in queries]))


def stored(state: Path | str) -> Pairs:
    """The matches in the store; fails where one is there twice or where a cursor does not grow."""
    found: list[tuple[int, int]] = []
    with open_store(state) as store:
        for subscription in store.subscriptions():
            matches = store.matches(subscription.id, limit=1_000_000)
            cursors = [one.cursor for one in matches]
            assert cursors == sorted(set(cursors)), "cursors only grow"
            found += [(subscription.id, int(one.post_id)) for one in matches]
        assert len(set(found)) == len(found), "no match is there twice"
        rows = store.database.rows("SELECT count(*), count(DISTINCT subscription || ' ' || post) FROM match")[0]
        assert rows[0] == rows[1], "nor is its row"
        assert store.sizes().matches == rows[0], "and all are counted"
    return set(found)


class Run:
    """One `tidings run`, running."""

    def __init__(
        self,
        feed: Path | str,
        state: Path | str,
        *options: str,
        crash: str = "",
        command: Sequence[str] = TIDINGS,
        small: bool = True,
        work: Path | None = None,
    ) -> None:
        sizes = ("--max-posts-per-batch", "1") if small else ()  # a file a batch
        places = ["--state", str(state), *(("--work", str(work)) if work else ())]
        given = [*command, "run", "--posts", str(feed), *places, *sizes, "--trigger", "100 ms", *options]
        self.work = work or Path(state)
        self.process = subprocess.Popen(
            given,
            env={**environment(), VARIABLE: crash},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._out: list[str] = []
        self._err: list[str] = []
        pipes = ((self.process.stdout, self._out), (self.process.stderr, self._err))
        self._readers = [threading.Thread(target=_read, args=pipe, daemon=True) for pipe in pipes]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()

    @property
    def out(self) -> str:
        return "".join(self._out)

    @property
    def err(self) -> str:
        return "".join(self._err)

    def until(self, condition: Callable[[], object], what: str, seconds: float = SECONDS) -> None:
        """Wait for something; fails when it does not come about, or the process ends before."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited {seconds} s for: {what}\n{self.out}{self.err}"
            assert self.process.poll() is None or condition(), f"ended before: {what}\n{self.out}{self.err}"
            time.sleep(_POLL_S)

    def until_taking(self) -> None:
        self.until(lambda: "taking posts" in self.out, "the stream has started")

    def until_posts(self, count: int) -> StreamFigures:
        """Wait until so many posts were taken in this run."""
        self.until(lambda: self.figures is not None and self.figures.posts >= count, f"{count} posts are taken")
        assert self.figures is not None
        return self.figures

    @property
    def figures(self) -> StreamFigures | None:
        """What this run tells of itself; None before it does."""
        told = load_figures(self.work)
        return told if told is not None and told.pid == self.process.pid else None

    def ended(self, seconds: float = SECONDS) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join(10)
        return code

    def stop(self, number: int = signal.SIGTERM, whole_group: bool = False) -> float:
        """Ask it to stop; the seconds until it has, with exit code 0."""
        start = time.monotonic()
        os.killpg(self.process.pid, number) if whole_group else self.process.send_signal(number)
        assert self.ended() == 0, self.err
        return time.monotonic() - start

    def kill(self) -> None:
        """SIGKILL to all of it: nothing can be cleaned up."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.ended()


def _read(pipe: Iterable[str], lines: list[str]) -> None:
    for line in pipe:
        lines.append(line)  # noqa: PERF402 - each as it comes


def run_once(
    feed: Path,
    state: Path | str,
    *options: str,
    crash: str = "",
    small: bool = True,
    work: Path | None = None,
    command: Sequence[str] = TIDINGS,
) -> Run:
    """Take what is there, to the end (or to the crash)."""
    with Run(feed, state, "--once", *options, crash=crash, small=small, work=work, command=command) as run:
        run.ended()
    return run


def done(state: Path, *options: str, feed: Path) -> None:
    """A run that takes what is there and ends well."""
    run = run_once(feed, state, *options)
    assert run.process.returncode == 0, run.err


def children(pid: int) -> list[int]:
    """The processes below one, all generations."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            told = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents.setdefault(int(told[1]), []).append(int(status.parent.name))
    found, new = [], [pid]
    while new:
        new = [child for parent in new for child in parents.get(parent, [])]
        found += new
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
