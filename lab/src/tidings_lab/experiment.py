"""Experiments as files: what is measured with which parameters, what the paper claims, and what is drawn.

Every file in `experiments/` is an experiment, in the order of the numbers in their names. `docs/lab.md` describes the
format.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tidings.errors import InputError
from tidings_lab.results import SIZES


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement about the results, its source, and the rule that checks it."""

    text: str
    source: str
    rule: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels side by side; each panel is a chart of some rows."""

    name: str
    title: str
    paper: str
    panels: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RowTable:
    """Selected columns of selected rows as a table."""

    title: str
    where: Mapping[str, Any]
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    title: str
    about: str
    measurement: str
    seed: int
    parameters: Mapping[str, Mapping[str, Any]]  # by size; smaller sizes replace some of the full parameters
    claims: Sequence[Claim]
    figures: Sequence[Figure]
    tables: Sequence[RowTable] = ()

    def parameters_of(self, size: str) -> dict[str, Any]:
        return {**self.parameters["full"], **self.parameters.get(size, {})}


@cache
def load_experiments() -> tuple[Experiment, ...]:
    """Return all experiments in order."""
    folder = resources.files("tidings_lab") / "experiments"
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    files.sort(key=lambda file: int(file.name.partition("-")[0]))
    return tuple(_parse(tomllib.loads(file.read_text("utf-8"))) for file in files)


def find_experiment(name: str) -> Experiment:
    """Return an experiment by name. Raises InputError if there is none."""
    for experiment in load_experiments():
        if experiment.name == name:
            return experiment
    known = ", ".join(experiment.name for experiment in load_experiments())
    raise InputError(f"{name!r} is not an experiment. Choose one of: {known}.")


def _parse(body: dict[str, Any]) -> Experiment:
    claims = [dict(claim) for claim in body.get("claims", ())]
    return Experiment(
        name=body["name"],
        title=body["title"],
        about=" ".join(body["about"].split()),
        measurement=body["measurement"],
        seed=body["seed"],
        parameters={size: body[size] for size in SIZES if size in body},
        claims=[Claim(claim.pop("text"), claim.pop("source"), claim.pop("rule"), claim) for claim in claims],
        figures=[Figure(**figure) for figure in body.get("figures", ())],
        tables=[RowTable(**table) for table in body.get("tables", ())],
    )
