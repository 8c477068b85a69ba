"""The local rebalancing step (PS²Stream, V-A): measured loads come in, intents go out. Nothing is moved here.

It acts if the most loaded matcher has more than σ times the load of the least loaded. Phase one examines its heaviest
cells: it splits the terms of a cell between both matchers, or joins what both have of a cell, where that lowers the
sum of the loads. If that is not enough, phase two moves cells with half the difference, for as few bytes as possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tidings.balance.rebalance.cell_selection import get_selector
from tidings.balance.work_model import WorkModel
from tidings.plan.load_model import LoadModel


@dataclass(frozen=True, slots=True)
class TextHalf:
    """One half of a cell whose terms are split: what it would receive and hold."""

    posts: float
    subscriptions: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CellLoad:
    """The measured load of a cell of one matcher in a period: posts × subscriptions (definition 3), or `work`."""

    cell: int
    posts: float
    subscriptions: float
    size_bytes: int
    is_text: bool = False  # whether several matchers share its terms
    halves: tuple[TextHalf, TextHalf] | None = None  # of a cell that may be split
    joined_posts: float | None = None  # posts if this matcher and the least loaded one joined their parts of it
    work: float | None = None  # its time, if what the posts match is known

    @property
    def product(self) -> float:
        return self.posts * self.subscriptions

    @property
    def load(self) -> float:
        return self.product if self.work is None else self.work


@dataclass(frozen=True, slots=True)
class SplitByText:
    """Split the terms of a cell. Half 0 or 1 goes to the target."""

    cell: int
    half: int
    source: int
    target: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Join:
    """Give the source's terms of a cell to the target, which already has other terms of it."""

    cell: int
    source: int
    target: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Move:
    """Give a cell to the target as it is."""

    cell: int
    source: int
    target: int
    size_bytes: int


Intent = SplitByText | Join | Move


class _Step(NamedTuple):
    """An intent, by how much it lowers the load of the source, and by how much it raises that of the target."""

    intent: Intent
    fall: float
    rise: float


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """When to act and on which cells.

    `min_gain`: fraction of the mean load by which the busiest matcher must exceed it. Rebalancing cannot gain more
    than that and has a cost: conjunctions on the border of more cells are held more often (a tenth more work in the
    lab's experiment on switching).
    """

    sigma: float = 1.2  # σ: ratio of the largest to the smallest load from which to act
    min_gain: float = 0.15
    top_cells: int = 8  # p: cells that phase one examines
    selector: str = "gr+"
    seed: int = 0
    model: LoadModel = field(default_factory=LoadModel)  # decides whether a split or join lowers the total load
    work: WorkModel = field(default_factory=WorkModel)  # gives the time that cells take


def decide(matchers: Sequence[Sequence[CellLoad]], settings: LocalSettings) -> list[Intent]:
    """Return what to do about the measured cells of each matcher; nothing if the loads are balanced."""
    loads = [sum(cell.load for cell in cells) for cells in matchers]
    source, target = int(np.argmax(loads)), int(np.argmin(loads))
    if not is_worth_rebalancing(loads, settings):
        return []
    steps = _reduce_total_load(matchers[source], matchers[target], source, target, settings)
    intents = [step.intent for step in steps]
    high, low = loads[source] - sum(step.fall for step in steps), loads[target] + sum(step.rise for step in steps)
    if is_balanced(high, low, settings.sigma):
        return intents
    changed = {intent.cell for intent in intents}
    rest = [cell for cell in matchers[source] if cell.cell not in changed and cell.load > 0]
    return [*intents, *_select_moves(rest, (high - low) / 2, source, target, settings)]


def is_worth_rebalancing(loads: Sequence[float], settings: LocalSettings) -> bool:
    """Return whether the largest load is far enough above the smallest load and above the mean."""
    high, low, mean = max(loads), min(loads), sum(loads) / len(loads)
    return not is_balanced(high, low, settings.sigma) and high > (1 + settings.min_gain) * mean


def is_balanced(high: float, low: float, sigma: float) -> bool:
    return high <= sigma * low or high <= 0


def _reduce_total_load(
    cells: Sequence[CellLoad],
    target_cells: Sequence[CellLoad],
    source: int,
    target: int,
    settings: LocalSettings,
) -> list[_Step]:
    """Phase one: return the steps that lower the sum of loads. Together they do not exceed an even balance."""
    max_rise = (sum(cell.load for cell in cells) - sum(cell.load for cell in target_cells)) / 2
    target_cell = {cell.cell: cell for cell in target_cells}
    steps: list[_Step] = []
    for cell in sorted(cells, key=lambda cell: (-cell.load, cell.cell))[: settings.top_cells]:
        if cell.is_text:
            step = _try_join(cell, target_cell.get(cell.cell), source, target, settings.model)
        else:
            step = _try_split(cell, source, target, settings.model)
        if step is not None and sum(done.rise for done in steps) + step.rise <= max_rise:
            steps.append(step)
    return steps


def _try_split(cell: CellLoad, source: int, target: int, model: LoadModel) -> _Step | None:
    """Give away the smaller half if both halves together have less load than the whole."""
    if cell.halves is None:
        return None
    split_load = sum(model.load(half.posts, half.subscriptions) for half in cell.halves)
    if split_load >= model.load(cell.posts, cell.subscriptions):
        return None
    rate = cell.load / cell.product
    loads = [half.posts * half.subscriptions * rate for half in cell.halves]
    half = 0 if cell.halves[0].size_bytes <= cell.halves[1].size_bytes else 1
    intent = SplitByText(cell.cell, half, source, target, cell.halves[half].size_bytes)
    return _Step(intent, cell.load - loads[1 - half], loads[half])


def _try_join(cell: CellLoad, other: CellLoad | None, source: int, target: int, model: LoadModel) -> _Step | None:
    """Join both parts if that lowers the load: shared posts are sent once, but compared with all subscriptions."""
    if other is None or not other.is_text or cell.joined_posts is None:
        return None
    held = cell.subscriptions + other.subscriptions
    separate = model.load(cell.posts, cell.subscriptions) + model.load(other.posts, other.subscriptions)
    if model.load(cell.joined_posts, held) >= separate:
        return None
    rate = (cell.load + other.load) / (cell.product + other.product)
    rise = max(0.0, cell.joined_posts * held * rate - other.load)
    return _Step(Join(cell.cell, source, target, cell.size_bytes), cell.load, rise)


def _select_moves(
    cells: Sequence[CellLoad], load: float, source: int, target: int, settings: LocalSettings
) -> list[Intent]:
    """Phase two. A cell with more than the whole difference would only swap the roles, so it stays."""
    movable = [cell for cell in cells if cell.load < 2 * load]
    if not movable or load <= 0:
        return []
    loads = np.array([cell.load for cell in movable], np.float64)
    sizes = np.array([max(1, cell.size_bytes) for cell in movable], np.int64)
    chosen = get_selector(settings.selector)(loads, sizes, min(load, float(loads.sum())), settings.seed)
    return [Move(movable[n].cell, source, target, movable[n].size_bytes) for n in chosen.tolist()]
