"""The state of a stream that runs for weeks, in SQLite or PostgreSQL. `open_store` opens it."""

from tidings.store.commit import BatchChunk
from tidings.store.feeds import DueFeed, FeedRow, VisitRecord
from tidings.store.rows import BatchPin, CommitResult, NewSubscription, Retention, StoredMatch, Subscription
from tidings.store.shed_totals import ShedCounts
from tidings.store.store import Store, open_store

__all__ = [
    "BatchChunk",
    "BatchPin",
    "CommitResult",
    "DueFeed",
    "FeedRow",
    "NewSubscription",
    "Retention",
    "ShedCounts",
    "Store",
    "StoredMatch",
    "Subscription",
    "VisitRecord",
    "open_store",
]
