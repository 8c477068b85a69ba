"""Stretches of time that can be counted by themselves, so that calculators work while posts are still disseminated.

With catching up, calculators start anew at every plan: they are told of the posts in open windows once more. So what
lies between two plans needs nothing of what came before. Without, they go on with what they know: there is one stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tidings.correlate.tag_router import Notifications


@dataclass(frozen=True, slots=True)
class Stretch:
    """What calculators are told, in order; windows that end after slide `until` (None: never) are left to the next."""

    told: list[Notifications]
    until: int | None

    def __len__(self) -> int:
        """How many notifications there are."""
        return sum(map(len, self.told))


def stretches(told: Iterable[list[Notifications]], catch_up: bool, enough: int) -> Iterator[Stretch]:
    """Cut what is told where a new plan begins and there are at least so many notifications; at least one stretch."""
    waiting, count = list[Notifications](), 0
    for one in (one for together in told for one in together):
        if catch_up and count >= enough and one.plan != waiting[-1].plan:
            yield Stretch(waiting, int(one.now[0]))
            waiting, count = [], 0
        waiting.append(one)
        count += len(one)
    yield Stretch(waiting, None)
