"""The schema of a store as numbered steps, one text for SQLite and PostgreSQL.

What differs stands in braces: ``{key}`` is a whole-number primary key, ``{clustered}`` keeps the rows in the order of
their key, ``{exact}`` compares texts byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidings.errors import StoreDamaged

ERA_BITS = 18
"""Matches lie on disk by era (2^18 numbers), subscription and cursor.

A batch hits subscriptions all over; without eras each of its matches would dirty another page of an ever larger table.
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

_SHAPES = """
ALTER TABLE subscription ADD COLUMN shape TEXT;
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _SHEDDING, _SHAPES)
"""Step n takes a store from version n to n + 1. A step that was released is never edited."""


def statements(step: str, words: dict[str, str]) -> list[str]:
    """The statements of a step in the words of one database."""
    filled = step.format(**words)
    return [statement.strip() for statement in filled.split(";") if statement.strip()]


def migrate(
    where: object,
    version: int,
    run: Callable[[str], object],
    words: dict[str, str],
    steps: Sequence[str] = MIGRATIONS,
) -> int:
    """Take a store of this version to the newest one, inside the caller's transaction; a newer one is refused."""
    if version > len(steps):
        raise StoreDamaged(
            where,
            f"this store has version {version} and this Tidings knows versions up to {len(steps)}; use a newer Tidings",
        )
    for step in steps[version:]:
        for statement in statements(step, words):
            run(statement)
    return len(steps)
