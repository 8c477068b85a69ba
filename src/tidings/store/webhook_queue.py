"""Webhooks as their sender sees them: which are due, which message each is at, and what became of it.

A hook is due at ``due_at``; without one it has nothing to send until a match comes. What a message holds is fixed
(``pending``) before it is first tried: a sender that was killed sends the same one again, under the same id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidings.store import queries
from tidings.store.database import Database
from tidings.store.rows import StoredMatch
from tidings.store.webhooks import COLUMNS, LIVE, Attempt, Webhook, forget, log, webhook

_ASLEEP = """SELECT w.id FROM webhook w WHERE w.due_at IS NULL AND w.enabled = 1 AND EXISTS (SELECT 1 FROM match m
    WHERE m.era IN ({}) AND m.subscription = w.subscription AND m.cursor > ?)"""
_WAKE = "UPDATE webhook SET due_at = ? WHERE due_at IS NULL AND id IN (SELECT a FROM {})"
# Of one host, owners take turns; what is beyond a bound hides nothing that is within.
_DUE = f"""SELECT {COLUMNS} FROM (SELECT d.id, d.due_at, d.failing,
        row_number() OVER (PARTITION BY d.host ORDER BY d.of_pair, d.due_at, d.id) AS of_host,
        row_number() OVER (PARTITION BY d.owner ORDER BY d.due_at, d.id) AS of_owner
    FROM (SELECT w.id, w.owner, w.host, w.due_at, CASE WHEN w.failures > 0 THEN 1 ELSE 0 END AS failing,
            row_number() OVER (PARTITION BY w.host, w.owner ORDER BY w.due_at, w.id) AS of_pair
        FROM {LIVE} WHERE w.enabled = 1 AND w.due_at <= ?) AS d WHERE d.of_pair <= ?) AS d
    JOIN webhook w ON w.id = d.id WHERE d.of_host <= ? AND d.of_owner <= ? ORDER BY d.failing, d.due_at, d.id LIMIT ?"""
_DELIVERED = """UPDATE webhook SET cursor = pending, pending = NULL, failures = 0, error = '', due_at = ?,
    messages = messages + 1, matches = matches + ?, delivered_at = ? WHERE id = ? AND pending = ?"""
_FAILED = "UPDATE webhook SET failures = ?, error = ?, due_at = ?, enabled = ? WHERE id = ? AND pending = ?"
_GONE = """SELECT w.id FROM webhook w LEFT JOIN subscription s ON s.id = w.subscription
    WHERE s.id IS NULL OR s.removed_at IS NOT NULL"""
_TOTALS = f"""SELECT coalesce(sum(CASE WHEN w.enabled = 1 AND w.failures = 0 THEN 1 ELSE 0 END), 0),
    coalesce(sum(CASE WHEN w.enabled = 1 AND w.failures > 0 THEN 1 ELSE 0 END), 0),
    coalesce(sum(CASE WHEN w.enabled = 0 THEN 1 ELSE 0 END), 0),
    coalesce(sum(w.messages), 0), coalesce(sum(w.matches), 0) FROM {LIVE}"""


class Share(NamedTuple):
    """How many due hooks of one owner at one host, of one host, of one owner, and altogether are wanted at most."""

    pair: int
    host: int
    owner: int
    all: int


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a message: delivered, to be tried again at ``due_at``, or (neither) the hook is switched off."""

    webhook: int
    until: int
    attempt: Attempt
    delivered: bool
    failures: int
    due_at: float | None
    error: str

    @property
    def gives_up(self) -> bool:
        return not self.delivered and self.due_at is None


class Totals(NamedTuple):
    """All webhooks together: how many are in which state, and what they delivered."""

    active: int
    retrying: int
    disabled: int
    messages: int
    matches: int


class WebhookQueue:
    """What the sender of a store asks of it; one sender at a time, see `Store.hold_sender`."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._db, self._now = database, now

    def wake(self) -> int:
        """Make those due that have new matches; how many. Quick where no match came since the last time."""
        told, last = self._told(), queries.last_number(self._db)
        if told == last:
            return 0
        groups = [", ".join(map(str, eras)) for eras in queries.era_groups(self._db, told)]
        asleep = [int(row[0]) for eras in groups for row in self._db.rows(_ASLEEP.format(eras), told)]
        given = self._db.pairs(np.array(asleep, np.int64), np.zeros(len(asleep), np.int64))
        with self._db.write():  # short: who looks takes its time, and a stream may wait to commit
            woken = self._db.run(_WAKE.format(given.sql), self._now(), *given.parameters)
            self._db.run("UPDATE counter SET value = ? WHERE name = 'webhooks told'", last)
        return woken

    def _told(self) -> int:
        return int(self._db.rows("SELECT value FROM counter WHERE name = 'webhooks told'")[0][0])

    def due(self, share: Share) -> list[Webhook]:
        """Those that are due: first those without trouble, then those that have waited longest."""
        return [webhook(row) for row in self._db.rows(_DUE, self._now(), *share)]

    def waiting(self, hook: Webhook, limit: int, most_characters: int | None = None) -> list[StoredMatch]:
        """The matches its message holds, or (if none is fixed) so many of those it may hold."""
        found = queries.matches(self._db, hook.subscription, hook.cursor, limit, most_characters)
        return found if hook.pending is None else [match for match in found if match.cursor <= hook.pending]

    def fix(self, messages: Sequence[tuple[int, int]]) -> None:
        """Of each hook, the cursor with which its message ends."""
        if messages:
            with self._db.write():
                for number, until in messages:
                    self._db.run("UPDATE webhook SET pending = ? WHERE id = ? AND pending IS NULL", until, number)

    def rest(self, hooks: Sequence[Webhook]) -> None:
        """They were found to have nothing to send: let them wait for a match, unless one has come."""
        sql = "UPDATE webhook SET pending = NULL, failures = 0, error = '', due_at = ? WHERE id = ? AND cursor = ?"
        if hooks:
            with self._db.write():
                for hook in hooks:
                    self._db.run(sql, self._due_after(hook.subscription, hook.cursor), hook.id, hook.cursor)

    def tried(self, many: Iterable[Tried]) -> None:
        """Store what became of messages, all at once. Nothing of those whose hooks were removed meanwhile."""
        with self._db.write():
            for one in many:
                self._delivered(one) if one.delivered else self._failed(one)
                log(self._db, one.webhook, one.attempt)

    def _failed(self, one: Tried) -> None:
        self._db.run(_FAILED, one.failures, one.error, one.due_at, int(not one.gives_up), one.webhook, one.until)

    def _delivered(self, one: Tried) -> None:
        for (subscription,) in self._db.rows("SELECT subscription FROM webhook WHERE id = ?", one.webhook):
            due_at = self._due_after(subscription, one.until)
            self._db.run(_DELIVERED, due_at, one.attempt.matches, one.attempt.at, one.webhook, one.until)

    def _due_after(self, subscription: int, cursor: int) -> float | None:
        """At once if there are more matches; else when one comes."""
        return self._now() if queries.matches(self._db, subscription, cursor, 1) else None

    def tidy(self) -> int:
        """Forget the hooks of subscriptions that are gone; how many."""
        gone = [int(row[0]) for row in self._db.rows(_GONE)]
        if gone:
            with self._db.write():
                for number in gone:
                    forget(self._db, number)
        return len(gone)

    def totals(self) -> Totals:
        """All of them together."""
        return Totals(*map(int, self._db.rows(_TOTALS)[0]))

    def troubled(self, limit: int) -> list[Webhook]:
        """Those that do not deliver, the disabled ones first."""
        sql = f"SELECT {COLUMNS} FROM {LIVE} WHERE w.enabled = 0 OR w.failures > 0 ORDER BY w.enabled, w.id LIMIT ?"
        return [webhook(row) for row in self._db.rows(sql, limit)]
