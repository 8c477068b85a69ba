"""Owners, their tokens and their quotas. Only the hash of a token is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidings.errors import InputError, QuotaExceeded, UnknownOwner
from tidings.store.database import Database, Row
from tidings.store.owner_names import check_lookalike, check_name, find_invalid_names
from tidings.store.rows import DAY_S, NewSubscription, Region
from tidings.store.subscriptions import Subscriptions, Usage

_TOKEN_PREFIX = "tidings_"  # identifies a token that turns up in a file or in a scan for secrets
_TOKEN_BYTES = 32
_OPAQUE_ID_CHARACTERS = 16
_COLUMNS = "o.name, o.created_at, o.max_subscriptions, o.max_feeds, o.max_posts_a_day, o.max_cost"
_SELECT = f"""SELECT {_COLUMNS}, (SELECT count(*) FROM token t WHERE t.owner = o.name),
    (SELECT count(*) FROM subscription s WHERE s.owner = o.name AND s.removed_at IS NULL),
    (SELECT coalesce(sum(cost), 0) FROM subscription s WHERE s.owner = o.name AND s.removed_at IS NULL),
    (SELECT coalesce(sum(posts), 0) FROM published p WHERE p.owner = o.name AND p.day = ?) FROM owner o"""
_COUNT_POSTS = """INSERT INTO published (owner, day, posts) VALUES (?, ?, ?)
    ON CONFLICT (owner, day) DO UPDATE SET posts = published.posts + excluded.posts"""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The limits of an owner."""

    subscriptions: int = 1_000
    feeds: int = 1_000
    posts_per_day: int = 100_000
    query_cost: int = 20_000  # of all subscriptions together, in units of `query/cost.py`


@dataclass(frozen=True, slots=True)
class Account:
    """An owner with quotas and usage. ``posts_today`` counts since midnight UTC."""

    name: str
    created_at: float
    quotas: Quotas
    tokens: int
    subscriptions: int
    query_cost: int
    posts_today: int


class Accounts:
    """The owners of a store. Methods that take a name raise UnknownOwner if there is no such owner."""

    def __init__(self, database: Database, clock: Callable[[], float], subscriptions: Subscriptions) -> None:
        self._db, self._now, self._subscriptions = database, clock, subscriptions
        self._opaque_id_key = b""

    def add(self, name: str, quotas: Quotas = Quotas()) -> str:
        """Add an owner and return its first token, which cannot be read again.

        Raises InputError for a name that is not valid, exists, or looks like one that exists.
        """
        check_name(name)
        with self._db.transaction():
            self._check_new(name)
            sql = "INSERT INTO owner (name, created_at, max_subscriptions, max_feeds, max_posts_a_day, max_cost)"
            limits = (quotas.subscriptions, quotas.feeds, quotas.posts_per_day, quotas.query_cost)
            self._db.execute(f"{sql} VALUES (?, ?, ?, ?, ?, ?)", name, self._now(), *limits)
            return self._insert_token(name)

    def _check_new(self, name: str) -> None:
        for (other,) in self._db.fetch("SELECT name FROM owner ORDER BY name"):
            if other == name:
                raise InputError(f"Owner {name} exists already. `tidings owners token {name}` creates a new token.")
            check_lookalike(name, other)

    def find_invalid_owners(self, names: Iterable[str]) -> dict[str, str]:
        """Return the names that nobody has yet and that a new owner cannot get, with the reasons.

        A subscription or a feed may belong to a name without account. Such a name stays valid once it is used.
        """
        owners = [str(name) for (name,) in self._db.fetch("SELECT name FROM owner ORDER BY name")]
        invalid = find_invalid_names(names, owners)
        return {name: reason for name, reason in invalid.items() if not self._is_used(name)}

    def _is_used(self, name: str) -> bool:
        tables = ("subscription", "feed_owner")
        return any(self._db.fetch(f"SELECT 1 FROM {table} WHERE owner = ? LIMIT 1", name) for table in tables)

    def add_first(self, name: str) -> str | None:
        """Add an owner and return its token if the store has no owner, else return None."""
        return None if self._db.fetch("SELECT 1 FROM owner LIMIT 1") else self.add(name)

    def add_token(self, name: str) -> str:
        """Create another token and return it; it cannot be read again, and older tokens stay valid."""
        with self._db.transaction():
            self._require(name)
            return self._insert_token(name)

    def _insert_token(self, name: str) -> str:
        token = _TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        sql = "INSERT INTO token (hash, owner, created_at) VALUES (?, ?, ?)"
        self._db.execute(sql, _hash(token), name, self._now())
        return token

    def revoke_tokens(self, name: str) -> int:
        """Delete all tokens of an owner and return their number."""
        with self._db.transaction():
            self._require(name)
            return self._db.execute("DELETE FROM token WHERE owner = ?", name)

    def remove(self, name: str) -> None:
        """Delete an owner with its tokens and subscriptions."""
        with self._db.transaction():
            self._require(name)
            self._subscriptions.remove_all(name)
            for table in ("token", "published"):
                self._db.execute(f"DELETE FROM {table} WHERE owner = ?", name)
            self._db.execute("DELETE FROM owner WHERE name = ?", name)

    def set_quotas(self, name: str, quotas: Quotas) -> None:
        with self._db.transaction():
            self._require(name)
            limits = (quotas.subscriptions, quotas.feeds, quotas.posts_per_day, quotas.query_cost)
            columns = "max_subscriptions = ?, max_feeds = ?, max_posts_a_day = ?, max_cost = ?"
            self._db.execute(f"UPDATE owner SET {columns} WHERE name = ?", *limits, name)

    def _require(self, name: str) -> None:
        if not self._db.fetch("SELECT 1 FROM owner WHERE name = ?", name):
            raise UnknownOwner(name)

    def all(self) -> list[Account]:
        """Return all owners, by name."""
        return [_from_row(row) for row in self._db.fetch(f"{_SELECT} ORDER BY o.name", self._today())]

    def get(self, name: str) -> Account:
        """Return one owner."""
        for row in self._db.fetch(f"{_SELECT} WHERE o.name = ?", self._today(), name):
            return _from_row(row)
        raise UnknownOwner(name)

    def owner_of(self, token: str) -> str | None:
        """Return the owner of a token, or None if the token is not valid."""
        rows = self._db.fetch("SELECT owner FROM token WHERE hash = ?", _hash(token))
        return str(rows[0][0]) if rows else None

    def opaque_id(self, name: str, number: int) -> str:
        """Return an id for a shared row that only this owner gets: owners cannot compare or count them."""
        self._opaque_id_key = self._opaque_id_key or self._load_key()
        return hmac.new(self._opaque_id_key, f"{name}/{number}".encode(), "sha256").hexdigest()[:_OPAQUE_ID_CHARACTERS]

    def derive_key(self, purpose: str) -> str:
        """Return a secret key of this store for a purpose, as 64 hexadecimal digits."""
        self._opaque_id_key = self._opaque_id_key or self._load_key()
        return hmac.new(self._opaque_id_key, purpose.encode(), "sha256").hexdigest()

    def _load_key(self) -> bytes:
        """Return the key of this store; create it on first use."""
        sql = "INSERT INTO secret (name, value) VALUES ('disguise', ?) ON CONFLICT (name) DO NOTHING"
        while not (rows := self._db.fetch("SELECT value FROM secret WHERE name = 'disguise'")):
            self._db.execute(sql, secrets.token_hex(_TOKEN_BYTES))
        return bytes.fromhex(rows[0][0])

    def subscribe(self, name: str, query: str, region: Region | None = None, cost: int = 1) -> int:
        """Add a subscription within the quotas of its owner and return its id. Raises QuotaExceeded."""
        quotas = self.get(name).quotas
        new = NewSubscription(query, name, region, cost)
        return self._subscriptions.add_within(new, lambda used: _check_quotas(quotas, used, cost))

    def count_posts(self, name: str, posts: int) -> None:
        """Count published posts against today's quota. Raises QuotaExceeded, and counts none, if they exceed it."""
        now, today = self._now(), self._today()
        with self._db.transaction():
            self._db.execute("DELETE FROM published WHERE owner = ? AND day < ?", name, today)
            account = self.get(name)
            limit = account.quotas.posts_per_day
            left = max(limit - account.posts_today, 0)
            if posts > left:
                raise QuotaExceeded(
                    f"Daily post quota reached ({limit:,}, {left:,} left). It resets at 00:00 UTC.",
                    retry_after_s=(today + 1) * DAY_S - now,
                )
            self._db.execute(_COUNT_POSTS, name, today, posts)

    def uncount_posts(self, name: str, posts: int) -> None:
        """Undo `count_posts` of today, for posts that could not be published."""
        sql = "UPDATE published SET posts = posts - ? WHERE owner = ? AND day = ? AND posts >= ?"
        self._db.execute(sql, posts, name, self._today(), posts)

    def _today(self) -> int:
        return int(self._now() // DAY_S)


def _check_quotas(quotas: Quotas, used: Usage, cost: int) -> None:
    """Raise QuotaExceeded if a subscription of this cost cannot be added to what is used."""
    if used.subscriptions >= quotas.subscriptions:
        raise QuotaExceeded(f"Subscription quota reached ({quotas.subscriptions:,}). Delete a subscription first.")
    if used.cost + cost > quotas.query_cost:
        raise QuotaExceeded(
            f"Query cost quota reached: this query costs {cost:,}, and {used.cost:,} of {quotas.query_cost:,} are "
            "used. Use fewer words in ORs, or delete a subscription first."
        )


def _hash(token: str) -> str:
    """A token has 256 random bits, so a plain hash cannot be reversed by guessing."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _from_row(row: Row) -> Account:
    name, created_at, *numbers = row
    max_subscriptions, max_feeds, max_posts, max_cost, tokens, subscriptions, cost, posts_today = map(int, numbers)
    quotas = Quotas(max_subscriptions, max_feeds, max_posts, max_cost)
    return Account(name, created_at, quotas, tokens, subscriptions, cost, posts_today)
