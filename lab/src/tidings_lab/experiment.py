"""Experiments as files: what is measured with which parameters, what the paper claims of it, and what is drawn.

Every file of `experiments/` is one, in the order of their names. `docs/lab.md` says what can stand in them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tidings.errors import InputError

SIZES = ("full", "quick", "tiny")


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that should show in the results, who says so, and the rule that tells whether it does."""

    says: str
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
class Listing:
    """Some columns of some rows as a table."""

    title: str
    where: Mapping[str, Any]
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment as its file tells it."""

    name: str
    title: str
    about: str
    measurement: str
    seed: int
    parameters: Mapping[str, Mapping[str, Any]]  # by size; those of smaller sizes replace some of the full ones
    claims: Sequence[Claim]
    figures: Sequence[Figure]
    tables: Sequence[Listing] = ()

    def sized(self, size: str) -> dict[str, Any]:
        """The parameters of a size."""
        return {**self.parameters["full"], **self.parameters.get(size, {})}


@cache
def experiments() -> tuple[Experiment, ...]:
    """All there are."""
    folder = resources.files("tidings_lab") / "experiments"
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    files.sort(key=lambda file: int(file.name.partition("-")[0]))
    return tuple(_read(tomllib.loads(file.read_text("utf-8"))) for file in files)


def experiment(name: str) -> Experiment:
    """An experiment by its name."""
    for one in experiments():
        if one.name == name:
            return one
    known = ", ".join(one.name for one in experiments())
    raise InputError(f"There is no experiment called {name!r}; choose one of: {known}.")


def _read(body: dict[str, Any]) -> Experiment:
    claims = [dict(one) for one in body.get("claims", ())]
    return Experiment(
        name=body["name"],
        title=body["title"],
        about=" ".join(body["about"].split()),
        measurement=body["measurement"],
        seed=body["seed"],
        parameters={size: body[size] for size in SIZES if size in body},
        claims=[Claim(one.pop("says"), one.pop("source"), one.pop("rule"), one) for one in claims],
        figures=[Figure(**one) for one in body.get("figures", ())],
        tables=[Listing(**one) for one in body.get("tables", ())],
    )
