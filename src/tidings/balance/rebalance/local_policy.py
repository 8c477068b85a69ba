"""Local adjustment (PS²Stream, V-A): measured loads in, intents out. Nothing here moves anything.

When the most loaded worker has more than σ times the load of the least loaded, phase one looks at its heaviest cells:
sharing the words of one out over both workers, or joining what both have of one, where that lowers the sum of loads.
If that is not enough, phase two gives cells away that carry half the difference, for as few bytes as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidings.balance.rebalance.cell_selection import selector
from tidings.balance.work_model import WorkModel
from tidings.plan.load_model import LoadModel


@dataclass(frozen=True, slots=True)
class TextHalf:
    """One half of a cell whose words are shared out: what it would be sent, hold and weigh."""

    posts: float
    subscriptions: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CellLoad:
    """What a worker measured of one of its cells in a period: definition 3 says its load is posts × subscriptions.

    Where it is known what the posts find, `work` is the time that takes, and is the load.
    `is_text`: whether the words of the cell are shared out over several workers; `joined_posts`: how many posts would
    be sent for what the least loaded worker and this one have of it. `halves` are given for cells that may be split.
    """

    cell: int
    posts: float
    subscriptions: float
    size_bytes: int
    is_text: bool = False
    halves: tuple[TextHalf, TextHalf] | None = None
    joined_posts: float | None = None
    work: float | None = None

    @property
    def product(self) -> float:
        return self.posts * self.subscriptions

    @property
    def load(self) -> float:
        return self.product if self.work is None else self.work


@dataclass(frozen=True, slots=True)
class SplitByText:
    """Share the words of a cell out; the half with this number (0 or 1) goes to the other worker."""

    cell: int
    half: int
    giver: int
    taker: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Join:
    """Give the giver's words of a cell to the taker, which has others of it."""

    cell: int
    giver: int
    taker: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Move:
    """Give a cell away as it is."""

    cell: int
    giver: int
    taker: int
    size_bytes: int


Intent = SplitByText | Join | Move


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """σ, from which ratio of loads on something is done; p, how many cells phase one looks at; how cells are chosen.

    `least_gain`: by how much of the average the busiest must be above it. Evening out can bring no more than that, and
    costs some: what lies on the border of more cells is held more often (a tenth more work in the lab's switching).
    `model` says whether a split or a join lowers the whole load (definition 1), `work` what cells take.
    """

    sigma: float = 1.2
    least_gain: float = 0.15
    cells: int = 8
    choose: str = "gr+"
    seed: int = 0
    model: LoadModel = field(default_factory=LoadModel)
    work: WorkModel = field(default_factory=WorkModel)


def decide(workers: Sequence[Sequence[CellLoad]], settings: LocalSettings) -> list[Intent]:
    """What to do about measured loads: for each worker its cells. Nothing when they are balanced."""
    loads = [sum(cell.load for cell in cells) for cells in workers]
    giver, taker = int(np.argmax(loads)), int(np.argmin(loads))
    if not is_worth_it(loads, settings):
        return []
    intents, given, gained = _reducing(workers[giver], workers[taker], giver, taker, settings)
    high, low = loads[giver] - given, loads[taker] + gained
    if is_balanced(high, low, settings.sigma):
        return intents
    touched = {intent.cell for intent in intents}
    left = [cell for cell in workers[giver] if cell.cell not in touched and cell.load > 0]
    return [*intents, *_moves(left, (high - low) / 2, giver, taker, settings)]


def is_worth_it(loads: Sequence[float], settings: LocalSettings) -> bool:
    """Whether the busiest worker is far from the idlest, and far enough above the average."""
    high, low, mean = max(loads), min(loads), sum(loads) / len(loads)
    return not is_balanced(high, low, settings.sigma) and high > (1 + settings.least_gain) * mean


def is_balanced(high: float, low: float, sigma: float) -> bool:
    return high <= sigma * low or high <= 0


def _reducing(
    own: Sequence[CellLoad], others: Sequence[CellLoad], giver: int, taker: int, settings: LocalSettings
) -> tuple[list[Intent], float, float]:
    """Phase one: (what lowers the sum of loads, by how much the giver's load falls, by how much the taker's rises).

    No step goes beyond an even balance.
    """
    room = (sum(cell.load for cell in own) - sum(cell.load for cell in others)) / 2
    known = {cell.cell: cell for cell in others}
    intents: list[Intent] = []
    given = gained = 0.0
    for cell in sorted(own, key=lambda cell: (-cell.load, cell.cell))[: settings.cells]:
        if cell.is_text:
            found = _join(cell, known.get(cell.cell), giver, taker, settings.model)
        else:
            found = _split(cell, giver, taker, settings.model)
        if found is not None and gained + found[2] <= room:
            intent, fall, rise = found
            intents.append(intent)
            given, gained = given + fall, gained + rise
    return intents, given, gained


def _split(cell: CellLoad, giver: int, taker: int, model: LoadModel) -> tuple[Intent, float, float] | None:
    """The smaller half goes, if both halves together have less load than the whole."""
    if cell.halves is None:
        return None
    apart = sum(model.load(half.posts, half.subscriptions) for half in cell.halves)
    if apart >= model.load(cell.posts, cell.subscriptions):
        return None
    rate = cell.load / cell.product
    loads = [half.posts * half.subscriptions * rate for half in cell.halves]
    half = 0 if cell.halves[0].size_bytes <= cell.halves[1].size_bytes else 1
    intent = SplitByText(cell.cell, half, giver, taker, cell.halves[half].size_bytes)
    return intent, cell.load - loads[1 - half], loads[half]


def _join(
    cell: CellLoad, other: CellLoad | None, giver: int, taker: int, model: LoadModel
) -> tuple[Intent, float, float] | None:
    """Posts that went to both are handled once; but all are held against what both have."""
    if other is None or not other.is_text or cell.joined_posts is None:
        return None
    held = cell.subscriptions + other.subscriptions
    apart = model.load(cell.posts, cell.subscriptions) + model.load(other.posts, other.subscriptions)
    if model.load(cell.joined_posts, held) >= apart:
        return None
    rate = (cell.load + other.load) / (cell.product + other.product)
    rise = max(0.0, cell.joined_posts * held * rate - other.load)
    return Join(cell.cell, giver, taker, cell.size_bytes), cell.load, rise


def _moves(cells: Sequence[CellLoad], wanted: float, giver: int, taker: int, settings: LocalSettings) -> list[Intent]:
    """Phase two. A cell that carries more than the whole difference would only change sides, so it stays."""
    movable = [cell for cell in cells if cell.load < 2 * wanted]
    if not movable or wanted <= 0:
        return []
    loads = np.array([cell.load for cell in movable], np.float64)
    sizes = np.array([max(1, cell.size_bytes) for cell in movable], np.int64)
    wanted = min(wanted, float(loads.sum()))
    chosen = selector(settings.choose)(loads, sizes, wanted, settings.seed)
    return [Move(movable[n].cell, giver, taker, movable[n].size_bytes) for n in chosen.tolist()]
