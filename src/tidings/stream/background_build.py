"""A thread that builds a version of the index, and what changes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tidings.index.builder import UnpublishedVersion
from tidings.index.reader import Index
from tidings.stream.bulk_build import BulkBuild, FinishedVersion


@dataclass
class AppliedChanges:
    """Changes that were applied to the index while a version was built."""

    added: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)

    def extend(self, added: list[int], removed: list[int]) -> None:
        self.added += added
        self.removed += removed


class BackgroundBuild(threading.Thread):
    """Builds a version from the subscriptions of another version."""

    def __init__(
        self,
        index: Index,
        build: Callable[[], UnpublishedVersion | FinishedVersion | None],
        changes_plan: bool = False,
        bulk: BulkBuild | None = None,
    ) -> None:
        super().__init__(name="tidings-plan" if changes_plan else "tidings-merge", daemon=True)
        self._function = build
        self.version = index.version
        self.changes_plan = changes_plan
        self.bulk = bulk
        self.result: UnpublishedVersion | FinishedVersion | None = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._function()
        except BaseException as error:
            self.error = error
