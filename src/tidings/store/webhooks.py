"""Webhooks as their owners see them: where matches are sent, with which secret, and how it went.

A secret is kept as it is, for messages are signed with it. Who can read this table can read the matches too.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from tidings.errors import InputError, QuotaExceeded, UnknownWebhook
from tidings.net.urls import checked_url
from tidings.store import subscriptions
from tidings.store.commit import counter
from tidings.store.database import Database, Row
from tidings.store.queries import last_number
from tidings.store.rows import DAY_S

MAX_A_SUBSCRIPTION = 10
KEPT_ATTEMPTS = 100
"""Of each hook, in its log."""
OLD_SECRET_S = DAY_S
"""How long messages are signed with the secret before, too."""
_SECRET_PREFIX, _SECRET_BYTES = "whsec_", 32
_NAME_BYTES = 12
COLUMNS = """w.id, w.subscription, w.owner, w.url, w.host, w.name, w.secret, w.old_secret, w.old_until, w.created_at,
    w.enabled, w.error, w.cursor, w.pending, w.failures, w.due_at, w.attempts, w.messages, w.matches, w.delivered_at"""
LIVE = "webhook w JOIN subscription s ON s.id = w.subscription AND s.removed_at IS NULL"

State = Literal["active", "retrying", "disabled"]


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook. All matches up to ``cursor`` are delivered; those up to ``pending`` are the message on its way.

    Its owner knows it by its ``name``, which says nothing about how many others there are.
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
    def state(self) -> State:
        if not self.enabled:
            return "disabled"
        return "retrying" if self.failures else "active"

    def secrets(self, now: float) -> list[str]:
        """Those to sign with, the newest first."""
        old = self.old_secret if self.old_until is not None and now < self.old_until else None
        return [self.secret] if old is None else [self.secret, old]


class Attempt(NamedTuple):
    """One attempt to deliver a message; ``status`` is None where no server answered."""

    message: str
    matches: int
    at: float
    status: int | None
    outcome: str
    took_s: float


class Webhooks:
    """The webhooks of a store. UnknownWebhook where one is not there, or its subscription is not this owner's."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._db, self._now = database, now

    def add(self, subscription: int, url: str, owner: str | None = None, after: int | None = None) -> Webhook:
        """Send the matches of a subscription to an address: those after a cursor, or (None) those to come."""
        address = checked_receiver(url)
        with self._db.write():
            subscriptions.live(self._db, subscription, owner)
            if len(self.of(subscription, owner)) >= MAX_A_SUBSCRIPTION:
                raise QuotaExceeded(f"A subscription has at most {MAX_A_SUBSCRIPTION} webhooks; delete one first.")
            number = counter(self._db, "webhook", 1) + 1
            last = last_number(self._db)
            cursor = last if after is None else min(after, last)
            self._db.run(
                """INSERT INTO webhook (id, subscription, owner, url, host, name, secret, created_at, enabled, error,
                    cursor, failures, due_at, attempts, messages, matches)
                SELECT ?, id, owner, ?, ?, ?, ?, ?, 1, '', ?, 0, ?, 0, 0, 0 FROM subscription WHERE id = ?""",
                *(number, address, urlsplit(address).hostname or "", secrets.token_hex(_NAME_BYTES), new_secret()),
                *(self._now(), cursor, self._now(), subscription),
            )
            return webhook(self._db.rows(f"SELECT {COLUMNS} FROM webhook w WHERE w.id = ?", number)[0])

    def of(self, subscription: int, owner: str | None = None) -> list[Webhook]:
        """Those of a subscription; UnknownSubscription unless it is there and this owner's."""
        subscriptions.live(self._db, subscription, owner)
        found = self._db.rows(f"SELECT {COLUMNS} FROM webhook w WHERE w.subscription = ? ORDER BY w.id", subscription)
        return [webhook(row) for row in found]

    def page(self, owner: str | None, after: str = "", limit: int = 100) -> list[Webhook]:
        """The next few of an owner (None: of all) after one of them, in the order in which they were made."""
        theirs, who = ("", ()) if owner is None else (" AND owner = ?", (owner,))
        above = f"coalesce((SELECT id FROM webhook WHERE name = ?{theirs}), 0)"
        mine = theirs.replace("owner", "w.owner")
        sql = f"SELECT {COLUMNS} FROM {LIVE} WHERE w.id > {above}{mine} ORDER BY w.id LIMIT ?"
        return [webhook(row) for row in self._db.rows(sql, after, *who, *who, limit)]

    def get(self, name: str, owner: str | None = None) -> Webhook:
        """One of them."""
        found = self._db.rows(f"SELECT {COLUMNS} FROM {LIVE} WHERE w.name = ?", name)
        if not found or (owner is not None and found[0][2] != owner):
            raise UnknownWebhook(name)
        return webhook(found[0])

    def remove(self, name: str, owner: str | None = None) -> None:
        """Nothing is sent there from now on."""
        with self._db.write():
            forget(self._db, self.get(name, owner).id)

    def rotate(self, name: str, owner: str | None = None) -> Webhook:
        """Give it a new secret; for a day the one before signs, too."""
        with self._db.write():
            self.get(name, owner)
            sql = "UPDATE webhook SET old_secret = secret, old_until = ?, secret = ? WHERE name = ?"
            self._db.run(sql, self._now() + OLD_SECRET_S, new_secret(), name)
            return self.get(name, owner)

    def enable(self, name: str, owner: str | None = None) -> Webhook:
        """Go on with the message it stopped at, at once and with all its retries; also where it waits for the next."""
        with self._db.write():
            self.get(name, owner)
            sql = "UPDATE webhook SET enabled = 1, error = '', failures = 0, due_at = ? WHERE name = ?"
            self._db.run(sql, self._now(), name)
            return self.get(name, owner)

    def note(self, hook: Webhook, attempt: Attempt) -> None:
        """Add an attempt to the log, unless the hook was removed meanwhile."""
        with self._db.write():
            log(self._db, hook.id, attempt)

    def log(self, name: str, owner: str | None = None) -> list[Attempt]:
        """The last attempts, the newest first."""
        number = self.get(name, owner).id
        sql = "SELECT message, matches, at, status, outcome, took_s FROM webhook_attempt WHERE webhook = ?"
        return [Attempt(*row) for row in self._db.rows(f"{sql} ORDER BY number DESC", number)]


def log(db: Database, number: int, attempt: Attempt) -> None:
    """Add an attempt to the log of a hook that is there, and forget the oldest; in the transaction of the caller."""
    for (count,) in db.rows("UPDATE webhook SET attempts = attempts + 1 WHERE id = ? RETURNING attempts", number):
        sql = "INSERT INTO webhook_attempt (webhook, number, message, matches, at, status, outcome, took_s)"
        db.run(f"{sql} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", number, count, *attempt)
        db.run("DELETE FROM webhook_attempt WHERE webhook = ? AND number <= ?", number, count - KEPT_ATTEMPTS)


def forget(db: Database, number: int) -> None:
    """Forget a hook and its log, in the transaction of the caller."""
    db.run("DELETE FROM webhook WHERE id = ?", number)
    db.run("DELETE FROM webhook_attempt WHERE webhook = ?", number)


def checked_receiver(url: str) -> str:
    """The address in its usual spelling; InputError unless HTTP can send there."""
    address = checked_url(url)
    if "@" in address.split("/")[2]:
        raise InputError("An address with a name and password is refused; the signature proves who sends.")
    return address


def new_secret() -> str:
    """256 random bits, as the Standard Webhooks specification writes them."""
    return _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def webhook(row: Row) -> Webhook:
    values = list(row)
    values[10] = bool(values[10])
    return Webhook(*values)
