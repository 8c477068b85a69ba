"""Raw results: one JSON file a run, with all one needs to judge or repeat it; tables and figures are made from them."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from tidings.atomic_io import write_whole
from tidings.spark.java import find_java_home
from tidings_lab.datasets import REPOSITORY

FORMAT, FORMAT_VERSION = "tidings-bench", 1
_PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "polars", "duckdb", "pandas", "PyStemmer")

Record = dict[str, Any]


def new_record(command: str, seed: int, quick: bool) -> Record:
    """A record of a run that starts now; parts are added to ``record["parts"]`` as they are done."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
        "quick": quick,
        "seed": seed,
        **commit(),
        "versions": versions(),
        "host": host(),
        "parts": {},
        "bars": [],
    }


def save(record: Record, folder: Path) -> Path:
    """Write (or write again, with more parts) the file of a run; its name tells time and commit."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp = record["started"].replace("+00:00", "Z").replace(":", "").replace("-", "")
    state = "-dirty" if record["dirty"] else ""
    path = folder / f"{stamp}-{record['commit'][:10]}{state}{'-quick' if record['quick'] else ''}.json"
    write_whole(path, json.dumps(record, indent=1) + "\n")
    return path


def load_all(folder: Path) -> list[tuple[Path, Record]]:
    """All records of a folder, the oldest first; files that are no records are passed over."""
    found = []
    for path in folder.glob("*.json"):
        try:
            record = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict) and record.get("format") == FORMAT:
            found.append((path, record))
    return sorted(found, key=lambda one: (one[1]["started"], one[0].name))


def newest(folder: Path, part: str) -> tuple[Path, Record] | None:
    """The newest record that holds this part; a quick one only when there is no other."""
    holding = [one for one in load_all(folder) if part in one[1]["parts"]]
    full = [one for one in holding if not one[1]["quick"]]
    return (full or holding)[-1] if holding else None


def commit() -> dict[str, Any]:
    """The commit that is checked out, and whether files differ from it."""
    found = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "pyproject.toml", "constraints.txt")
    return {"commit": found or "unknown", "dirty": bool(changed)}


def versions(more: Sequence[str] = ()) -> dict[str, str]:
    """Of Python, Java and the packages that figures depend on, and of some more."""
    packages = dict(_package_versions((*_PACKAGES, *more)))
    return {"python": platform.python_version(), **packages, "java": _java_version()}


def host() -> dict[str, Any]:
    """The machine, without its name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "system": f"{platform.system()} {platform.release()}",
        "load_average": os.getloadavg(),
    }


def _package_versions(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        try:
            yield name.lower(), metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name.lower(), "not installed"


def _java_version() -> str:
    home = find_java_home()
    if home is None:
        return "not installed"
    told = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=False).stderr
    return told.splitlines()[0].strip() if told else "unknown"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
