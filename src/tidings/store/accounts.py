"""Owners, the tokens they show, and how much each may have. Of a token only its hash is kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from tidings.errors import InputError, QuotaExceeded, UnknownOwner
from tidings.store import subscriptions
from tidings.store.database import Database, Row
from tidings.store.rows import DAY_S, NewSubscription, Region

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_TOKEN_PREFIX = "tidings_"  # so that who finds one in a file, or scans for them, knows what it is
_TOKEN_BYTES = 32
_DISGUISE_CHARACTERS = 16
_COLUMNS = "o.name, o.created_at, o.max_subscriptions, o.max_feeds, o.max_posts_a_day"
_LIST = f"""SELECT {_COLUMNS}, (SELECT count(*) FROM token t WHERE t.owner = o.name),
    (SELECT count(*) FROM subscription s WHERE s.owner = o.name AND s.removed_at IS NULL),
    (SELECT coalesce(sum(posts), 0) FROM published p WHERE p.owner = o.name AND p.day = ?) FROM owner o"""
_PUBLISH = """INSERT INTO published (owner, day, posts) VALUES (?, ?, ?)
    ON CONFLICT (owner, day) DO UPDATE SET posts = published.posts + excluded.posts"""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The most an owner may have."""

    subscriptions: int = 1_000
    feeds: int = 1_000
    posts_a_day: int = 100_000


@dataclass(frozen=True, slots=True)
class Account:
    """An owner: how much it may have, and how much it has. The day of ``posts_today`` is that of UTC."""

    name: str
    created_at: float
    quotas: Quotas
    tokens: int
    subscriptions: int
    posts_today: int


class Accounts:
    """The owners of a store."""

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._db, self._now = database, now
        self._key = b""

    def add(self, name: str, quotas: Quotas = Quotas()) -> str:
        """A new owner; its first token, which is told only now. InputError where the name is taken or is none."""
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{name!r} cannot be an owner: use up to 64 small letters, digits, '.', '_' and '-', the first a "
                "letter or digit."
            )
        with self._db.write():
            if self._db.rows("SELECT 1 FROM owner WHERE name = ?", name):
                raise InputError(
                    f"There is an owner {name} already; `tidings owner token {name}` gives it a new token."
                )
            sql = "INSERT INTO owner (name, created_at, max_subscriptions, max_feeds, max_posts_a_day)"
            limits = (quotas.subscriptions, quotas.feeds, quotas.posts_a_day)
            self._db.run(f"{sql} VALUES (?, ?, ?, ?, ?)", name, self._now(), *limits)
            return self._new_token(name)

    def add_first(self, name: str) -> str | None:
        """An owner where there is none at all: its token; else None."""
        return None if self._db.rows("SELECT 1 FROM owner LIMIT 1") else self.add(name)

    def new_token(self, name: str) -> str:
        """One more token, told only now; those given before stay good."""
        with self._db.write():
            self._known(name)
            return self._new_token(name)

    def _new_token(self, name: str) -> str:
        token = _TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
        sql = "INSERT INTO token (hash, owner, created_at) VALUES (?, ?, ?)"
        self._db.run(sql, _hashed(token), name, self._now())
        return token

    def revoke(self, name: str) -> int:
        """End all its tokens; how many there were."""
        with self._db.write():
            self._known(name)
            return self._db.run("DELETE FROM token WHERE owner = ?", name)

    def remove(self, name: str) -> None:
        """Forget the owner, its tokens and its subscriptions."""
        with self._db.write():
            self._known(name)
            subscriptions.remove_all(self._db, name, self._now())
            for table in ("token", "published"):
                self._db.run(f"DELETE FROM {table} WHERE owner = ?", name)
            self._db.run("DELETE FROM owner WHERE name = ?", name)

    def set_quotas(self, name: str, quotas: Quotas) -> None:
        with self._db.write():
            self._known(name)
            sql = "UPDATE owner SET max_subscriptions = ?, max_feeds = ?, max_posts_a_day = ? WHERE name = ?"
            self._db.run(sql, quotas.subscriptions, quotas.feeds, quotas.posts_a_day, name)

    def _known(self, name: str) -> None:
        if not self._db.rows("SELECT 1 FROM owner WHERE name = ?", name):
            raise UnknownOwner(name)

    def all(self) -> list[Account]:
        """Every owner, by name."""
        return [_account(row) for row in self._db.rows(f"{_LIST} ORDER BY o.name", self._day())]

    def account(self, name: str) -> Account:
        """One owner; UnknownOwner if there is none of that name."""
        for row in self._db.rows(f"{_LIST} WHERE o.name = ?", self._day(), name):
            return _account(row)
        raise UnknownOwner(name)

    def owner_of(self, token: str) -> str | None:
        """Whose token it is; None if nobody's (any more)."""
        found = self._db.rows("SELECT owner FROM token WHERE hash = ?", _hashed(token))
        return str(found[0][0]) if found else None

    def disguised(self, name: str, number: int) -> str:
        """A number as it is told to one owner: it says nothing about other numbers, or who else is told of it."""
        self._key = self._key or self._kept_key()
        return hmac.new(self._key, f"{name}/{number}".encode(), "sha256").hexdigest()[:_DISGUISE_CHARACTERS]

    def _kept_key(self) -> bytes:
        """Of this store, made when first asked for."""
        sql = "INSERT INTO secret (name, value) VALUES ('disguise', ?) ON CONFLICT (name) DO NOTHING"
        while not (found := self._db.rows("SELECT value FROM secret WHERE name = 'disguise'")):
            self._db.run(sql, secrets.token_hex(_TOKEN_BYTES))
        return bytes.fromhex(found[0][0])

    def subscribe(self, name: str, query: str, region: Region | None = None) -> int:
        """As `Store.subscribe`, within the owner's quota; QuotaExceeded beyond it."""
        limit = self.account(name).quotas.subscriptions
        number = subscriptions.subscribe_within(self._db, NewSubscription(query, name, region), limit, self._now())
        if number is None:
            raise QuotaExceeded(f"You may have {limit:,} subscriptions and have them all; delete one first.")
        return number

    def publish(self, name: str, posts: int) -> None:
        """Count posts that come today; QuotaExceeded, and nothing counted, if they are more than may come."""
        now, day = self._now(), self._day()
        with self._db.write():
            self._db.run("DELETE FROM published WHERE owner = ? AND day < ?", name, day)
            account = self.account(name)
            left = account.quotas.posts_a_day - account.posts_today
            if posts > left:
                raise QuotaExceeded(
                    f"You may publish {account.quotas.posts_a_day:,} posts a day, and {max(left, 0):,} are left of "
                    "today (UTC); go on tomorrow.",
                    retry_after_s=(day + 1) * DAY_S - now,
                )
            self._db.run(_PUBLISH, name, day, posts)

    def take_back(self, name: str, posts: int) -> None:
        """Posts that were counted today and could not come after all."""
        sql = "UPDATE published SET posts = posts - ? WHERE owner = ? AND day = ? AND posts >= ?"
        self._db.run(sql, posts, name, self._day(), posts)

    def _day(self) -> int:
        return int(self._now() // DAY_S)


def _hashed(token: str) -> str:
    """A token has 256 random bits, so a plain hash cannot be turned back by trying."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _account(row: Row) -> Account:
    name, created_at, subscriptions_, feeds, posts_a_day, tokens, subscribed, posts_today = row
    quotas = Quotas(int(subscriptions_), int(feeds), int(posts_a_day))
    return Account(name, created_at, quotas, int(tokens), int(subscribed), int(posts_today))
