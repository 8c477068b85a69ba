"""All errors that Tidings raises on purpose.

    TidingsError                  exit code 1: the machine or the environment failed
    ├── InputError                exit code 2: the caller can correct it
    │   ├── QueryError            a query is invalid; has the position of the error
    │   ├── MissingExtraError     an optional dependency is not installed
    │   ├── IndexDamaged          an index is truncated, foreign or of another format version
    │   ├── StoreDamaged          a store is damaged, foreign or of a newer version
    │   ├── QuotaExceeded         an owner reached a limit; may have a time to retry
    │   ├── UnknownSubscription   no such subscription, or it belongs to another owner
    │   ├── UnknownOwner
    │   ├── UnknownFeed           no such feed, or the owner does not follow it
    │   └── UnknownWebhook        no such webhook, or it belongs to another owner
    ├── OutputError               a result could not be written; no partial result is left
    └── StoreError                the store cannot be reached, read or written; the transaction was rolled back
        ├── StoreFull             the disk of the store is full
        ├── StoreBusy             exit code 2: another process has the lease, or the write lock for too long
        ├── StoreReadOnly         exit code 2: this user may read the store but not write it
        ├── LeaseLost             the connection that held the lease ended: another process may have it now
        └── ChangeLogTruncated    the change log does not reach back far enough; read all subscriptions again

A message has the form `<subject>: <what is wrong>. <What to do>.` The command line prints it and returns `exit_code`.
Errors with arguments of their own define `__reduce__`, because Spark sends errors from workers to the driver by pickle.
"""

from __future__ import annotations


class TidingsError(Exception):
    exit_code = 1


class InputError(TidingsError):
    exit_code = 2


class QueryError(InputError):
    """An invalid query; `position` is the offset of the error in characters, from 0."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"{reason} (at character {position + 1})")
        self.reason = reason
        self.position = position

    def __reduce__(self) -> tuple[type[QueryError], tuple[str, int]]:
        return QueryError, (self.reason, self.position)


class MissingExtraError(InputError):
    """A feature needs a package that is not installed; `requirement` is what to pass to pip."""

    def __init__(self, feature: str, requirement: str) -> None:
        super().__init__(f"{feature} is not installed. Install it with: pip install '{requirement}'")
        self.feature = feature
        self.requirement = requirement

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return MissingExtraError, (self.feature, self.requirement)


class IndexDamaged(InputError):
    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[IndexDamaged], tuple[object, str]]:
        return IndexDamaged, (self.path, self.reason)


class StoreDamaged(InputError):
    def __init__(self, store: object, reason: str) -> None:
        super().__init__(f"{store}: {reason}")
        self.store = store
        self.reason = reason

    def __reduce__(self) -> tuple[type[StoreDamaged], tuple[object, str]]:
        return StoreDamaged, (self.store, self.reason)


class QuotaExceeded(InputError):
    """A limit of an owner; `retry_after_s` is set where waiting helps."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type[QuotaExceeded], tuple[str, float | None]]:
        return QuotaExceeded, (self.message, self.retry_after_s)


class UnknownSubscription(InputError):
    def __init__(self, subscription: int, reason: str = "does not exist. `tidings subscriptions` lists yours") -> None:
        super().__init__(f"Subscription {subscription} {reason}.")
        self.subscription = subscription
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnknownSubscription], tuple[int, str]]:
        return UnknownSubscription, (self.subscription, self.reason)


class UnknownOwner(InputError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Owner {name} does not exist. `tidings owners list` lists all.")
        self.name = name

    def __reduce__(self) -> tuple[type[UnknownOwner], tuple[str]]:
        return UnknownOwner, (self.name,)


class UnknownFeed(InputError):
    def __init__(self, feed: int) -> None:
        super().__init__(f"Feed {feed} does not exist. `tidings feeds list` lists yours.")
        self.feed = feed

    def __reduce__(self) -> tuple[type[UnknownFeed], tuple[int]]:
        return UnknownFeed, (self.feed,)


class UnknownWebhook(InputError):
    def __init__(self, webhook: str) -> None:
        super().__init__(f"Webhook {webhook} does not exist.")
        self.webhook = webhook

    def __reduce__(self) -> tuple[type[UnknownWebhook], tuple[str]]:
        return UnknownWebhook, (self.webhook,)


class OutputError(TidingsError):
    pass


class StoreError(TidingsError):
    pass


class StoreFull(StoreError):
    pass


class StoreBusy(StoreError):
    exit_code = 2


class StoreReadOnly(StoreError):
    exit_code = 2


class LeaseLost(StoreError):
    pass


class ChangeLogTruncated(StoreError):
    pass
