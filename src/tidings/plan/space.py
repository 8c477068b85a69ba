"""A spatial plan: which matcher is responsible for a position and a term. Immutable, stored in one file.

Space is divided into *areas*: sets of cells of a grid. An area belongs to one matcher, or to several that divide its
terms. The last area is for posts without a position; all matchers divide its terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.errors import InputError
from tidings.plan.file import read_plan_file, write_plan_file
from tidings.plan.grid_lines import GridLines
from tidings.plan.grid_overlap import cell_ranges, touched_names
from tidings.plan.load_model import WorkModel
from tidings.plan.words import check_matcher_count, hash_to_matchers

SPATIAL_PLAN_FORMAT = ("tidings-space-plan", 2)


@dataclass(frozen=True, slots=True)
class Area:
    """The matchers of an area. Several divide its terms: known terms have a matcher, others are hashed to `matchers`.

    A matcher that took over the terms of another one is listed more than once; one that took over only some terms is
    not listed. `former_id` is the number by which segments refer to an area that has got another number since.
    """

    matchers: tuple[int, ...]
    matcher_of_term: dict[bytes, int] = field(default_factory=dict)
    former_id: int | None = None

    @property
    def is_shared(self) -> bool:
        first = self.matchers[0]
        return len(set(self.matchers)) > 1 or any(matcher != first for matcher in self.matcher_of_term.values())

    @property
    def holders(self) -> set[int]:
        """The matchers that get posts of this area."""
        return {*self.matchers, *self.matcher_of_term.values()}


@dataclass(frozen=True, slots=True)
class SpatialPlan:
    """`area_of_cell[row * columns + column]`; the last of `areas` is for posts without a position.

    `tree` names the algorithm that was chosen if `algorithm` chooses among several.
    """

    algorithm: str
    matchers: int
    posts: int  # in the sample it was learned from
    lines: GridLines
    area_of_cell: NDArray[np.uint32]
    areas: tuple[Area, ...]
    model: WorkModel
    tree: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)  # of the tree, by their names in the paper

    @property
    def unlocated_area(self) -> int:
        """The area of posts without a position."""
        return len(self.areas) - 1

    @property
    def former_ids(self) -> NDArray[np.uint32]:
        """The number by which segments refer to each area."""
        numbers = (number if area.former_id is None else area.former_id for number, area in enumerate(self.areas))
        return np.fromiter(numbers, np.uint32, len(self.areas))

    def areas_of(
        self, boxes: NDArray[np.float64], which: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (area, which) of all areas that boxes touch, each pair once."""
        return touched_names(cell_ranges(self.lines, boxes), self.lines.columns, self.area_of_cell, which)

    def first_matchers(self, positions: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the first matcher of the area of each position; NaN counts as the north-eastern corner."""
        first = np.array([area.matchers[0] for area in self.areas], np.int64)
        cells = self.lines.row(positions[:, 1]) * self.lines.columns + self.lines.column(positions[:, 0])
        return np.asarray(first[self.area_of_cell[cells]])

    def matchers_of(self, terms: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
        """Return (row of each area, matcher of each term in each row). Column 0 is for "no term".

        Areas with the same single matcher share a row; an area without cells has an arbitrary row.
        """
        row_of = np.zeros(len(self.areas), np.int64)
        is_used = np.zeros(len(self.areas), bool)
        is_used[self.area_of_cell] = is_used[self.unlocated_area] = True
        rows: list[NDArray[np.uint16]] = []
        row_of_matcher: dict[int, int] = {}
        for number in np.flatnonzero(is_used).tolist():
            area = self.areas[number]
            if area.is_shared:
                row_of[number] = len(rows)
                rows.append(_matcher_row(area, terms))
            else:
                row_of[number] = row_of_matcher.setdefault(area.matchers[0], len(rows))
                if row_of[number] == len(rows):
                    rows.append(np.full(len(terms) + 1, area.matchers[0], np.uint16))
        return row_of, np.array(rows, np.uint16)


def _matcher_row(area: Area, terms: Sequence[bytes]) -> NDArray[np.uint16]:
    """Return the matcher of each term, as learned or by its hash; for "no term" the first matcher."""
    matchers = np.array(area.matchers, np.uint16)
    row = matchers[hash_to_matchers(terms, len(matchers))] if len(terms) else matchers[:0]
    if area.matcher_of_term:
        learned = np.fromiter((area.matcher_of_term.get(term, -1) for term in terms), np.int64, len(terms))
        row = np.where(learned >= 0, learned, row).astype(np.uint16)
    return np.concatenate([matchers[:1], row])


def write_spatial_plan(plan: SpatialPlan, path: Path) -> None:
    """Write one Parquet file with a row per area and term; the grid and the areas are in its metadata."""
    cells = plan.area_of_cell.astype(np.int64)
    firsts = np.flatnonzero(np.diff(cells, prepend=-1))
    metadata = {
        "algorithm": plan.algorithm,
        "workers": plan.matchers,
        "posts": plan.posts,
        "lons": plan.lines.lons.tolist(),
        "lats": plan.lines.lats.tolist(),
        "cells": [cells[firsts].tolist(), np.diff(np.append(firsts, len(cells))).tolist()],
        "areas": [list(area.matchers) for area in plan.areas],
        "known_as": {str(n): area.former_id for n, area in enumerate(plan.areas) if area.former_id is not None},
        "load": plan.model.to_dict(),
        "tree": plan.tree,
        "parameters": dict(plan.parameters),
    }
    rows = [
        (number, term, matcher)
        for number, area in enumerate(plan.areas)
        for term, matcher in area.matcher_of_term.items()
    ]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.uint32(), pa.binary(), pa.uint16())
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    write_plan_file(pa.table(arrays, ["area", "word", "worker"]), metadata, SPATIAL_PLAN_FORMAT, path)


def read_spatial_plan(path: Path) -> SpatialPlan:
    """Return a plan; InputError names a file that is not a spatial plan."""
    table, metadata = read_plan_file(path, SPATIAL_PLAN_FORMAT)
    terms: dict[int, dict[bytes, int]] = {}
    for area, term, matcher in zip(*(table.column(name).to_pylist() for name in table.column_names), strict=True):
        terms.setdefault(area, {})[term] = matcher
    former = {int(number): former_id for number, former_id in metadata.get("known_as", {}).items()}
    areas = tuple(
        Area(tuple(matchers), terms.get(number, {}), former.get(number))
        for number, matchers in enumerate(metadata["areas"])
    )
    lines = GridLines(np.array(metadata["lons"], np.float64), np.array(metadata["lats"], np.float64))
    cells = np.repeat(np.array(metadata["cells"][0], np.uint32), metadata["cells"][1])
    matchers, model = check_matcher_count(metadata["workers"]), WorkModel.from_dict(metadata["load"])
    if len(cells) != lines.columns * lines.rows or (len(cells) and int(cells.max()) >= len(areas) - 1):
        raise InputError(f"{path}: the cells do not fit the grid. Create it again with `tidings plan learn`.")
    names, learned = (metadata["algorithm"], metadata["tree"]), metadata["parameters"]
    return SpatialPlan(names[0], matchers, metadata["posts"], lines, cells, areas, model, names[1], learned)
