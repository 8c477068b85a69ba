"""The state of a stream: subscriptions, matched posts, matches, the batch ledger, rejected rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from tidings.store import commit, feeds, queries, retention, shed_totals, subscriptions
from tidings.store.accounts import Accounts
from tidings.store.commit import Found
from tidings.store.database import Database
from tidings.store.feed_urls import Addresses
from tidings.store.feeds import DueFeed, Feed, OutboxRow, Visited
from tidings.store.rows import (
    Batch,
    Change,
    Changed,
    Forgotten,
    NewSubscription,
    Pin,
    Region,
    Rejected,
    Retention,
    Sizes,
    Stored,
    StoredMatch,
    Subscription,
)
from tidings.store.shed_totals import ShedCounts
from tidings.store.webhook_queue import WebhookQueue
from tidings.store.webhooks import Webhooks

_NOTHING_REJECTED = pa.table({"reason": pa.array([], pa.string())})


def open_store(where: str | Path, clock: Callable[[], float] = time.time) -> Store:
    """The store in a directory (SQLite) or behind a `postgresql://` URL; made where there is none, migrated if old."""
    if isinstance(where, str) and where.startswith(("postgresql://", "postgres://")):
        from tidings.store.postgres import PostgresDatabase  # only who uses PostgreSQL pays for its driver

        return Store(PostgresDatabase(where), clock)
    from tidings.store.sqlite import SqliteDatabase

    return Store(SqliteDatabase(Path(where)), clock)


class Store:
    """One store, open. Threads may share it and take turns; other processes open the same store for themselves.

    `accounts` are its owners, `addresses` where the matches of subscriptions can be read, `webhooks` where they are
    sent; `webhook_queue` is for who sends them.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self.database = database
        self.accounts = Accounts(database, clock)
        self.addresses = Addresses(database)
        self.webhooks = Webhooks(database, clock)
        self.webhook_queue = WebhookQueue(database, clock)
        self._now = clock

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.database.close()

    # subscriptions

    def QQ_subscribe_QQ(self, query: str, owner: str = "", region: Region | None = None) -> int:
        """Store a subscription that was checked; its id, which is never given again."""
        return self.QQ_subscribe_many_QQ([NewSubscription(query, owner, region)])[0]

    def QQ_subscribe_many_QQ(self, rows: Iterable[NewSubscription | tuple[object, ...]]) -> range:
        """Store many at once, all or none; their ids in order. Rows may be tuples of query, owner, region."""
        return subscriptions.subscribe_many(self.database, rows, self._now())

    def QQ_unsubscribe_QQ(self, subscription: int, owner: str | None = None) -> None:
        """Remove it; UnknownSubscription when it is not there, was removed, or is not this owner's."""
        subscriptions.unsubscribe(self.database, subscription, owner, self._now())

    def QQ_subscriptions_QQ(self, owner: str | None = None, include_removed: bool = False) -> Iterator[Subscription]:
        """In the order of their ids."""
        return subscriptions.subscriptions(self.database, owner, include_removed)

    def subscription(self, subscription: int, owner: str | None = None) -> Subscription:
        """One of them; UnknownSubscription when it is not there, was removed, or is not this owner's."""
        return subscriptions.one(self.database, subscription, owner)

    def page(self, owner: str, above: int = 0, limit: int = 100) -> list[Subscription]:
        """An owner's next few, in the order of their ids."""
        return subscriptions.page(self.database, owner, above, limit)

    def owners(self, above: int = 0) -> list[tuple[int, str]]:
        """Who owns the subscriptions with ids above this one, the removed ones included: it never changes."""
        return subscriptions.owners(self.database, above)

    def position(self) -> int:
        """The position of the last change."""
        return int(self.database.rows("SELECT value FROM counter WHERE name = 'position'")[0][0])

    def changed(self, since_position: int) -> Changed:
        """How the subscriptions that changed after a position are now, and the position that is now."""
        return subscriptions.changed(self.database, since_position)

    def changes(self, since_position: int, limit: int | None = None) -> list[Change]:
        """What changed after a position; ChangeLogTruncated when the log no longer goes back that far."""
        return subscriptions.changes(self.database, since_position, limit)

    # feeds

    def add_feed(self, url: str, owner: str = "", title: str = "") -> int:
        """Let an owner follow a feed, or the feed of a page; its id, the same for all who follow it."""
        return feeds.add(self.database, url, owner, title, self._now())

    def remove_feed(self, feed: int, owner: str | None = None) -> None:
        """An owner follows it no longer, or (None) nobody does; UnknownFeed when it is not there or not theirs."""
        feeds.remove(self.database, feed, owner)

    def feeds(self, owner: str | None = None) -> Iterator[Feed]:
        """In the order of their ids."""
        return feeds.feeds(self.database, owner)

    def hold_crawler(self) -> AbstractContextManager[None]:
        """The right to crawl the feeds of this store; StoreBusy names the process that has it."""
        return self.database.hold("crawler")

    def due_feeds(self, now: float, limit: int) -> list[DueFeed]:
        """The feeds that are due, those that have waited longest first."""
        return feeds.due(self.database, now, limit)

    def next_due_at(self) -> float | None:
        """When the next feed is due; None where there is none."""
        return feeds.next_due_at(self.database)

    def known_articles(self, wanted: Sequence[int]) -> dict[int, str]:
        """What the crawler knows of the articles of these feeds, in its own words."""
        return feeds.known(self.database, wanted)

    def visited(self, outcomes: Sequence[Visited]) -> int:
        """Store what visits led to, and their articles in the outbox, at once; how many articles."""
        return feeds.visited(self.database, outcomes)

    def outbox(self) -> Iterator[OutboxRow]:
        """Articles that are stored and not yet with the stream, in order."""
        return feeds.outbox(self.database)

    def sent(self, number: int) -> None:
        """This row of the outbox has arrived."""
        feeds.sent(self.database, number)

    # batches

    def hold_stream(self) -> AbstractContextManager[None]:
        """The right to run the stream of this store; StoreBusy names the process that has it."""
        return self.database.hold("stream")

    def hold_sender(self) -> AbstractContextManager[None]:
        """The right to send the webhooks of this store; StoreBusy names the process that has it."""
        return self.database.hold("sender")

    def begin(self, stream: str, batch: int, index_version: int, plan_version: int, shed: str = "") -> Pin:
        """Record the versions a batch will use, and what it sheds; if it was begun before, what was recorded then."""
        sql = "SELECT index_version, plan_version, state, shed FROM batch WHERE stream = ? AND batch = ?"
        with self.database.write():
            for index, plan, state, before in self.database.rows(sql, stream, batch):
                return Pin(index, plan, state == "done", replay=True, shed=before)
            self.database.run(
                "INSERT INTO batch (stream, batch, index_version, plan_version, state, started_at, posts, matches, "
                "rejected, figures, shed) VALUES (?, ?, ?, ?, 'begun', ?, 0, 0, 0, '{}', ?)",
                *(stream, batch, index_version, plan_version, self._now(), shed),
            )
        return Pin(index_version, plan_version, done=False, replay=False, shed=shed)

    def pin_anew(self, stream: str, batch: int, index_version: int, plan_version: int) -> None:
        """Let a batch that is begun and not done use other versions: those it was begun with are gone."""
        self.database.run(
            "UPDATE batch SET index_version = ?, plan_version = ? WHERE stream = ? AND batch = ? AND state = 'begun'",
            *(index_version, plan_version, stream, batch),
        )

    def pinned(self) -> set[int]:
        """The index versions of batches begun and not done, of the stream that ran last: no other can go on."""
        last = "SELECT stream FROM batch ORDER BY started_at DESC, batch DESC LIMIT 1"
        sql = f"SELECT index_version FROM batch WHERE state = 'begun' AND stream = ({last})"
        return {int(row[0]) for row in self.database.rows(sql)}

    def commit(
        self,
        stream: str,
        batch: int,
        posts: pa.Table,
        matches: pa.Table,
        rejected: pa.Table = _NOTHING_REJECTED,
        figures: Mapping[str, object] | None = None,
        before_commit: Callable[[], None] = lambda: None,
    ) -> Stored:
        """Store what a begun batch found, in one transaction, and mark it done; done already, nothing changes.

        `posts` has POST_FIELDS (only `id` is needed) and optionally `arrived_at` in seconds; `matches` has
        `subscription` and `post_row`, a row of `posts`; `rejected` has `source`, `source_row`, `reason`, `excerpt`.
        Posts nobody matches, matches stored already, and those of subscriptions removed meanwhile are left out.
        `before_commit` is called when all is written and nothing is yet to be seen; if it raises, nothing ever is.
        """
        return self.commit_parts(stream, batch, [Found(posts, matches, rejected)], figures, before_commit)

    def commit_parts(
        self,
        stream: str,
        batch: int,
        parts: Iterable[Found],
        figures: Mapping[str, object] | None = None,
        before_commit: Callable[[], None] = lambda: None,
        shed: ShedCounts = ShedCounts(),
    ) -> Stored:
        """As `commit`, for a batch too large to be held: its parts are stored one after the other, all or none.

        `shed` is what was withheld of it, to be added to the totals.
        """
        return commit.commit(self.database, (stream, batch), parts, figures or {}, self._now(), before_commit, shed)

    # plans

    def ask_to_relearn(self) -> None:
        """Ask whoever runs the stream, now or next, for a new plan of words."""
        with self.database.write():
            commit.counter(self.database, "relearn asked", 1)

    def relearning_asked(self) -> int:
        """How often it was asked for, if not all of it is done; else 0."""
        sql = "SELECT value FROM counter WHERE name IN ('relearn asked', 'relearn done') ORDER BY name"
        (asked,), (done,) = self.database.rows(sql)
        return int(asked) if asked > done else 0

    def relearned(self, asked: int) -> None:
        """So much of what was asked for is done."""
        self.database.run("UPDATE counter SET value = ? WHERE name = 'relearn done'", asked)

    # reading

    def matches(
        self,
        subscription: int,
        since: int = 0,
        limit: int = 100,
        owner: str | None = None,
        most_characters: int | None = None,
    ) -> list[StoredMatch]:
        """The matches after a cursor. Who has read up to a cursor misses none that is stored later.

        With `most_characters` fewer where they are long, but at least one.
        """
        subscriptions.live(self.database, subscription, owner)
        return queries.matches(self.database, subscription, since, limit, most_characters)

    def latest(
        self, subscription: int, limit: int = 100, owner: str | None = None, most_characters: int | None = None
    ) -> list[StoredMatch]:
        """The newest matches, the oldest of them first; with `most_characters` as `matches`."""
        subscriptions.live(self.database, subscription, owner)
        return queries.latest(self.database, subscription, limit, most_characters)

    def kept(self, subscription: int) -> int:
        """How many matches of a subscription are kept."""
        return queries.kept(self.database, subscription)

    def last_number(self) -> int:
        """Grows whenever matches are stored, so that a watcher need not look at each subscription."""
        return queries.last_number(self.database)

    def ledger(self, stream: str | None = None, last: int = 100) -> list[Batch]:
        """The batches begun last, the oldest of them first."""
        return queries.ledger(self.database, stream, last)

    def rejected(self, last: int = 100) -> list[Rejected]:
        """The rows rejected last, the oldest of them first."""
        return queries.rejected(self.database, last)

    def withheld(self, owners: int | None = None) -> ShedCounts:
        """All that was ever shed; of so many owners, those it was most of."""
        return shed_totals.totals(self.database, owners)

    def sizes(self) -> Sizes:
        """Rows and bytes; quick whatever the size."""
        return queries.sizes(self.database)

    def retain(self, keep: Retention = Retention()) -> Forgotten:
        """Forget what is beyond the bounds, in steps so short that a batch hardly waits."""
        return retention.retain(self.database, keep, self._now())
