"""A Calculator of a stream, which runs batch by batch: its panes are state pages between two batches."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from tidings.correlate import wire
from tidings.correlate.calculator import Pane
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.reference_topology import build_calculator
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.state_pages import PageBackend, StatePage, StateStore
from tidings.correlate.streaming_router import PackedNotifications
from tidings.correlate.tag_router import Notifications
from tidings.correlate.tag_vocabulary import TagVocabulary
from tidings.correlate.tracker import Reports


class StreamingCalculator:
    """Opened for one batch with the state of the previous one: `process` its notifications, then `dump_state`."""

    def __init__(self, settings: CorrelationSettings, number: int, pages: PageBackend, state: str | None) -> None:
        self._number = number
        self._vocabulary = TagVocabulary()
        self._store = StateStore(pages)
        self._calculator = build_calculator(settings)
        self._restored = [self._unpack_pane(slide, page) for slide, page in self._store]
        if state:
            self._calculator.restore(**json.loads(state), panes=list(self._restored))

    def process(self, batch: Iterable[PackedNotifications], until: int) -> StatePage | None:
        """Count notifications in order. Return the reports of all windows that end by slide `until`, if any."""
        windows = list(chain(*(self._calculator.process(self._unpack(packed)) for packed in batch)))
        windows += self._calculator.advance(until)
        self._save_panes()
        if not windows:
            return None
        reports = Reports.concat([Reports.of(end, self._number, counted) for end, counted in windows])
        names, tags = self._vocabulary.to_local(reports.counted.tags)
        local = Reports(reports.ends, reports.calculators, replace(reports.counted, tags=tags))
        return StatePage(names, wire.pack_reports(local).to_pybytes())

    def dump_state(self) -> str:
        """Return the small state that the next batch needs besides the pages."""
        return json.dumps({"plan": self._calculator.plan, "next_end": self._calculator.next_end})

    def _unpack_pane(self, slide: int, page: StatePage) -> Pane:
        sets = wire.unpack_sets(pa.py_buffer(page.blob))
        tags = self._vocabulary.renumber_rows(page.names, sets.tags, sets.starts)
        return Pane(slide, tags, sets.starts, sets.weights)

    def _unpack(self, packed: PackedNotifications) -> Notifications:
        local = wire.unpack_notifications(self._number, packed.plan, packed.page.blob)
        return replace(local, tags=self._vocabulary.renumber_rows(packed.page.names, local.tags, local.starts))

    def _save_panes(self) -> None:
        """Write new panes to the store and delete the groups of dropped ones."""
        panes = self._calculator.panes
        current, restored = {id(pane) for pane in panes}, {id(pane) for pane in self._restored}
        dropped = {pane.number for pane in self._restored if id(pane) not in current}
        self._store.delete_groups(dropped.__contains__)
        new_panes: dict[int, list[Pane]] = defaultdict(list)
        for pane in panes:
            if id(pane) not in restored:
                new_panes[pane.number].append(pane)
        for slide, of_slide in new_panes.items():
            self._store.add(slide, self._pack_panes(of_slide))
        for slide in self._store.groups_to_compact():
            self._store.compact(slide, self._pack_panes([pane for pane in panes if pane.number == slide]))

    def _pack_panes(self, panes: list[Pane]) -> StatePage:
        sets = TagSets.concat([TagSets(pane.tags, pane.starts, pane.weights) for pane in panes]).combine_equal()
        names, tags = self._vocabulary.to_local(sets.tags)
        return StatePage(names, wire.pack_sets(TagSets(tags, sets.starts, sets.weights)).to_pybytes())
