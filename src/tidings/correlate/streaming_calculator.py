"""A calculator of a stream, batch by batch: what it was told of open windows lies on a shelf between two batches."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from tidings.correlate import wire
from tidings.correlate.calculator import Pane
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.reference_topology import calculator_of
from tidings.correlate.settings import Settings
from tidings.correlate.state_pages import Book, Page, Shelf
from tidings.correlate.streaming_router import Told
from tidings.correlate.tag_router import Notifications
from tidings.correlate.tag_vocabulary import Vocabulary
from tidings.correlate.tracker import Reports


class LiveCalculator:
    """Opened for one batch: it is told, the windows that are complete are reported; then keep what `kept` says."""

    def __init__(self, settings: Settings, number: int, shelf: Shelf, kept: str | None) -> None:
        self._number = number
        self._vocabulary = Vocabulary()
        self._book = Book(shelf)
        self._calculator = calculator_of(settings)
        self._restored = [self._pane(slide, page) for slide, page in self._book]
        if kept:
            self._calculator.restore(**json.loads(kept), held=list(self._restored))

    def take(self, told: Iterable[Told], until: int) -> Page | None:
        """Count what was told, in order; the reports of all windows that end by slide `until`, if there are any."""
        found = list(chain(*(self._calculator.take(self._unpacked(one)) for one in told)))
        found += self._calculator.advance(until)
        self._keep()
        if not found:
            return None
        reports = Reports.together([Reports.of(end, self._number, counted) for end, counted in found])
        names, tags = self._vocabulary.spelt(reports.counted.tags)
        spelt = Reports(reports.ends, reports.calculators, replace(reports.counted, tags=tags))
        return Page(names, wire.pack_reports(spelt).to_pybytes())

    def kept(self) -> str:
        """Everything small that is needed for the next batch."""
        return json.dumps({"plan": self._calculator.plan, "next_end": self._calculator.next_end})

    def _pane(self, slide: int, page: Page) -> Pane:
        sets = wire.unpack_sets(wire.buffer(page.blob))
        tags = self._vocabulary.rows(page.names, sets.tags, sets.starts)
        return Pane(slide, tags, sets.starts, sets.weights)

    def _unpacked(self, one: Told) -> Notifications:
        told = wire.unpack_told(self._number, one.plan, one.page.blob)
        return replace(told, tags=self._vocabulary.rows(one.page.names, told.tags, told.starts))

    def _keep(self) -> None:
        """The shelf as what is held: what is new is added, what was left behind is forgotten."""
        held = self._calculator.held
        still, before = {id(pane) for pane in held}, {id(pane) for pane in self._restored}
        gone = {pane.number for pane in self._restored if id(pane) not in still}
        self._book.forget(gone.__contains__)
        new: dict[int, list[Pane]] = defaultdict(list)
        for pane in held:
            if id(pane) not in before:
                new[pane.number].append(pane)
        for slide, panes in new.items():
            self._book.add(slide, self._page(panes))
        for slide in self._book.crowded():
            self._book.rewrite(slide, self._page([pane for pane in held if pane.number == slide]))

    def _page(self, panes: list[Pane]) -> Page:
        sets = TagSets.together([TagSets(pane.tags, pane.starts, pane.weights) for pane in panes]).united()
        names, tags = self._vocabulary.spelt(sets.tags)
        return Page(names, wire.pack_sets(TagSets(tags, sets.starts, sets.weights)).to_pybytes())
