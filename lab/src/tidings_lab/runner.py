"""Run an experiment: call its measurement with its parameters and store every row in one result file."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from tidings.errors import InputError
from tidings_lab import results
from tidings_lab.datasets import Posts, load_posts
from tidings_lab.experiment import Experiment
from tidings_lab.results import Result

Row = dict[str, Any]
Parameters = Mapping[str, Any]
Progress = Callable[[str, int, int], None]  # current step, steps done, steps in total


class Measurement(Protocol):
    """A module of `measurements/`: the number of steps, and the rows of every step."""

    def steps(self, parameters: Parameters) -> int: ...

    def measure(self, posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]: ...


def run_experiment(
    experiment: Experiment, size: str, folder: Path, report: Progress, changes: Parameters | None = None
) -> tuple[Path, Result]:
    """Run an experiment in one of its sizes with some parameters changed. Returns the file and its content."""
    changed = {} if changes is None else dict(changes)
    parameters = {"seed": experiment.seed, **experiment.parameters_of(size)}
    if unknown := sorted(changed.keys() - parameters.keys() - {"posts"}):
        raise InputError(
            f"--set {unknown[0]}: {experiment.name} has no parameter {unknown[0]!r}. "
            f"Parameters: {', '.join(sorted(parameters))}."
        )
    parameters |= changed
    seed = parameters.pop("seed")
    measurement = _load_measurement(experiment)
    command = _command(experiment.name, size, changed)
    result = results.new_result("experiment", experiment.name, size, command, seed, parameters, list(changed))
    total, start = measurement.steps(parameters), time.monotonic()
    report("reading posts", 0, total)
    posts = load_posts(parameters.get("posts"), seed)
    result["data"] = _describe_data(measurement, posts, parameters, seed)
    result["rows"] = []
    for done, (step, rows) in enumerate(measurement.measure(posts, parameters, seed), 1):
        result["rows"] += rows
        report(step, done, total)
    result["seconds"] = round(time.monotonic() - start, 1)
    return results.save_result(result, folder), result


def _command(name: str, size: str, changes: Parameters) -> str:
    """The command line that runs this experiment again."""
    options = [] if size == "full" else [f"--{size}"]
    for parameter, value in changes.items():
        options += ["--set", f"{parameter}={json.dumps(value)}"]
    return shlex.join(["tidings-lab", "run", name, *options])


def _describe_data(measurement: Measurement, posts: Posts, parameters: Parameters, seed: int) -> dict[str, object]:
    """A measurement with data of its own describes it in `data()`; the others use the posts."""
    describe: Callable[[Parameters, int], dict[str, object]] | None = getattr(measurement, "data", None)
    return posts.to_dict() if describe is None else describe(parameters, seed)


def _load_measurement(experiment: Experiment) -> Measurement:
    module: Any = import_module(f"tidings_lab.measurements.{experiment.measurement}")
    measurement: Measurement = module
    return measurement
