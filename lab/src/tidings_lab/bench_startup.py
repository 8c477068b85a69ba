"""Start-up benchmark: the time line of a restarted stream and of a restarted service until the first match is stored.

Every repetition restarts the same state, with one new file of posts. If TIDINGS_BENCH_BASELINE names the directory of
another checkout, both versions take turns.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tidings_lab import REPOSITORY
from tidings_lab.datasets import Posts, sample_texts
from tidings_lab.process_tree import ProcessTree
from tidings_lab.progress import Report
from tidings_lab.sample_queries import draw_queries

BASELINE_VARIABLE = "TIDINGS_BENCH_BASELINE"
MARKER = "zzstartup"
COMMANDS = ("run", "serve")
FIRST_MATCH = "first match visible"
# What a command logs at level debug, and what that means.
_EVENTS = {
    "index opened": "index opened",
    "Spark started": "Spark started",
    "reading schema": "source opened",
    "stream started": "stream started",
    "batch matched": "first batch matched",
}
_COUNT_MARKED = "SELECT count(*) FROM match WHERE subscription = (SELECT max(id) FROM subscription)"
_POLL_S = 0.05
_TIMEOUT_S = 300.0
_PREPARE_TIMEOUT_S = 600.0
_STOP_TIMEOUT_S = 60.0


class StartupLoad(NamedTuple):
    """The size of the state that is restarted."""

    subscriptions: int = 10_000
    old_files: int = 500
    posts_per_file: int = 100
    repetitions: int = 5


QUICK = StartupLoad(subscriptions=500, old_files=20, repetitions=1)


def measure_startup(posts: Posts, load: StartupLoad, seed: int, report: Report) -> dict[str, Any]:
    """Restart the commands in turn, with every version; return every time line and the medians."""
    versions = {"this": REPOSITORY}
    if baseline := os.environ.get(BASELINE_VARIABLE):
        versions = {"baseline": Path(baseline), **versions}
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tidings-bench-startup-") as name:
        folder = Path(name)
        for version, checkout in versions.items():
            _prepare_state(folder / version, checkout, posts, load, seed)
        for repetition in range(load.repetitions):
            for command in COMMANDS:
                for version, checkout in versions.items():
                    measured = _restart(folder / version, checkout, command, f"{command}{repetition}")
                    runs.append({"version": version, "command": command, "repetition": repetition, **measured})
                    report(f"  {version}: {_describe(runs[-1])}")
    return {**load._asdict(), "runs": runs, "medians": list(_medians(runs))}


def _prepare_state(folder: Path, checkout: Path, posts: Posts, load: StartupLoad, seed: int) -> None:
    """Create a state with subscriptions and posts, and match these once: kernels are compiled, archives written."""
    rng = np.random.default_rng([seed, 15])
    state, inbox = folder / "state", folder / "state" / "inbox"
    inbox.mkdir(parents=True)
    queries = draw_queries(sample_texts(posts, rng), load.subscriptions, rng, 3, 6).to_pylist()
    (folder / "queries.txt").write_text("".join(f"{query}\n" for query in (*queries, MARKER)), "utf-8")
    _run(checkout, "subscribe", "--file", str(folder / "queries.txt"), "--owner", "bench", "--state", str(state))
    for number in range(load.old_files):
        part = posts.table.slice(number * load.posts_per_file % len(posts), load.posts_per_file)
        _write_posts(inbox / f"old{number:05}.jsonl", part["text"], number * load.posts_per_file)
    for _ in range(2):
        _run(checkout, "run", "--once", "--posts", str(inbox), "--state", str(state))


def _run(checkout: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "tidings.cli.main", *arguments]
    subprocess.run(command, env=_environment(checkout), check=True, capture_output=True, timeout=_PREPARE_TIMEOUT_S)


def _write_posts(file: Path, texts: pa.ChunkedArray, first_id: int) -> None:
    table = pa.table({"id": pa.array(np.arange(first_id, first_id + len(texts))), "text": texts})
    partial = file.with_name(f".{file.name}")
    table.to_pandas().to_json(partial, orient="records", lines=True)
    partial.rename(file)


def _environment(checkout: Path) -> dict[str, str]:
    """Ask for events at level debug by the environment: version 0.1 has no option for it."""
    return {**os.environ, "PYTHONPATH": str(checkout / "src"), "TIDINGS_LOG_LEVEL": "debug"}


def _restart(folder: Path, checkout: Path, command: str, marker_id: str) -> dict[str, Any]:
    """Start a command with one new post that matches; return the time line until the match is stored."""
    state, inbox = folder / "state", folder / "state" / "inbox"
    _write_posts(inbox / f"new-{marker_id}.jsonl", pa.chunked_array([[f"{MARKER} {marker_id}"]]), time.time_ns())
    options = ["--posts", str(inbox)] if command == "run" else ["--bind", "127.0.0.1:0"]
    matches = _count_marked(state)
    with _running(checkout, [command, "--state", str(state), *options]) as timeline:
        timeline.wait(lambda: _count_marked(state) > matches)
        timeline.note(FIRST_MATCH)
        stop_s = timeline.stop()
    return {"timeline": timeline.events, "stop_s": round(stop_s, 2), "exit_code": timeline.process.returncode}


def _count_marked(state: Path) -> int:
    """Return the number of matches of the last subscription. `open_store` would migrate the store of a baseline."""
    with closing(sqlite3.connect(f"{(state / 'tidings.sqlite').as_uri()}?mode=ro", uri=True)) as database:
        return int(database.execute(_COUNT_MARKED).fetchone()[0])


class _Timeline:
    """A started command, and what happened when, in wall and CPU seconds since its start."""

    def __init__(self, checkout: Path, arguments: Sequence[str]) -> None:
        self._start = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tidings.cli.main", *arguments],
            env=_environment(checkout),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.events: list[dict[str, Any]] = []
        self._tree = ProcessTree(self.process.pid)
        threading.Thread(target=self._read_log, daemon=True, name="startup-log").start()

    def note(self, event: str) -> None:
        """Record an event, the first time that it happens."""
        if event not in [row["event"] for row in self.events]:
            wall_s = round(time.monotonic() - self._start, 2)
            self.events.append({"event": event, "wall_s": wall_s, "cpu_s": self._tree.cpu_s()})

    def wait(self, condition: Any) -> None:
        while not condition():
            if self.process.poll() is not None or time.monotonic() - self._start > _TIMEOUT_S:
                raise RuntimeError(f"the command matched nothing: {self.events}")
            if "jvm" in str(self._tree.cpu_s()):
                self.note("JVM process started")
            time.sleep(_POLL_S)

    def stop(self) -> float:
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(_STOP_TIMEOUT_S)
        return time.monotonic() - start

    def _read_log(self) -> None:
        for line in self.process.stderr or ():
            for sign, event in _EVENTS.items():
                if sign in line:
                    self.note(event)


@contextmanager
def _running(checkout: Path, arguments: Sequence[str]) -> Iterator[_Timeline]:
    timeline = _Timeline(checkout, arguments)
    try:
        yield timeline
    finally:
        if timeline.process.poll() is None:
            os.killpg(timeline.process.pid, signal.SIGKILL)
            timeline.process.wait()


def _describe(run: Mapping[str, Any]) -> str:
    steps = ", ".join(f"{row['event']} {row['wall_s']:.1f}" for row in run["timeline"])
    cpu = run["timeline"][-1]["cpu_s"]
    parts = ", ".join(f"{role} {seconds:.1f}" for role, seconds in cpu.items())
    return f"{run['command']}: {steps} s; CPU {sum(cpu.values()):.1f} s ({parts}); stopped in {run['stop_s']:.1f} s"


def _medians(runs: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the medians of wall and CPU seconds until the first match, by command and version."""
    for command, version in dict.fromkeys((run["command"], run["version"]) for run in runs):
        last = [run["timeline"][-1] for run in runs if (run["command"], run["version"]) == (command, version)]
        yield {
            "command": command,
            "version": version,
            "first_match_s": statistics.median(row["wall_s"] for row in last),
            "first_match_cpu_s": statistics.median(sum(row["cpu_s"].values()) for row in last),
        }
