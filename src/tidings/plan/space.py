"""A space plan: which worker is responsible for a place and a word. Immutable, one file, told by its content.

Space is cut into *areas*: sets of cells of a grid. An area belongs to one worker, or to several that share its words
out. The last area is no place at all: posts without a position, whose words all workers share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.plan import file
from tidings.plan.grid_lines import Lines
from tidings.plan.grid_overlap import named, rectangles
from tidings.plan.load_model import LoadModel
from tidings.plan.words import checked_matchers, hashed

KIND = ("tidings-space-plan", 1)


@dataclass(frozen=True, slots=True)
class Area:
    """The workers of an area. Several share its words: each known word has its own, others go to one by their hash.

    A worker that took over the words of another is there more than once. Segments that were not made anew when an area
    was cut off another know it by the number of that other one: `known_as`.
    """

    workers: tuple[int, ...]
    words: dict[bytes, int] = field(default_factory=dict)
    known_as: int | None = None

    @property
    def is_shared(self) -> bool:
        return len(set(self.workers)) > 1


@dataclass(frozen=True, slots=True)
class SpacePlan:
    """`area_of_cell[row * columns + column]`; `areas` has one more, the last, for what has no place."""

    algorithm: str
    workers: int
    posts: int  # how many it was learned from
    lines: Lines
    area_of_cell: NDArray[np.uint32]
    areas: tuple[Area, ...]
    model: LoadModel

    @property
    def nowhere(self) -> int:
        """The area of posts without a position."""
        return len(self.areas) - 1

    @property
    def names(self) -> NDArray[np.uint32]:
        """By which number segments know each area."""
        known = (number if area.known_as is None else area.known_as for number, area in enumerate(self.areas))
        return np.fromiter(known, np.uint32, len(self.areas))

    def areas_of(
        self, boxes: NDArray[np.float64], which: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(area, which) of all areas that boxes touch, each pair once."""
        return named(rectangles(self.lines, boxes), self.lines.columns, self.area_of_cell, which)

    def first_workers(self, positions: NDArray[np.float64]) -> NDArray[np.int64]:
        """The first worker of the area of each position; what has none counts as far in the north-east."""
        first = np.array([area.workers[0] for area in self.areas], np.int64)
        cells = self.lines.row(positions[:, 1]) * self.lines.columns + self.lines.column(positions[:, 0])
        return np.asarray(first[self.area_of_cell[cells]])

    def workers_of(self, terms: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
        """(the row of each area, the worker of each term in each row). Term 0, no word, is put before the others.

        Areas of one worker share a row with all other areas of that worker; one that has lost its cells has any.
        """
        row_of = np.zeros(len(self.areas), np.int64)
        is_used = np.zeros(len(self.areas), bool)
        is_used[self.area_of_cell] = is_used[self.nowhere] = True
        rows: list[NDArray[np.uint16]] = []
        alone: dict[int, int] = {}
        for number in np.flatnonzero(is_used).tolist():
            area = self.areas[number]
            if area.is_shared:
                row_of[number] = len(rows)
                rows.append(_row(area, terms))
            else:
                row_of[number] = alone.setdefault(area.workers[0], len(rows))
                if row_of[number] == len(rows):
                    rows.append(np.full(len(terms) + 1, area.workers[0], np.uint16))
        return row_of, np.array(rows, np.uint16)


def _row(area: Area, terms: Sequence[bytes]) -> NDArray[np.uint16]:
    """The worker of each term: the one the plan learned, or one of the area's by its hash; no word: the first."""
    own = np.array(area.workers, np.uint16)
    found = own[hashed(terms, len(own))] if len(terms) else own[:0]
    if area.words:
        known = np.fromiter((area.words.get(term, -1) for term in terms), np.int64, len(terms))
        found = np.where(known >= 0, known, found).astype(np.uint16)
    return np.concatenate([own[:1], found])


def save_space_plan(plan: SpacePlan, path: Path) -> None:
    """Write a plan as one Parquet file: a row a word and area; the grid and the areas are in its metadata."""
    cells = plan.area_of_cell.astype(np.int64)
    firsts = np.flatnonzero(np.diff(cells, prepend=-1))
    about = {
        "algorithm": plan.algorithm,
        "workers": plan.workers,
        "posts": plan.posts,
        "lons": plan.lines.lons.tolist(),
        "lats": plan.lines.lats.tolist(),
        "cells": [cells[firsts].tolist(), np.diff(np.append(firsts, len(cells))).tolist()],
        "areas": [list(area.workers) for area in plan.areas],
        "known_as": {str(n): area.known_as for n, area in enumerate(plan.areas) if area.known_as is not None},
        "load": plan.model.to_dict(),
    }
    rows = [(number, word, worker) for number, area in enumerate(plan.areas) for word, worker in area.words.items()]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = (pa.uint32(), pa.binary(), pa.uint16())
    table = pa.table([pa.array(c, kind) for c, kind in zip(columns, kinds, strict=True)], ["area", "word", "worker"])
    file.save(table, about, KIND, path)


def load_space_plan(path: Path) -> SpacePlan:
    """Read a plan; InputError, naming the file, when it is none."""
    table, about = file.load(path, KIND)
    words: dict[int, dict[bytes, int]] = {}
    for area, word, worker in zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True):
        words.setdefault(area, {})[word] = worker
    known = {int(number): name for number, name in about.get("known_as", {}).items()}
    areas = tuple(
        Area(tuple(own), words.get(number, {}), known.get(number)) for number, own in enumerate(about["areas"])
    )
    lines = Lines(np.array(about["lons"], np.float64), np.array(about["lats"], np.float64))
    cells = np.repeat(np.array(about["cells"][0], np.uint32), about["cells"][1])
    workers, model = checked_matchers(about["workers"]), LoadModel.from_dict(about["load"])
    if len(cells) != lines.columns * lines.rows or (len(cells) and int(cells.max()) >= len(areas) - 1):
        raise InputError(f"{path}: its cells do not fit its grid; make it again.")
    return SpacePlan(about["algorithm"], workers, about["posts"], lines, cells, areas, model)
