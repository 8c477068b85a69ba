"""Run an experiment: call its measurement with its parameters and store every row in one result file.

Every finished step is stored at once in `unfinished/` below the folder of results. A repeated command continues after
the last step, unless the parameters or the measured code changed. A run that stops at its time limit stores what it has
as a result too: `steps_done` of `steps`.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from tidings.errors import InputError, OutputError
from tidings_lab import provenance, results
from tidings_lab.datasets import Posts, load_posts
from tidings_lab.experiment import Experiment
from tidings_lab.results import Result

Row = dict[str, Any]
Parameters = Mapping[str, Any]
Progress = Callable[[str, int, int], None]  # current step, steps done, steps in total
Step = tuple[str, list[Row] | Callable[[], list[Row]]]  # a name, and its rows or how to measure them
UNFINISHED = "unfinished"


class Measurement(Protocol):
    """A module of `measurements/`: the number of steps, and the steps. A step that was measured is not called again."""

    def steps(self, parameters: Parameters) -> int: ...

    def measure(self, posts: Posts, parameters: Parameters, seed: int) -> Iterator[Step]: ...


@dataclass
class StepLog:
    """The finished steps of a run, one per line of a file; the first line says what they measured."""

    path: Path
    header: dict[str, Any]
    rows: dict[str, list[Row]] = field(default_factory=dict)
    seconds: float = 0.0
    max_load: float = 0.0
    discarded: str = ""  # why the steps of an earlier run were discarded

    @classmethod
    def open(cls, path: Path, header: dict[str, Any]) -> StepLog:
        """Continue a log with the same header, except for its `started`; otherwise begin a new one."""
        log = cls(path, header)
        lines = _read_lines(path)
        stored = next(lines, None)
        if stored is not None and {**stored, "started": header["started"]} == json.loads(json.dumps(header)):
            log.header = stored
            for line in lines:
                log._keep(line)
            return log
        if stored is not None:
            changed = [name for name in ("code", "parameters", "seed") if stored.get(name) != header[name]]
            log.discarded = f"{', '.join(changed) or 'the format'} changed"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(header) + "\n", "utf-8")
        except OSError as error:
            raise OutputError(f"{path}: cannot write the steps ({error.strerror or error}).") from error
        return log

    def add(self, step: str, rows: list[Row], seconds: float) -> None:
        line = {"step": step, "rows": rows, "seconds": round(seconds, 3), "load": round(os.getloadavg()[0], 2)}
        encoded = json.dumps(line, default=results.to_json_type)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(encoded + "\n")
        self._keep(json.loads(encoded))

    def _keep(self, line: dict[str, Any]) -> None:
        self.rows[line["step"]] = line["rows"]
        self.seconds += line["seconds"]
        self.max_load = max(self.max_load, line["load"])


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a log; a line that a killed run did not finish ends it."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return


def run_experiment(
    experiment: Experiment,
    size: str,
    folder: Path,
    report: Progress,
    changes: Parameters | None = None,
    deadline: float = float("inf"),
) -> tuple[Path, Result]:
    """Run an experiment in one of its sizes with some parameters changed. Returns the file and its content.

    No step begins after `deadline` (of `time.monotonic`), except for the first one.
    """
    parameters, seed, changed = _resolve(experiment, size, changes)
    measurement = _load_measurement(experiment)
    command = _command(experiment.name, size, changed)
    result = results.new_result("experiment", experiment.name, size, command, seed, parameters, list(changed))
    result["code"] = provenance.code_digests(measurement_module(experiment))
    log = StepLog.open(
        folder / UNFINISHED / f"{experiment.name}-{size}.jsonl",
        {"parameters": parameters, "seed": seed, "code": result["code"], "started": result["started"]},
    )
    result["started"] = log.header["started"]
    total = measurement.steps(parameters)
    report("reading posts", len(log.rows), total)
    posts = load_posts(parameters.get("posts"), seed)
    result["data"] = _describe_data(measurement, posts, parameters, seed)
    rows: list[Row] = []
    done: list[str] = []
    start = time.monotonic()
    for step, measured in measurement.measure(posts, parameters, seed):
        assert step not in done, f"two steps are called {step!r}"
        is_late = time.monotonic() >= deadline and bool(log.rows)
        if step not in log.rows:
            if is_late and callable(measured):
                start = time.monotonic()
                continue  # a later step may be stored
            found = measured() if callable(measured) else measured
            log.add(step, found, time.monotonic() - start)
        rows += log.rows[step]
        done.append(step)
        report(step, len(done), total)
        if is_late and not callable(measured):
            break
        start = time.monotonic()
    result |= {"rows": rows, "steps": total, "steps_done": len(done), "max_load": log.max_load}
    result["seconds"] = round(log.seconds, 1)
    path = results.save_result(result, folder)
    if len(done) == total:
        log.path.unlink(missing_ok=True)
    return path, result


def find_complete(experiment: Experiment, size: str, folder: Path, changes: Parameters) -> tuple[Path, Result] | None:
    """Return a complete result of the same parameters and the current code, if there is one."""
    parameters, seed, _ = _resolve(experiment, size, changes)
    wanted = json.loads(json.dumps(parameters))
    for path, result in reversed(results.load_results(folder)):
        is_same = (result["kind"], result["name"], result["size"]) == ("experiment", experiment.name, size)
        is_complete = result.get("steps") is not None and result.get("steps_done") == result["steps"]
        if is_same and is_complete and (result["parameters"], result["seed"]) == (wanted, seed):
            return None if changed_code(experiment, result) else (path, result)
    return None


def find_result(experiment: Experiment, folder: Path) -> tuple[Path, Result] | None:
    """Return the newest result of the largest size that measured the current code; if all are stale, a stale one."""
    found = [item for item in results.load_results(folder) if item[1]["name"] == experiment.name]
    found = [item for item in found if item[1]["kind"] == "experiment"]
    fresh = [item for item in found if not changed_code(experiment, item[1])]
    return results.newest_of_largest_size(fresh) or results.newest_of_largest_size(found)


def changed_code(experiment: Experiment, result: Mapping[str, Any]) -> list[str]:
    """Return the measured packages that changed since a result: it is stale if there are any."""
    return provenance.changed_packages(result.get("code"), measurement_module(experiment))


def measurement_module(experiment: Experiment) -> str:
    return f"tidings_lab.measurements.{experiment.measurement}"


def _resolve(experiment: Experiment, size: str, changes: Parameters | None) -> tuple[Row, int, Row]:
    """Return the parameters without the seed, the seed, and what was changed."""
    changed = {} if changes is None else dict(changes)
    parameters = {"seed": experiment.seed, **experiment.parameters_of(size)}
    if unknown := sorted(changed.keys() - parameters.keys() - {"posts"}):
        raise InputError(
            f"--set {unknown[0]}: {experiment.name} has no parameter {unknown[0]!r}. "
            f"Parameters: {', '.join(sorted(parameters))}."
        )
    parameters |= changed
    return parameters, parameters.pop("seed"), changed


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
    module: Any = import_module(measurement_module(experiment))
    measurement: Measurement = module
    return measurement
