"""The state of a stream that runs for weeks, in SQLite or PostgreSQL: `open_store` is the door."""

from tidings.store.commit import Found
from tidings.store.feeds import DueFeed, Feed, Visited
from tidings.store.rows import NewSubscription, Pin, Retention, Stored, StoredMatch, Subscription
from tidings.store.shed_totals import ShedCounts
from tidings.store.store import Store, open_store

__all__ = [
    "DueFeed",
    "Feed",
    "Found",
    "NewSubscription",
    "Pin",
    "Retention",
    "ShedCounts",
    "Store",
    "Stored",
    "StoredMatch",
    "Subscription",
    "Visited",
    "open_store",
]
