"""The store of a stream that runs for weeks: one object per kind of data, all on one database connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from tidings.store.accounts import Accounts
from tidings.store.batches import BatchLedger
from tidings.store.database import Database, Lease, LeaseKind
from tidings.store.feed_urls import FeedUrls
from tidings.store.feeds import Feeds
from tidings.store.matches import Matches
from tidings.store.plan_refresh import PlanRefreshRequests
from tidings.store.retention import apply_retention
from tidings.store.rows import Retention, RetentionResult, StoreSizes
from tidings.store.shed_totals import ShedTotals
from tidings.store.subscriptions import Subscriptions
from tidings.store.webhook_queue import WebhookQueue
from tidings.store.webhooks import Webhooks

_SIZES = """SELECT (SELECT count(*) FROM subscription WHERE removed_at IS NULL),
    (SELECT value FROM counter WHERE name = 'posts'), (SELECT coalesce(sum(kept), 0) FROM tally),
    (SELECT count(*) FROM batch), (SELECT count(*) FROM rejected)"""


def open_store(location: str | Path, clock: Callable[[], float] = time.time) -> Store:
    """Open the store in a directory (SQLite) or at a `postgresql://` URL; create or migrate it if necessary."""
    if isinstance(location, str) and location.startswith(("postgresql://", "postgres://")):
        from tidings.store.postgres import PostgresDatabase  # its driver is an optional package

        return Store(PostgresDatabase(location), clock, location)
    from tidings.store.sqlite import SqliteDatabase

    return Store(SqliteDatabase(Path(location)), clock, location)


class Store:
    """An open store. Threads may share it and take turns; other processes open the same store themselves."""

    def __init__(
        self, database: Database, clock: Callable[[], float] = time.time, location: str | Path | None = None
    ) -> None:
        """`location` is where other processes open the same store; it may contain a password."""
        self.database = database
        self.location = location
        self._now = clock
        self.subscriptions = Subscriptions(database, clock)
        self.matches = Matches(database, self.subscriptions)
        self.batches = BatchLedger(database, clock)
        self.shed_totals = ShedTotals(database)
        self.plan_refresh = PlanRefreshRequests(database)
        self.feeds = Feeds(database, clock)
        self.feed_urls = FeedUrls(database, self.subscriptions)
        self.accounts = Accounts(database, clock, self.subscriptions)
        self.webhooks = Webhooks(database, clock, self.subscriptions)
        self.webhook_queue = WebhookQueue(database, clock)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.database.close()

    def lease(self, kind: LeaseKind) -> AbstractContextManager[Lease]:
        """Hold the exclusive right to run the stream, the crawler, the sender or the service.

        Raises StoreBusy with the holder.
        """
        return self.database.lease(kind)

    def sizes(self) -> StoreSizes:
        """Return rows and bytes. Matches are not counted one by one, so this is fast at any size."""
        subscriptions, posts, matches, batches, rejected = map(int, self.database.fetch(_SIZES)[0])
        return StoreSizes(subscriptions, posts, matches, batches, rejected, self.database.bytes_used())

    def apply_retention(self, limits: Retention = Retention()) -> RetentionResult:
        """Delete what exceeds the limits, in transactions so short that a batch hardly waits."""
        return apply_retention(self.database, limits, self._now())
