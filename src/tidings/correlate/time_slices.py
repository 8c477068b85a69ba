"""Time slices that can be counted independently, so that calculators work while later posts are still routed.

With catching up, calculators start from scratch at every plan, because the posts in open windows are replayed. So the
notifications of one plan do not depend on earlier ones. Without catching up there is only one slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from tidings.correlate.tag_router import Notifications


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """Notifications in order. Windows that end after slide `until` (None: no limit) belong to the next slice."""

    notifications: list[Notifications]
    until: int | None

    def __len__(self) -> int:
        """Return the number of notifications."""
        return sum(map(len, self.notifications))


def split_at_plans(routed: Iterable[list[Notifications]], catch_up: bool, min_rows: int) -> Iterator[TimeSlice]:
    """Split notifications where a new plan begins, into slices of at least `min_rows`; yields at least one slice."""
    pending, rows = list[Notifications](), 0
    for notifications in chain.from_iterable(routed):
        if catch_up and rows >= min_rows and notifications.plan != pending[-1].plan:
            yield TimeSlice(pending, int(notifications.now[0]))
            pending, rows = [], 0
        pending.append(notifications)
        rows += len(notifications)
    yield TimeSlice(pending, None)
