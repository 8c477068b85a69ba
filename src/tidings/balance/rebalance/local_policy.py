"""The local rebalancing step (PS²Stream, V-A): measured loads come in, intents go out. Nothing is moved here.

It acts if the most loaded matcher has more than σ times the load of the least loaded. Matchers above the mean give
load to those below it. Phase one examines the heaviest cells of a giver: it splits the terms of a cell between both
matchers, or joins what both have of a cell, where that lowers the sum of the loads. If that is not enough, phase two
moves cells, and parts of overloaded cells, for as few bytes as possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tidings.balance.rebalance.cell_selection import MAX_TABLE_BITS, get_selector
from tidings.balance.work_model import WorkModel

Terms = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of the terms of a cell: its load on a matcher of its own, and its size."""

    load: float
    size_bytes: int
    terms: Terms


@dataclass(frozen=True, slots=True)
class CellLoad:
    """The load of a cell of one matcher in a period: its time, or posts × subscriptions (definition 3).

    The cell after the last one has the posts without a position.
    """

    cell: int
    posts: float
    subscriptions: float
    size_bytes: int  # a subscription in several cells counts for each of them in part
    is_text: bool = False  # whether several matchers share its terms
    work: float | None = None  # its time, if it is known
    halves: tuple[TextPart, TextPart] | None = None  # of a cell that may be split
    joined_load: float | None = None  # if the first receiver had both parts of it
    terms: Terms = ()  # given if this is a part of a cell: the conjunctions with these anchors

    @property
    def load(self) -> float:
        return self.posts * self.subscriptions if self.work is None else self.work


@dataclass(frozen=True, slots=True)
class SplitByText:
    """Give some terms of a cell to the target. The source keeps all others."""

    cell: int
    source: int
    target: int
    size_bytes: int
    terms: Terms


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


class Transfer(NamedTuple):
    """How much load a matcher gives to another one."""

    source: int
    target: int
    load: float


class _Step(NamedTuple):
    """An intent, by how much it lowers the load of the source, and by how much it raises that of the target."""

    intent: Intent
    fall: float
    rise: float


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """When to act and on which cells.

    `min_gain`: fraction of the mean load by which the busiest matcher must exceed it. Rebalancing cannot gain more
    than that and has a cost: conjunctions on the border of more cells are held more often, and a receiver has one
    more segment until the next merge.
    """

    sigma: float = 1.2  # σ: ratio of the largest to the smallest load from which to act
    min_gain: float = 0.25
    max_transfers: int = 8  # pairs of a giver and a receiver in one step
    top_cells: int = 8  # p: cells that phase one examines
    selector: str = "gr+"
    seed: int = 0
    work: WorkModel = field(default_factory=WorkModel)  # distributes the time of a matcher over its cells


def is_worth_rebalancing(loads: Sequence[float], settings: LocalSettings) -> bool:
    """Return whether the largest load is far enough above the smallest load and above the mean."""
    if not loads:
        return False
    high, low, mean = max(loads), min(loads), sum(loads) / len(loads)
    return high > settings.sigma * low and high > (1 + settings.min_gain) * mean


def plan_transfers(loads: Sequence[float], settings: LocalSettings) -> list[Transfer]:
    """Return who gives how much to whom, so that no load remains far above the mean; [] if that is not worth it.

    The most loaded matchers give first, to the least loaded ones. With two matchers this is half the difference. A
    receiver may get a bit above the mean, so that few receivers get much instead of many a little.
    """
    if not is_worth_rebalancing(loads, settings):
        return []
    mean = sum(loads) / len(loads)
    left = list(loads)
    order = sorted(range(len(loads)), key=lambda matcher: (loads[matcher], matcher))
    transfers: list[Transfer] = []
    for source in reversed([matcher for matcher in order if loads[matcher] > (1 + settings.min_gain) * mean]):
        for target in order:
            room = mean - left[target]
            load = min(left[source] - mean, max(room, settings.min_gain * mean))
            if room > 0 and load > 0 and len(transfers) < settings.max_transfers:
                transfers.append(Transfer(source, target, load))
                left[source], left[target] = left[source] - load, left[target] + load
    return transfers


def decide(
    matchers: Mapping[int, Sequence[CellLoad]], transfers: Sequence[Transfer], settings: LocalSettings
) -> list[Intent]:
    """Return what to do about the cells of the givers, so that as much load moves as the transfers say."""
    cells = {transfer.source: list(matchers[transfer.source]) for transfer in transfers}
    excess = {source: sum(pair.load for pair in transfers if pair.source == source) for source in cells}
    intents: list[Intent] = []
    for number, transfer in enumerate(transfers):
        own, is_first = cells[transfer.source], transfer.source not in {pair.source for pair in transfers[:number]}
        steps = _reduce_total_load(own, matchers, transfer, settings) if is_first else []
        changed = {step.intent.cell for step in steps}
        rest = [cell for cell in own if cell.cell not in changed]
        excess[transfer.source] -= sum(step.fall for step in steps)
        left = min(transfer.load - sum(step.rise for step in steps), excess[transfer.source])
        chosen = _select_cells(rest, left, settings)
        excess[transfer.source] -= sum(rest[cell].load for cell in chosen)
        intents += [step.intent for step in steps] + [_give(rest[cell], transfer) for cell in chosen]
        cells[transfer.source] = [cell for place, cell in enumerate(rest) if place not in chosen]
    return intents


def _reduce_total_load(
    cells: Sequence[CellLoad],
    matchers: Mapping[int, Sequence[CellLoad]],
    transfer: Transfer,
    settings: LocalSettings,
) -> list[_Step]:
    """Phase one: return the steps that lower the sum of loads. Together they do not exceed the transfer."""
    target_cells = {cell.cell: cell for cell in matchers.get(transfer.target, ())}
    steps: list[_Step] = []
    whole = [cell for cell in cells if not cell.terms]
    for cell in sorted(whole, key=lambda cell: (-cell.load, cell.cell))[: settings.top_cells]:
        step = _try_join(cell, target_cells.get(cell.cell), transfer) if cell.is_text else _try_split(cell, transfer)
        if step is not None and sum(done.rise for done in steps) + step.rise <= transfer.load:
            steps.append(step)
    return steps


def _try_split(cell: CellLoad, transfer: Transfer) -> _Step | None:
    """Give away the smaller half if both halves together have less load than the whole."""
    if cell.halves is None or sum(half.load for half in cell.halves) >= cell.load:
        return None
    given, kept = sorted(cell.halves, key=lambda half: half.size_bytes)
    intent = SplitByText(cell.cell, transfer.source, transfer.target, given.size_bytes, given.terms)
    return _Step(intent, cell.load - kept.load, given.load)


def _try_join(cell: CellLoad, other: CellLoad | None, transfer: Transfer) -> _Step | None:
    """Join both parts if that lowers the load: posts with terms of both are sent once."""
    if other is None or not other.is_text or cell.joined_load is None or cell.joined_load >= cell.load + other.load:
        return None
    intent = Join(cell.cell, transfer.source, transfer.target, cell.size_bytes)
    return _Step(intent, cell.load, max(0.0, cell.joined_load - other.load))


def _select_cells(cells: Sequence[CellLoad], load: float, settings: LocalSettings) -> list[int]:
    """Phase two: return the numbers of the cells to give away for about this load.

    A cell with more load would only swap the roles, except if that brings both closer together than anything else.
    """
    movable = [number for number, cell in enumerate(cells) if 0 < cell.load <= load]
    loads = np.array([cells[number].load for number in movable], np.float64)
    sizes = np.array([max(1, cells[number].size_bytes) for number in movable], np.int64)
    if settings.selector == "dp":  # its table must fit into memory: then sizes are rounded up
        sizes = -(-sizes // max(1, -(-len(sizes) * int(sizes.sum()) // MAX_TABLE_BITS)))
    chosen = []
    if movable:
        chosen = get_selector(settings.selector)(loads, sizes, min(load, float(loads.sum())), settings.seed).tolist()
        chosen = _leave_out_excess(chosen, loads.tolist(), load)
    total = float(loads[chosen].sum()) if chosen else 0.0
    larger = [number for number, cell in enumerate(cells) if load < cell.load < 2 * load]
    single = min(larger, key=lambda number: (cells[number].load, number), default=None)
    if single is not None and cells[single].load - load < abs(load - total):
        return [single]
    return [movable[number] for number in chosen]


def _leave_out_excess(chosen: list[int], loads: list[float], load: float) -> list[int]:
    """Leave out one cell if the others are closer to the load to give away."""
    total = sum(loads[number] for number in chosen)
    excess = min(chosen, key=lambda number: (abs(total - loads[number] - load), number))
    if abs(total - loads[excess] - load) < abs(total - load):
        return [number for number in chosen if number != excess]
    return chosen


def _give(cell: CellLoad, transfer: Transfer) -> Intent:
    pair = (transfer.source, transfer.target, cell.size_bytes)
    return SplitByText(cell.cell, *pair, cell.terms) if cell.terms else Move(cell.cell, *pair)
