"""The secret feed URL of each subscription, under which its matches can be read without a token.

Secrets are stored in plain text because owners look them up. Access to this table gives access to the matches.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

from tidings.store.database import Database
from tidings.store.matches import era_groups
from tidings.store.schema import ERA_BITS
from tidings.store.subscriptions import Subscriptions

_SECRET_BYTES = 24
_TARGET = """SELECT s.id, s.owner, s.query, s.created_at FROM address a JOIN subscription s ON s.id = a.subscription
    WHERE a.secret = ? AND s.removed_at IS NULL"""
# One aggregate per era: its newest cursor is the end of one key range, so the number of matches does not matter.
_NEWEST = """SELECT max(newest) FROM (SELECT (SELECT max(cursor) FROM match m
    WHERE m.era = e.column1 AND m.subscription = ?) AS newest FROM (VALUES {}) AS e) AS of_eras"""
# For most subscriptions the newest match is in the newest era: one query suffices.
_NEWEST_IN_LAST_ERA = f"""SELECT cursor, (SELECT at FROM moment WHERE number >= cursor ORDER BY number LIMIT 1)
    FROM match WHERE era = (SELECT value >> {ERA_BITS} FROM counter WHERE name = 'number') AND subscription = ?
    ORDER BY cursor DESC LIMIT 1"""
_MOMENT = "SELECT at FROM moment WHERE number >= ? ORDER BY number LIMIT 1"


class FeedUrlTarget(NamedTuple):
    """The subscription that a feed URL belongs to."""

    subscription: int
    owner: str
    query: str
    created_at: float


class NewestMatch(NamedTuple):
    """The newest cursor of a subscription (0: no match), and a time by which it was stored, accurate to a minute."""

    cursor: int
    at: float


class FeedUrls:
    """The feed URLs of a store; each is identified by its secret."""

    def __init__(self, database: Database, subscriptions: Subscriptions) -> None:
        self._db, self._subscriptions = database, subscriptions

    def get_or_create(self, subscription: int, owner: str | None = None) -> str:
        """Return the secret of a subscription. Raises UnknownSubscription."""
        self._subscriptions.require(subscription, owner)
        sql = "INSERT INTO address (subscription, secret) VALUES (?, ?) ON CONFLICT (subscription) DO NOTHING"
        while (secret := self.get(subscription)) is None:
            self._db.execute(sql, subscription, _new_secret())
        return secret

    def get(self, subscription: int) -> str | None:
        """Return the secret of a subscription, or None if it was never created. Writes nothing."""
        rows = self._db.fetch("SELECT secret FROM address WHERE subscription = ?", subscription)
        return str(rows[0][0]) if rows else None

    def renew(self, subscription: int, owner: str | None = None) -> str:
        """Replace the secret and return the new one; the old URL stops working."""
        self._subscriptions.require(subscription, owner)
        secret = _new_secret()
        sql = """INSERT INTO address (subscription, secret) VALUES (?, ?)
            ON CONFLICT (subscription) DO UPDATE SET secret = excluded.secret"""
        self._db.execute(sql, subscription, secret)
        return secret

    def find(self, secret: str) -> FeedUrlTarget | None:
        """Return what a secret belongs to, or None."""
        rows = self._db.fetch(_TARGET, secret) if secret.isascii() and "\0" not in secret else []
        return FeedUrlTarget(*rows[0]) if rows else None

    def newest_match(self, target: FeedUrlTarget) -> NewestMatch:
        """Return the newest match; fast for any number of matches."""
        rows = self._db.fetch(_NEWEST_IN_LAST_ERA, target.subscription)
        cursor, at = rows[0] if rows else self._newest_in_any_era(target.subscription)
        return NewestMatch(int(cursor), max(target.created_at, at or 0.0))

    def _newest_in_any_era(self, subscription: int) -> tuple[int, float]:
        for eras in reversed(list(era_groups(self._db))):
            sql = _NEWEST.format(", ".join(f"({era})" for era in eras))
            cursor = self._db.fetch(sql, subscription)[0][0]
            if cursor is not None:
                moment = self._db.fetch(_MOMENT, cursor)
                return int(cursor), moment[0][0] if moment else 0.0
        return 0, 0.0


def _new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)
