"""Route by place: PS²Stream's gridᵗ. The cell of a post tells its area, area and word tell the worker (H1); a word that
leads to nothing in the area (it is not in H2) is passed over, and a post without any other is dropped at once.

While two plans live side by side, posts go where either sends them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import float64, types, uint8, uint16, uint32, uint64
from numpy.typing import NDArray

from tidings.index.grid import find_list, hash_table, on_globe
from tidings.index.reader import Index, LiveSegment
from tidings.index.spatial_shards import space_plan
from tidings.jit import inlined, kernel, read, write
from tidings.plan.space import SpacePlan
from tidings.ragged import distinct
from tidings.routing.router import Routed, Router, Share, spread_of
from tidings.routing.shed import Shed
from tidings.text.analyzer import Received
from tidings.text.byte_masks import lowest_bit

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_IN_AREAS, _FREE = np.uint8(1), np.uint8(2)
_SHED_NOTHING = Shed()


def open_router(index: Index) -> Router | AreaRouter:
    """The router an index needs."""
    plan = index.manifest.plan
    return AreaRouter(index) if plan is not None and plan.space else Router(index)


class AreaRouter:
    """The grid of a space plan, with what the subscriptions of an index version are led to by."""

    def __init__(self, index: Index) -> None:
        plan = index.manifest.plan
        assert plan is not None
        self.matchers = plan.matchers
        self._width = (self.matchers + 63) // 64
        live = [one for matcher in range(self.matchers) for one in index.shard(matcher)]
        terms = index.vocabulary.terms()
        files = [(plan.space, False)] + [(plan.before, True)] * bool(plan.before)
        self._grids = [
            _Grid(space_plan(index.folder / file), terms, [one for one in live if one.is_old == is_old])
            for file, is_old in files
        ]

    @property
    def size_bytes(self) -> int:
        """What a dispatcher needs of memory: H1 and H2."""
        return sum(grid.size_bytes for grid in self._grids)

    def route(self, received: Received, positions: NDArray[np.float64], shed: Shed = _SHED_NOTHING) -> Routed:
        """The share of every matcher that is sent anything of a batch: posts with all their words."""
        assert not shed.is_on, "only plans of words shed"
        bits = np.zeros((len(received), self._width), np.uint64)
        cells = [grid.route(received, positions, bits) for grid in self._grids]
        room = np.zeros((2, self.matchers), np.uint64)
        _count(received.bounds, bits, room)
        firsts = np.concatenate([np.zeros((2, 1), np.uint64), np.cumsum(room, axis=1, dtype=np.uint64)], axis=1)
        dealt = np.empty((2, int(firsts[0, -1])), np.uint32)
        terms = np.empty(int(firsts[1, -1]), np.uint32)
        _deal(received.terms, received.bounds, bits, firsts.copy(), dealt, terms)
        shares = [_share(n, firsts, dealt, terms) for n in np.flatnonzero(room[0]).tolist()]
        return Routed(shares, None, spread_of(bits, self.matchers), cells[0])


class _Grid:
    """One plan, with what leads to the subscriptions that lie as it says."""

    def __init__(self, plan: SpacePlan, terms: Sequence[bytes], live: Sequence[LiveSegment]) -> None:
        self._lines = (plan.lines.lons, plan.lines.lats)
        self._area_of = np.append(plan.area_of_cell, np.uint32(plan.nowhere))
        row_of, self._workers = plan.workers_of(terms)
        self._row_of, self._name_of = row_of.astype(np.uint32), plan.names
        self._keys = distinct(np.concatenate([np.zeros(0, np.uint64), *(one.areas.keys for one in live)]))
        self._table = hash_table(self._keys)
        self._leads = np.zeros(len(terms) + 1, np.uint8)
        self._leads[(self._keys & np.uint64(0xFFFFFFFF)).astype(np.int64)] |= _IN_AREAS
        for one in live:
            self._leads[one.areas.free] |= _FREE

    @property
    def size_bytes(self) -> int:
        arrays = (self._area_of, self._row_of, self._name_of, self._workers, self._keys, self._table, self._leads)
        return sum(array.nbytes for array in arrays)

    def route(self, received: Received, positions: NDArray[np.float64], bits: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Add the workers of each post to its bits; the cell of each, one behind the last where it has no position."""
        cells = np.empty(len(received), np.uint32)
        _cells(positions.ravel(), *self._lines, np.uint64(len(self._area_of) - 1), cells)
        areas = self._area_of[cells]
        known = (self._leads, self._table, self._keys)
        where = (self._name_of[areas], self._row_of[areas])
        _route(received.terms, received.bounds, *where, *known, self._workers, bits)
        return cells


def _share(matcher: int, firsts: NDArray[np.uint64], dealt: NDArray[np.uint32], terms: NDArray[np.uint32]) -> Share:
    (first, last), (base, end) = firsts[:, matcher : matcher + 2].tolist()
    starts = np.concatenate([np.zeros(1, np.uint32), dealt[1, first:last] - np.uint32(base)])
    return Share(matcher, dealt[0, first:last], terms[base:end], starts)


@inlined
def _beyond(lines, place):  # type: ignore[no-untyped-def]
    """How many lines a point is not below, as `Lines.column` and `Lines.row` count."""
    low, high = _ZERO, uint64(lines.size)
    while low < high:
        middle = (low + high) >> _ONE
        if lines[middle] <= place:
            low = middle + _ONE
        else:
            high = middle
    return low


@kernel(types.void, read(float64), read(float64), read(float64), uint64, write(uint32))
def _cells(positions, lons, lats, nowhere, cells):  # type: ignore[no-untyped-def]
    """The cell of each post; `nowhere` for one without a position."""
    for post in range(uint64(cells.size)):
        lon, lat = positions[post * uint64(2)], positions[post * uint64(2) + _ONE]
        if on_globe(lon, lat):
            cell = _beyond(lats, lat) * (uint64(lons.size) + _ONE) + _beyond(lons, lon)
            cells[post] = uint32(cell)
        else:
            cells[post] = uint32(nowhere)


@inlined
def _leads_there(area, term, leads, table, keys):  # type: ignore[no-untyped-def]
    """Whether a word leads to anything in an area: H2."""
    if leads[term] & uint8(2):
        return True
    return leads[term] != 0 and find_list(table, keys, area << uint64(32) | term) != 0


@inlined
def _send(worker, post, bits):  # type: ignore[no-untyped-def]
    bits[post, worker >> uint64(6)] |= _ONE << (worker & uint64(63))


@kernel(
    types.void,
    read(uint32),
    read(uint32, 2),
    read(uint32),
    read(uint32),
    read(uint8),
    read(uint32),
    read(uint64),
    read(uint16, 2),
    write(uint64, 2),
)
def _route(terms, bounds, areas, rows, leads, table, keys, workers, bits):  # type: ignore[no-untyped-def]
    """Collect the workers of every post, as bits; term 0, no word, leads to what asks for a region only.

    `areas` are those of the posts, by the number that leads know, and `rows` tells where their workers stand.
    """
    for post in range(uint64(bounds.shape[0])):
        area, row = uint64(areas[post]), uint64(rows[post])
        if _leads_there(area, _ZERO, leads, table, keys):
            _send(uint64(workers[row, _ZERO]), post, bits)
        for at in range(uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])):
            term = uint64(terms[at])
            if term != 0 and _leads_there(area, term, leads, table, keys):
                _send(uint64(workers[row, term]), post, bits)


@kernel(types.void, read(uint32, 2), read(uint64, 2), write(uint64, 2))
def _count(bounds, bits, room):  # type: ignore[no-untyped-def]
    """How many posts and terms every matcher gets."""
    for post in range(uint64(bounds.shape[0])):
        for word in range(uint64(bits.shape[1])):
            left = bits[post, word]
            while left != 0:
                matcher = word * uint64(64) + lowest_bit(left)
                room[_ZERO, matcher] += _ONE
                room[_ONE, matcher] += uint64(bounds[post, _ONE]) - uint64(bounds[post, _ZERO])
                left &= left - _ONE


@kernel(types.void, read(uint32), read(uint32, 2), read(uint64, 2), write(uint64, 2), write(uint32, 2), write(uint32))
def _deal(terms, bounds, bits, places, dealt, chosen):  # type: ignore[no-untyped-def]
    """Give every matcher its posts with their terms; `places` says where those of each matcher are written next."""
    for post in range(uint64(bounds.shape[0])):
        for word in range(uint64(bits.shape[1])):
            left = bits[post, word]
            while left != 0:
                matcher = word * uint64(64) + lowest_bit(left)
                to = places[_ONE, matcher]
                for at in range(uint64(bounds[post, _ZERO]), uint64(bounds[post, _ONE])):
                    chosen[to] = terms[at]
                    to += _ONE
                row = places[_ZERO, matcher]
                dealt[_ZERO, row], dealt[_ONE, row] = uint32(post), uint32(to)
                places[_ZERO, matcher], places[_ONE, matcher] = row + _ONE, to
                left &= left - _ONE
