"""Running an experiment: its measurement with its parameters, every row kept as it comes, written as one JSON file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tidings.atomic_io import write_whole
from tidings.errors import InputError, OutputError
from tidings_lab import results
from tidings_lab.datasets import Posts, load_posts
from tidings_lab.experiment import Experiment
from tidings_lab.results import Record

FORMAT, FORMAT_VERSION = "tidings-lab", 1
RESULTS = Path("lab/results")
Row = dict[str, Any]
Parameters = Mapping[str, Any]
Tell = Callable[[str, int, int], None]  # what is done now, how many steps are done, of how many


class Measurement(Protocol):
    """A module of `measurements/`: how many steps there are, and the rows, some for every step."""

    def steps(self, parameters: Parameters) -> int: ...

    def measure(self, posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]: ...


def conduct(
    one: Experiment, size: str, folder: Path, tell: Tell, changes: Parameters | None = None
) -> tuple[Path, Record]:
    """Run an experiment in one of its sizes, with some parameters changed; the file of its raw results, and those."""
    changed = {} if changes is None else dict(changes)
    parameters = {"seed": one.seed, **one.sized(size)}
    if unknown := sorted(changed.keys() - parameters.keys() - {"posts"}):
        raise InputError(f"{one.name} has no parameter {unknown[0]!r}; it has: {', '.join(sorted(parameters))}.")
    parameters |= changed
    seed = parameters.pop("seed")
    measurement = _measurement(one)
    made = {**_record(one, size, parameters, seed), "changed": sorted(changed)}
    total, start = measurement.steps(parameters), time.monotonic()
    tell("reading posts", 0, total)
    posts = load_posts(parameters.get("posts"), seed)
    made["data"] = _data(measurement, posts, parameters, seed)
    for done, (told, rows) in enumerate(measurement.measure(posts, parameters, seed), 1):
        made["rows"] += rows
        tell(told, done, total)
    made["seconds"] = round(time.monotonic() - start, 1)
    return _save(made, folder), made


def _data(measurement: Measurement, posts: Posts, parameters: Parameters, seed: int) -> dict[str, object]:
    """What was measured with: posts, unless the measurement tells of something else."""
    told: Callable[[Parameters, int], dict[str, object]] | None = getattr(measurement, "data", None)
    return posts.described() if told is None else told(parameters, seed)


def _measurement(one: Experiment) -> Measurement:
    try:
        module: Any = import_module(f"tidings_lab.measurements.{one.measurement}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tidings"):
            raise
        raise InputError(f"{one.name} needs {error.name}; install it with: pip install 'tidings[bench]'") from error
    measurement: Measurement = module
    return measurement


def _record(one: Experiment, size: str, parameters: Parameters, seed: int) -> Record:
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "experiment": one.name,
        "size": size,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        **results.commit(),
        "versions": results.versions(("pymetis", "tomotopy")),
        "host": results.host(),
        "parameters": dict(parameters),
        "rows": [],
    }


def _save(made: Record, folder: Path) -> Path:
    """A row a line, so that results can be looked at and compared."""
    stamp = made["started"].replace("+00:00", "Z").replace(":", "").replace("-", "")
    path = folder / f"{made['experiment']}-{made['size']}-{stamp}.json"
    rows = made["rows"]
    head = json.dumps({**made, "rows": None}, indent=1, default=plain)
    body = ",\n  ".join(json.dumps(row, default=plain) for row in rows)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, head.replace('"rows": null', f'"rows": [\n  {body}\n ]') + "\n")
    except OSError as error:
        raise OutputError(f"{path}: it could not be written ({error.strerror or error}).") from error
    return path


def plain(value: object) -> object:
    """What numpy makes, as JSON knows it."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is nothing to keep")


def all_results(folder: Path, name: str) -> list[tuple[Path, Record]]:
    """All results of an experiment, the oldest first; files that are none are passed over."""
    found = []
    for path in folder.glob(f"{name}-*.json"):
        try:
            made = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(made, dict) and made.get("format") == FORMAT and made.get("experiment") == name:
            found.append((path, made))
    return sorted(found, key=lambda one: (one[1]["started"], one[0].name))


def newest(folder: Path, name: str) -> tuple[Path, Record] | None:
    """The newest results of an experiment, of the largest size there is."""
    found = all_results(folder, name)
    for size in ("full", "quick", "tiny"):
        if of_size := [one for one in found if one[1]["size"] == size]:
            return of_size[-1]
    return None
