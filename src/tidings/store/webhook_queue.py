"""The queue of the webhook sender: which webhooks are due, what their current message holds, and its result.

A webhook is due at ``due_at``; without one it waits for a match. The content of a message is fixed (``pending``) before
the first attempt: after a crash the sender sends the same message again, under the same id. The backlog of a new feed
is not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidings.store.counters import read_counter
from tidings.store.database import Database
from tidings.store.matches import era_groups, read_matches
from tidings.store.rows import StoredMatch
from tidings.store.webhooks import COLUMNS, LIVE, Attempt, Webhook, delete_webhook, log_attempt, webhook_from_row

_LAST_SEEN = "webhooks told"  # a counter of the schema
_IDLE = """SELECT w.id FROM webhook w WHERE w.due_at IS NULL AND w.enabled = 1 AND EXISTS (SELECT 1 FROM match m
    WHERE m.era IN ({}) AND m.subscription = w.subscription AND m.cursor > ?)"""
_WAKE = "UPDATE webhook SET due_at = ? WHERE due_at IS NULL AND id IN (SELECT a FROM {})"
# Owners of one host take turns. Webhooks beyond a limit do not hide those within it.
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
_ORPHANS = """SELECT w.id FROM webhook w LEFT JOIN subscription s ON s.id = w.subscription
    WHERE s.id IS NULL OR s.removed_at IS NOT NULL"""
_TOTALS = f"""SELECT coalesce(sum(CASE WHEN w.enabled = 1 AND w.failures = 0 THEN 1 ELSE 0 END), 0),
    coalesce(sum(CASE WHEN w.enabled = 1 AND w.failures > 0 THEN 1 ELSE 0 END), 0),
    coalesce(sum(CASE WHEN w.enabled = 0 THEN 1 ELSE 0 END), 0),
    coalesce(sum(w.messages), 0), coalesce(sum(w.matches), 0) FROM {LIVE}"""


class DueLimits(NamedTuple):
    """Maximum number of due webhooks: per owner and host, per host, per owner, and in total."""

    pair: int
    host: int
    owner: int
    all: int


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result for a message: delivered, to be retried at ``due_at``, or (neither) the webhook is disabled."""

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


class WebhookTotals(NamedTuple):
    """Number of webhooks per state, and what they delivered."""

    active: int
    retrying: int
    disabled: int
    messages: int
    matches: int


class WebhookQueue:
    """The queue of one sender; it must hold the lease, see `Store.lease`."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._db, self._now = database, clock

    def wake(self) -> int:
        """Make idle webhooks with new matches due and return their number; fast if no match was stored since."""
        seen, last = read_counter(self._db, _LAST_SEEN), read_counter(self._db, "number")
        if seen == last:
            return 0
        groups = [", ".join(map(str, eras)) for eras in era_groups(self._db, seen)]
        idle = [int(row[0]) for eras in groups for row in self._db.fetch(_IDLE.format(eras), seen)]
        bound = self._db.bind_pairs(np.array(idle, np.int64), np.zeros(len(idle), np.int64))
        with self._db.transaction():  # after the slow queries, because a stream may wait to commit
            woken = self._db.execute(_WAKE.format(bound.sql), self._now(), *bound.parameters)
            self._db.execute("UPDATE counter SET value = ? WHERE name = ?", last, _LAST_SEEN)
        return woken

    def due(self, limits: DueLimits) -> list[Webhook]:
        """Return due webhooks: first those without failures, then by waiting time."""
        return [webhook_from_row(row) for row in self._db.fetch(_DUE, self._now(), *limits)]

    def next_matches(self, webhook: Webhook, limit: int, max_characters: int | None = None) -> list[StoredMatch]:
        """Return the matches of the current message, or candidates for the next one if none is fixed."""
        cursor = webhook.cursor
        matches = read_matches(self._db, webhook.subscription, cursor, limit, max_characters, with_backlog=False)
        return matches if webhook.pending is None else [match for match in matches if match.cursor <= webhook.pending]

    def fix_messages(self, messages: Sequence[tuple[int, int]]) -> None:
        """Record, per webhook, the last cursor of its message."""
        if messages:
            with self._db.transaction():
                for number, until in messages:
                    self._db.execute("UPDATE webhook SET pending = ? WHERE id = ? AND pending IS NULL", until, number)

    def mark_idle(self, webhooks: Sequence[Webhook]) -> None:
        """Let webhooks without matches wait for one, unless one was stored in the meantime."""
        sql = "UPDATE webhook SET pending = NULL, failures = 0, error = '', due_at = ? WHERE id = ? AND cursor = ?"
        if webhooks:
            with self._db.transaction():
                for webhook in webhooks:
                    due_at = self._due_after(webhook.subscription, webhook.cursor)
                    self._db.execute(sql, due_at, webhook.id, webhook.cursor)

    def record_results(self, results: Iterable[AttemptResult]) -> None:
        """Store the results of messages in one transaction; results of removed webhooks are ignored."""
        with self._db.transaction():
            for result in results:
                self._record_delivery(result) if result.delivered else self._record_failure(result)
                log_attempt(self._db, result.webhook, result.attempt)

    def _record_failure(self, result: AttemptResult) -> None:
        values = (result.failures, result.error, result.due_at, int(not result.gives_up), result.webhook, result.until)
        self._db.execute(_FAILED, *values)

    def _record_delivery(self, result: AttemptResult) -> None:
        for (subscription,) in self._db.fetch("SELECT subscription FROM webhook WHERE id = ?", result.webhook):
            due_at = self._due_after(subscription, result.until)
            attempt = result.attempt
            self._db.execute(_DELIVERED, due_at, attempt.matches, attempt.at, result.webhook, result.until)

    def _due_after(self, subscription: int, cursor: int) -> float | None:
        """Return now if there are more matches, else None."""
        return self._now() if read_matches(self._db, subscription, cursor, 1, with_backlog=False) else None

    def delete_orphans(self) -> int:
        """Delete the webhooks of removed subscriptions and return their number."""
        orphans = [int(row[0]) for row in self._db.fetch(_ORPHANS)]
        if orphans:
            with self._db.transaction():
                for number in orphans:
                    delete_webhook(self._db, number)
        return len(orphans)

    def totals(self) -> WebhookTotals:
        """Return the totals over all webhooks."""
        return WebhookTotals(*map(int, self._db.fetch(_TOTALS)[0]))

    def failing_webhooks(self, limit: int) -> list[Webhook]:
        """Return webhooks that are disabled or being retried, disabled ones first."""
        sql = f"SELECT {COLUMNS} FROM {LIVE} WHERE w.enabled = 0 OR w.failures > 0 ORDER BY w.enabled, w.id LIMIT ?"
        return [webhook_from_row(row) for row in self._db.fetch(sql, limit)]
