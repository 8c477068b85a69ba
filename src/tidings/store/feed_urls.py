"""The secret address of each subscription, at which anybody who knows it may read its matches; and what is new there.

An address is kept as it is, for its owner wants to see it again. Who can read this table can read the matches too.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from tidings.store import subscriptions
from tidings.store.database import Database
from tidings.store.queries import era_groups
from tidings.store.schema import ERA_BITS

_SECRET_BYTES = 24
_ADDRESSED = """SELECT s.id, s.owner, s.query, s.created_at FROM address a JOIN subscription s ON s.id = a.subscription
    WHERE a.secret = ? AND s.removed_at IS NULL"""
# An aggregate for each era: its newest cursor is the end of one range of the key, however many matches there are.
_NEWEST = """SELECT max(newest) FROM (SELECT (SELECT max(cursor) FROM match m
    WHERE m.era = e.column1 AND m.subscription = ?) AS newest FROM (VALUES {}) AS e) AS of_eras"""


# Of most subscriptions it is in the newest era, and then one look is enough.
_NEWEST_NOW = f"""SELECT cursor, (SELECT at FROM moment WHERE number >= cursor ORDER BY number LIMIT 1) FROM match
    WHERE era = (SELECT value >> {ERA_BITS} FROM counter WHERE name = 'number') AND subscription = ?
    ORDER BY cursor DESC LIMIT 1"""
_MOMENT = "SELECT at FROM moment WHERE number >= ? ORDER BY number LIMIT 1"


class Addressed(NamedTuple):
    """The subscription behind an address."""

    subscription: int
    owner: str
    query: str
    created_at: float


class Newest(NamedTuple):
    """The last match of a subscription (0: none yet), and a time by which it was stored, exact to a minute."""

    cursor: int
    at: float


class Addresses:
    """The addresses of a store."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def of(self, subscription: int, owner: str | None = None) -> str:
        """Its address, made when first asked for; UnknownSubscription unless it is there and this owner's."""
        subscriptions.live(self._db, subscription, owner)
        sql = "INSERT INTO address (subscription, secret) VALUES (?, ?) ON CONFLICT (subscription) DO NOTHING"
        while (secret := self.known(subscription)) is None:
            self._db.run(sql, subscription, _new())
        return secret

    def known(self, subscription: int) -> str | None:
        """Its address if it was ever asked for; nothing is written."""
        found = self._db.rows("SELECT secret FROM address WHERE subscription = ?", subscription)
        return str(found[0][0]) if found else None

    def renew(self, subscription: int, owner: str | None = None) -> str:
        """Another address; the one before is good for nothing from now on."""
        subscriptions.live(self._db, subscription, owner)
        secret = _new()
        sql = """INSERT INTO address (subscription, secret) VALUES (?, ?)
            ON CONFLICT (subscription) DO UPDATE SET secret = excluded.secret"""
        self._db.run(sql, subscription, secret)
        return secret

    def find(self, secret: str) -> Addressed | None:
        """What an address leads to; None if nowhere (any more)."""
        found = self._db.rows(_ADDRESSED, secret) if secret.isascii() and "\0" not in secret else []
        return Addressed(*found[0]) if found else None

    def newest(self, found: Addressed) -> Newest:
        """What is new there; quick however much there is."""
        now = self._db.rows(_NEWEST_NOW, found.subscription)
        cursor, at = now[0] if now else self._newest_ever(found.subscription)
        return Newest(int(cursor), max(found.created_at, at or 0.0))

    def _newest_ever(self, subscription: int) -> tuple[int, float]:
        for eras in reversed(list(era_groups(self._db))):
            sql = _NEWEST.format(", ".join(f"({era})" for era in eras))
            cursor = self._db.rows(sql, subscription)[0][0]
            if cursor is not None:
                at = self._db.rows(_MOMENT, cursor)
                return int(cursor), at[0][0] if at else 0.0
        return 0, 0.0


def _new() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)
