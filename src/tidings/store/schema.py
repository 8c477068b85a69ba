"""The schema of a store as numbered migrations, one text for SQLite and PostgreSQL.

Placeholders mark the differences: ``{key}`` is an integer primary key, ``{clustered}`` stores rows in key order,
``{exact}`` compares texts byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidings.errors import StoreDamaged

ERA_BITS = 18
"""Matches lie on disk by era (2^18 numbers), subscription and cursor.

A batch has matches of many subscriptions; without eras each match would change another page of a growing table.
"""

_FIRST = """
CREATE TABLE counter (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO counter (name, value) VALUES
    ('subscription', 0), ('position', 0), ('forgotten', 0), ('number', 0), ('posts', 0), ('rejected', 0);

CREATE TABLE subscription (
    id {key}, owner TEXT NOT NULL, query TEXT NOT NULL,
    west DOUBLE PRECISION, south DOUBLE PRECISION, east DOUBLE PRECISION, north DOUBLE PRECISION,
    created_at DOUBLE PRECISION NOT NULL, removed_at DOUBLE PRECISION);
CREATE INDEX subscription_owner ON subscription (owner, id);
CREATE TABLE subscription_change (
    position {key}, kind TEXT NOT NULL, subscription BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL);

CREATE TABLE post (
    number {key}, id TEXT{exact} NOT NULL, id_kind SMALLINT NOT NULL, arrived_at DOUBLE PRECISION NOT NULL,
    refs BIGINT NOT NULL, text TEXT, time TEXT, author TEXT, lang TEXT,
    lat DOUBLE PRECISION, lon DOUBLE PRECISION, tags TEXT, title TEXT, link TEXT, UNIQUE (id, id_kind));
CREATE TABLE match (
    era BIGINT NOT NULL, subscription BIGINT NOT NULL, cursor BIGINT NOT NULL, post BIGINT NOT NULL,
    index_version BIGINT NOT NULL, batch BIGINT NOT NULL, PRIMARY KEY (era, subscription, cursor)){clustered};
CREATE UNIQUE INDEX match_late ON match (post, subscription) WHERE cursor <> post;
CREATE TABLE tally (subscription {key}, kept BIGINT NOT NULL);
CREATE TABLE moment (minute {key}, at DOUBLE PRECISION NOT NULL, number BIGINT NOT NULL);

CREATE TABLE batch (
    stream TEXT NOT NULL, batch BIGINT NOT NULL, index_version BIGINT NOT NULL, plan_version BIGINT NOT NULL,
    state TEXT NOT NULL, started_at DOUBLE PRECISION NOT NULL, finished_at DOUBLE PRECISION,
    posts BIGINT NOT NULL, matches BIGINT NOT NULL, rejected BIGINT NOT NULL, figures TEXT NOT NULL,
    PRIMARY KEY (stream, batch));
CREATE TABLE rejected (
    number {key}, stream TEXT NOT NULL, batch BIGINT NOT NULL, source TEXT, source_row BIGINT,
    reason TEXT NOT NULL, excerpt TEXT);
"""

_SHEDDING = """
ALTER TABLE batch ADD COLUMN shed TEXT NOT NULL DEFAULT '';
CREATE TABLE withheld (kind TEXT NOT NULL, name TEXT NOT NULL, count BIGINT NOT NULL, PRIMARY KEY (kind, name));
INSERT INTO counter (name, value) VALUES ('relearn asked', 0), ('relearn done', 0);
"""

_OWNERS = """
CREATE TABLE owner (
    name TEXT{exact} PRIMARY KEY, created_at DOUBLE PRECISION NOT NULL,
    max_subscriptions BIGINT NOT NULL, max_feeds BIGINT NOT NULL, max_posts_a_day BIGINT NOT NULL);
CREATE TABLE token (hash TEXT{exact} PRIMARY KEY, owner TEXT{exact} NOT NULL, created_at DOUBLE PRECISION NOT NULL);
CREATE INDEX token_owner ON token (owner);
CREATE TABLE address (subscription {key}, secret TEXT{exact} NOT NULL UNIQUE);
CREATE TABLE published (
    owner TEXT{exact} NOT NULL, day BIGINT NOT NULL, posts BIGINT NOT NULL, PRIMARY KEY (owner, day));
CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE INDEX moment_number ON moment (number);
"""

_FEEDS = """
CREATE TABLE feed (
    id {key}, url TEXT{exact} NOT NULL UNIQUE, title TEXT NOT NULL, site TEXT NOT NULL, state TEXT NOT NULL,
    added_at DOUBLE PRECISION NOT NULL, checked_at DOUBLE PRECISION, due_at DOUBLE PRECISION,
    error TEXT NOT NULL, articles BIGINT NOT NULL, visit TEXT NOT NULL);
CREATE INDEX feed_due ON feed (due_at);
CREATE TABLE feed_known (feed {key}, known TEXT NOT NULL);
CREATE TABLE feed_moved (url TEXT{exact} PRIMARY KEY, feed BIGINT NOT NULL);
CREATE INDEX feed_moved_to ON feed_moved (feed);
CREATE TABLE feed_owner (
    feed BIGINT NOT NULL, owner TEXT NOT NULL, title TEXT NOT NULL, added_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (feed, owner));
CREATE INDEX feed_owner_name ON feed_owner (owner, feed);
CREATE TABLE outbox (number {key}, posts TEXT NOT NULL);
INSERT INTO counter (name, value) VALUES ('feed', 0), ('outbox', 0);
"""

_WEBHOOKS = """
CREATE TABLE webhook (
    id {key}, subscription BIGINT NOT NULL, owner TEXT{exact} NOT NULL, url TEXT NOT NULL, host TEXT{exact} NOT NULL,
    name TEXT{exact} NOT NULL UNIQUE, secret TEXT NOT NULL, old_secret TEXT, old_until DOUBLE PRECISION,
    created_at DOUBLE PRECISION NOT NULL, enabled BIGINT NOT NULL, error TEXT NOT NULL,
    cursor BIGINT NOT NULL, pending BIGINT, failures BIGINT NOT NULL, due_at DOUBLE PRECISION,
    attempts BIGINT NOT NULL, messages BIGINT NOT NULL, matches BIGINT NOT NULL, delivered_at DOUBLE PRECISION);
CREATE INDEX webhook_subscription ON webhook (subscription);
CREATE INDEX webhook_owner ON webhook (owner, id);
CREATE INDEX webhook_due ON webhook (due_at);
CREATE TABLE webhook_attempt (
    webhook BIGINT NOT NULL, number BIGINT NOT NULL, message TEXT NOT NULL, matches BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL, status BIGINT, outcome TEXT NOT NULL, took_s DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (webhook, number)){clustered};
INSERT INTO counter (name, value) VALUES ('webhook', 0), ('webhooks told', 0);
"""

_SHAPES = """
ALTER TABLE subscription ADD COLUMN shape TEXT;
"""

_GIVEN_URLS = """
ALTER TABLE feed_owner ADD COLUMN given TEXT NOT NULL DEFAULT '';
"""

# Feeds without articles are read from the beginning: items that were not found before are their backlog.
_BACKLOG = """
CREATE TABLE backlog_post (id TEXT{exact} PRIMARY KEY, added_at DOUBLE PRECISION NOT NULL);
UPDATE feed SET visit = '{{}}' WHERE articles = 0;
"""

_COSTS = """
ALTER TABLE subscription ADD COLUMN cost BIGINT NOT NULL DEFAULT 1;
ALTER TABLE owner ADD COLUMN max_cost BIGINT NOT NULL DEFAULT 20000;
"""

# Queries from before costs were stored cost 1 per 16 characters, the minimum of `query/cost.py`: parsing every query in
# the transaction of a migration would stop the service for minutes.
_PRICES = """
UPDATE subscription SET cost = LENGTH(query) / 16 WHERE cost = 1 AND LENGTH(query) >= 32;
"""

MIGRATIONS: tuple[str, ...] = (
    _FIRST, _SHEDDING, _FEEDS, _OWNERS, _WEBHOOKS, _SHAPES, _GIVEN_URLS, _BACKLOG, _COSTS, _PRICES,
)  # fmt: skip
"""Migration n takes a store from version n to n + 1. A released migration is never edited."""


def split_statements(migration: str, dialect: dict[str, str]) -> list[str]:
    """Return the statements of a migration in the dialect of one database."""
    filled = migration.format(**dialect)
    return [statement.strip() for statement in filled.split(";") if statement.strip()]


def is_current(location: object, versions: Sequence[int], dialect: dict[str, str]) -> bool:
    """Return whether a store of this version (empty: a new store) needs no migration. Raises for a newer version."""
    statements: list[str] = []
    for version in versions:
        migrate(location, version, statements.append, dialect)
    return bool(versions) and not statements


def migrate(
    location: object,
    version: int,
    execute: Callable[[str], object],
    dialect: dict[str, str],
    migrations: Sequence[str] = MIGRATIONS,
) -> int:
    """Migrate a store in the transaction of the caller and return its new version. Raises for a newer version."""
    if version > len(migrations):
        raise StoreDamaged(
            location,
            f"the store has version {version}; this Tidings supports versions up to {len(migrations)}. "
            "Use a newer Tidings",
        )
    for migration in migrations[version:]:
        for statement in split_statements(migration, dialect):
            execute(statement)
    return len(migrations)
