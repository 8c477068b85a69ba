"""Results: one JSON file per run of an experiment or a benchmark. Tables, figures and reports are generated from them.

Every file has these fields:

    format, format_version   "tidings-lab-result" and its version
    kind, name, size         "experiment" or "benchmark"; its name; "full", "medium", "quick" or "tiny"
    command                  the command line that made it
    seed                     of all random numbers
    commit, dirty            the commit that was checked out, and whether the code differed from it
    code                     digests of the measured code by package (`provenance`); missing in older files
    versions, host           of Python, Java and packages; CPU model, cores, memory and load, without the host name
    started, seconds         start (UTC) and duration of the run
    parameters, changed      all parameters, and the names of those that differ from the default
    data                     number of posts, their source, and a note if numbers cannot be compared
    rows                     of an experiment: a list of flat rows
    steps, steps_done        of an experiment: a run with a time limit may have done only some of its steps
    max_load                 of an experiment: the highest load average of the machine at the end of a step
    measured                 of a benchmark: an object whose shape is its own
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tidings.atomic_io import write_atomically
from tidings.errors import InputError, OutputError
from tidings.spark.java import find_java_home
from tidings_lab import REPOSITORY

FORMAT, FORMAT_VERSION = "tidings-lab-result", 2
RESULTS = Path("lab/results")
SIZES = ("full", "medium", "quick", "tiny")
PAYLOADS = {"experiment": "rows", "benchmark": "measured"}
FIELDS = (
    *("format", "format_version", "kind", "name", "size", "command", "seed", "commit", "dirty", "versions", "host"),
    *("started", "seconds", "parameters", "changed", "data"),
)
_PACKAGES = (
    *("pyspark", "pyarrow", "numpy", "numba", "polars", "duckdb", "pandas", "PyStemmer"),
    *("pymetis", "tomotopy", "fastapi", "uvicorn", "aiohttp"),
)
_LINE_CHARACTERS = 110

Result = dict[str, Any]


def new_result(
    kind: str, name: str, size: str, command: str, seed: int, parameters: Mapping[str, Any], changed: Sequence[str] = ()
) -> Result:
    """Return a result without its payload. The caller sets `seconds`, `data` and `rows` or `measured`."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "name": name,
        "size": size,
        "command": command,
        "seed": seed,
        **describe_commit(),
        "versions": package_versions(),
        "host": describe_host(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": 0.0,
        "parameters": dict(parameters),
        "changed": sorted(changed),
        "data": {},
    }


def save_result(result: Result, folder: Path) -> Path:
    """Write a result into a folder and return the path, `<kind>-<name>-<size>-<time>.json`."""
    check_result(result, "result")
    time = result["started"].replace("+00:00", "Z").replace(":", "").replace("-", "")
    path = folder / f"{result['kind']}-{result['name']}-{result['size']}-{time}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, format_json(result) + "\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot write the result ({error.strerror or error}).") from error
    return path


def load_results(folder: Path) -> list[tuple[Path, Result]]:
    """Return all results of a folder, the oldest first. Other JSON files are ignored.

    Raises InputError for a result of another format version or with missing fields.
    """
    found = []
    for path in folder.glob("*.json"):
        try:
            result = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(result, dict) and result.get("format") == FORMAT:
            check_result(result, str(path))
            found.append((path, result))
    return sorted(found, key=lambda item: (item[1]["started"], item[0].name))


def find_newest(folder: Path, kind: str, name: str) -> tuple[Path, Result] | None:
    """Return the newest result of the largest size there is, or None."""
    return newest_of_largest_size(
        [item for item in load_results(folder) if (item[1]["kind"], item[1]["name"]) == (kind, name)]
    )


def newest_of_largest_size(candidates: Sequence[tuple[Path, Result]]) -> tuple[Path, Result] | None:
    """Return the last result of the largest size among results from the oldest to the newest."""
    for size in SIZES:
        if of_size := [item for item in candidates if item[1]["size"] == size]:
            return of_size[-1]
    return None


def check_result(result: Mapping[str, Any], subject: str) -> None:
    """Raise InputError if a result does not have the current format."""
    if result.get("format_version") != FORMAT_VERSION:
        version = result.get("format_version")
        raise InputError(f"{subject}: format version {version} is not supported, only {FORMAT_VERSION}. Run it again.")
    if result.get("kind") not in PAYLOADS or result.get("size") not in SIZES:
        raise InputError(
            f"{subject}: kind {result.get('kind')!r} or size {result.get('size')!r} is unknown. "
            f"Kinds: {', '.join(PAYLOADS)}; sizes: {', '.join(SIZES)}."
        )
    required = (*FIELDS, PAYLOADS[result["kind"]])
    if missing := [name for name in required if name not in result]:
        raise InputError(f"{subject}: the field {missing[0]!r} is missing.")


def format_json(value: object, indent: int = 0) -> str:
    """Return JSON with one row per line, so that results can be read and compared."""
    compact = json.dumps(value, default=to_json_type)
    is_flat = not isinstance(value, dict) and not (isinstance(value, list) and any(map(_is_container, value)))
    if is_flat or (indent and len(compact) <= _LINE_CHARACTERS):
        return compact
    pad, end = " " * (indent + 1), " " * indent
    if isinstance(value, dict):
        fields = [f"{pad}{json.dumps(str(key))}: {format_json(item, indent + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{end}}}"
    assert isinstance(value, list)
    rows = [pad + json.dumps(item, default=to_json_type) for item in value]
    return "[\n" + ",\n".join(rows) + f"\n{end}]"


def _is_container(value: object) -> bool:
    return isinstance(value, dict | list)


def to_json_type(value: object) -> object:
    """Convert numpy scalars for `json.dumps`."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be stored as JSON")


def describe_commit() -> dict[str, Any]:
    """Return the commit that is checked out, and whether the code differs from it."""
    commit = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--", "src", "lab/src", "pyproject.toml", "constraints.txt")
    return {"commit": commit or "unknown", "dirty": bool(changed)}


def package_versions() -> dict[str, str]:
    """Return the versions of Python, Java and the packages that results depend on."""
    return {"python": platform.python_version(), **dict(_installed_versions(_PACKAGES)), "java": _java_version()}


def describe_host() -> dict[str, Any]:
    """Return CPU model, cores, memory, system and load of the machine, without its name."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "load_average": os.getloadavg(),
    }


def _installed_versions(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        try:
            yield name.lower(), metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name.lower(), "not installed"


def _java_version() -> str:
    home = find_java_home()
    if home is None:
        return "not installed"
    printed = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=False).stderr
    return printed.splitlines()[0].strip() if printed else "unknown"


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
