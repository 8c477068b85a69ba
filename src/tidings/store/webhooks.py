"""Webhooks as their owners see them: the receiver, the signing secret, and the log of attempts.

Secrets are stored in plain text because messages are signed with them. Access to this table reveals the matches.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from tidings.errors import InputError, QuotaExceeded, UnknownWebhook
from tidings.net.urls import normalize_url
from tidings.store.counters import advance_counter, read_counter
from tidings.store.database import Database, Row
from tidings.store.rows import DAY_S
from tidings.store.subscriptions import Subscriptions

MAX_WEBHOOKS_PER_SUBSCRIPTION = 10
LOGGED_ATTEMPTS = 100
"""Per webhook; older ones are deleted."""
OLD_SECRET_S = DAY_S
"""For this long after a rotation, messages are signed with the old secret too."""
_SECRET_PREFIX, _SECRET_BYTES = "whsec_", 32
_NAME_BYTES = 12
COLUMNS = """w.id, w.subscription, w.owner, w.url, w.host, w.name, w.secret, w.old_secret, w.old_until, w.created_at,
    w.enabled, w.error, w.cursor, w.pending, w.failures, w.due_at, w.attempts, w.messages, w.matches, w.delivered_at"""
LIVE = "webhook w JOIN subscription s ON s.id = w.subscription AND s.removed_at IS NULL"

WebhookState = Literal["active", "retrying", "disabled"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook. Matches up to ``cursor`` are delivered; those up to ``pending`` are the current message.

    Owners identify it by its random ``name``, which does not reveal how many webhooks exist.
    """

    id: int
    subscription: int
    owner: str
    url: str
    host: str
    name: str
    secret: str
    old_secret: str | None
    old_until: float | None
    created_at: float
    enabled: bool
    error: str
    cursor: int
    pending: int | None
    failures: int
    due_at: float | None
    attempts: int
    messages: int
    matches: int
    delivered_at: float | None

    @property
    def state(self) -> WebhookState:
        if not self.enabled:
            return "disabled"
        return "retrying" if self.failures else "active"

    def signing_secrets(self, now: float) -> list[str]:
        """Return the secrets to sign with, newest first."""
        old = self.old_secret if self.old_until is not None and now < self.old_until else None
        return [self.secret] if old is None else [self.secret, old]


class Attempt(NamedTuple):
    """One attempt to deliver a message; ``status`` is None if no server answered."""

    message: str
    matches: int
    at: float
    status: int | None
    outcome: str
    took_s: float


class Webhooks:
    """The webhooks of a store.

    Methods that take a name raise UnknownWebhook if it does not exist or belongs to another owner.
    """

    def __init__(self, database: Database, clock: Callable[[], float], subscriptions: Subscriptions) -> None:
        self._db, self._now, self._subscriptions = database, clock, subscriptions

    def add(self, subscription: int, url: str, owner: str | None = None, after: int | None = None) -> Webhook:
        """Send matches of a subscription to a URL: those after a cursor, or only future ones (None)."""
        address = normalize_receiver(url)
        with self._db.transaction():
            if len(self.of_subscription(subscription, owner)) >= MAX_WEBHOOKS_PER_SUBSCRIPTION:
                raise QuotaExceeded(
                    f"Webhook quota of this subscription reached ({MAX_WEBHOOKS_PER_SUBSCRIPTION}). Delete one first."
                )
            number = advance_counter(self._db, "webhook", 1) + 1
            last = read_counter(self._db, "number")
            cursor = last if after is None else min(after, last)
            self._db.execute(
                """INSERT INTO webhook (id, subscription, owner, url, host, name, secret, created_at, enabled, error,
                    cursor, failures, due_at, attempts, messages, matches)
                SELECT ?, id, owner, ?, ?, ?, ?, ?, 1, '', ?, 0, ?, 0, 0, 0 FROM subscription WHERE id = ?""",
                *(number, address, urlsplit(address).hostname or "", secrets.token_hex(_NAME_BYTES), new_secret()),
                *(self._now(), cursor, self._now(), subscription),
            )
            return webhook_from_row(self._db.fetch(f"SELECT {COLUMNS} FROM webhook w WHERE w.id = ?", number)[0])

    def of_subscription(self, subscription: int, owner: str | None = None) -> list[Webhook]:
        """Return the webhooks of a subscription. Raises UnknownSubscription."""
        self._subscriptions.require(subscription, owner)
        rows = self._db.fetch(f"SELECT {COLUMNS} FROM webhook w WHERE w.subscription = ? ORDER BY w.id", subscription)
        return [webhook_from_row(row) for row in rows]

    def page(self, owner: str | None, after: str = "", limit: int = 100) -> list[Webhook]:
        """Return the next webhooks of an owner (None: of all owners) after a name, in order of creation."""
        condition, values = ("", ()) if owner is None else (" AND owner = ?", (owner,))
        above = f"coalesce((SELECT id FROM webhook WHERE name = ?{condition}), 0)"
        of_owner = condition.replace("owner", "w.owner")
        sql = f"SELECT {COLUMNS} FROM {LIVE} WHERE w.id > {above}{of_owner} ORDER BY w.id LIMIT ?"
        return [webhook_from_row(row) for row in self._db.fetch(sql, after, *values, *values, limit)]

    def get(self, name: str, owner: str | None = None) -> Webhook:
        """Return one webhook."""
        rows = self._db.fetch(f"SELECT {COLUMNS} FROM {LIVE} WHERE w.name = ?", name)
        if not rows or (owner is not None and rows[0][2] != owner):
            raise UnknownWebhook(name)
        return webhook_from_row(rows[0])

    def remove(self, name: str, owner: str | None = None) -> None:
        """Delete a webhook and its log."""
        with self._db.transaction():
            delete_webhook(self._db, self.get(name, owner).id)

    def rotate_secret(self, name: str, owner: str | None = None) -> Webhook:
        """Replace the secret; messages are signed with the old one too for a day."""
        with self._db.transaction():
            self.get(name, owner)
            sql = "UPDATE webhook SET old_secret = secret, old_until = ?, secret = ? WHERE name = ?"
            self._db.execute(sql, self._now() + OLD_SECRET_S, new_secret(), name)
            return self.get(name, owner)

    def enable(self, name: str, owner: str | None = None) -> Webhook:
        """Retry the current message immediately and with all its retries, also if the webhook only waits for one."""
        with self._db.transaction():
            self.get(name, owner)
            sql = "UPDATE webhook SET enabled = 1, error = '', failures = 0, due_at = ? WHERE name = ?"
            self._db.execute(sql, self._now(), name)
            return self.get(name, owner)

    def record_attempt(self, webhook: Webhook, attempt: Attempt) -> None:
        """Add an attempt to the log of a webhook, unless the webhook was removed."""
        with self._db.transaction():
            log_attempt(self._db, webhook.id, attempt)

    def attempts(self, name: str, owner: str | None = None) -> list[Attempt]:
        """Return the logged attempts, newest first."""
        number = self.get(name, owner).id
        sql = "SELECT message, matches, at, status, outcome, took_s FROM webhook_attempt WHERE webhook = ?"
        return [Attempt(*row) for row in self._db.fetch(f"{sql} ORDER BY number DESC", number)]


def log_attempt(db: Database, webhook: int, attempt: Attempt) -> None:
    """Add an attempt to the log of a webhook if it exists, and delete old ones; in the transaction of the caller."""
    for (count,) in db.fetch("UPDATE webhook SET attempts = attempts + 1 WHERE id = ? RETURNING attempts", webhook):
        sql = "INSERT INTO webhook_attempt (webhook, number, message, matches, at, status, outcome, took_s)"
        db.execute(f"{sql} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", webhook, count, *attempt)
        db.execute("DELETE FROM webhook_attempt WHERE webhook = ? AND number <= ?", webhook, count - LOGGED_ATTEMPTS)


def delete_webhook(db: Database, webhook: int) -> None:
    """Delete a webhook and its log, in the transaction of the caller."""
    db.execute("DELETE FROM webhook WHERE id = ?", webhook)
    db.execute("DELETE FROM webhook_attempt WHERE webhook = ?", webhook)


def normalize_receiver(url: str) -> str:
    """Return the normalized URL of a receiver. Raises InputError for an invalid one or one with a password."""
    if "://" not in url:
        raise InputError("Webhook URL: must start with https:// or http://.")
    address = normalize_url(url)
    if "@" in address.split("/")[2]:
        raise InputError("Webhook URL: must not contain a user name or password. The signature identifies the sender.")
    return address


def new_secret() -> str:
    """Return 256 random bits, encoded as the Standard Webhooks specification requires."""
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def webhook_from_row(row: Row) -> Webhook:
    values = list(row)
    values[10] = bool(values[10])
    return Webhook(*values)
