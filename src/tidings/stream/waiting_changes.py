"""Which changes of subscriptions are not in the index yet, and which of them come next.

The change log is read once, in order. Removals are applied immediately. Additions wait by owner, and owners take turns:
a subscription of one owner does not wait for the thousands that another owner has imported before.

Since additions may be applied in another order than logged, the index is complete only up to the change before the
first one that waits. After a restart, everything after that position is read and applied again, which is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from tidings.store.subscriptions import Subscriptions

# Changes read per batch, in 0.1 s: one per five posts, the rate of PS²Stream, in the largest batch. A smaller number
# would let the index fall behind for ever, because a build begins only when the log is read.
LOG_PAGE = 60_000
MAX_EXAMINED = 10_000  # additions per batch: a million may wait, and none of them fit


class _Addition(NamedTuple):
    position: int
    owner: str
    cost: int


class WaitingChanges:
    """The additions after `position` are unknown; those up to it are in the index, waiting, or being built."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.is_up_to_date = False  # whether the whole log was read
        self._waiting: dict[str, dict[int, _Addition]] = {}  # by owner, in the order of the log
        self._building: dict[int, _Addition] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values())) + len(self._building)

    @property
    def can_build(self) -> bool:
        """Whether additions wait that are not being built."""
        return bool(self._waiting)

    def read(self, subscriptions: Subscriptions) -> list[int]:
        """Read the next changes and return the removed ids. Raises ChangeLogTruncated."""
        changes = subscriptions.priced_changes(self.position, LOG_PAGE)
        self.is_up_to_date = len(changes) < LOG_PAGE
        removed = []
        for change in changes:
            if change.kind == "add":
                queue = self._waiting.setdefault(change.owner, {})
                queue[change.subscription] = _Addition(change.position, change.owner, change.cost)
            else:
                removed.append(change.subscription)
                self._discard(change.owner, change.subscription)
            self.position = change.position
        return removed

    def _discard(self, owner: str, subscription: int) -> None:
        queue = self._waiting.get(owner, {})
        queue.pop(subscription, None)
        if not queue:
            self._waiting.pop(owner, None)

    def take(self, units: int, at_least_one: bool = False) -> list[int]:
        """Return additions that cost at most this together; owners take turns, those with the fewest first."""
        taken: dict[int, _Addition] = {}
        for subscription, addition in islice(self._in_turns(), MAX_EXAMINED):
            if addition.cost <= units or (at_least_one and not taken):
                units = max(units - addition.cost, 0)
                taken[subscription] = addition
            if units == 0:
                break
        for subscription, addition in taken.items():
            self._discard(addition.owner, subscription)
        return list(taken)

    def _in_turns(self) -> Iterator[tuple[int, _Addition]]:
        queues = [iter(queue.items()) for queue in sorted(self._waiting.values(), key=len)]
        while queues:
            remaining = []
            for queue in queues:
                if (entry := next(queue, None)) is not None:
                    yield entry
                    remaining.append(queue)
            queues = remaining

    def begin_build(self, units_per_owner: int) -> list[int]:
        """Return the additions that a build in the background gets: of every owner up to this cost, at least one."""
        chosen: dict[int, _Addition] = {}
        for queue in self._waiting.values():
            left = units_per_owner
            for number, (subscription, addition) in enumerate(queue.items()):
                left -= addition.cost
                if left < 0 and number:
                    break
                chosen[subscription] = addition
        self._building = chosen
        for subscription, addition in chosen.items():
            self._discard(addition.owner, subscription)
        return list(chosen)

    def end_build(self, is_done: bool) -> None:
        """Forget the additions of the build, or put them back in front if it failed."""
        failed = {} if is_done else self._building
        self._building = {}
        for owner in dict.fromkeys(addition.owner for addition in failed.values()):
            own = {subscription: addition for subscription, addition in failed.items() if addition.owner == owner}
            self._waiting[owner] = own | self._waiting.get(owner, {})

    def included_position(self) -> int:
        """Return the position up to which the index has all changes."""
        firsts = [next(iter(queue.values())).position for queue in self._waiting.values()]
        building = [addition.position for addition in self._building.values()]
        return min([self.position + 1, *firsts, *building]) - 1
