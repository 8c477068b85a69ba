"""Every error Tidings raises on purpose, in one tree.

An error carries its subject (the file, the query, the position) and one sentence that says what to do.
``exit_code`` is what the command line returns for it: 2 when the caller can mend it, 1 when the machine failed.
"""

from __future__ import annotations


class TidingsError(Exception):
    """The root: catch it to catch everything Tidings raises on purpose."""

    exit_code = 1


class InputError(TidingsError):
    """A command, file or column that cannot be used as it is; the sentence says what to do."""

    exit_code = 2


class QueryError(InputError):
    """A subscription query that is refused, with the position (0-based character) where it went wrong."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(f"{reason} (at character {position + 1})")
        self.reason = reason
        self.position = position

    def __reduce__(self) -> tuple[type[QueryError], tuple[str, int]]:
        return QueryError, (self.reason, self.position)


class IndexDamaged(InputError):
    """An index directory that is truncated, foreign or of another format version; names the file."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> tuple[type[IndexDamaged], tuple[object, str]]:
        return IndexDamaged, (self.path, self.reason)


class OutputError(TidingsError):
    """The result could not be written: no space, no permission. Nothing half-written is left behind."""


class StoreError(TidingsError):
    """The store could not do it: it cannot be reached, written or read. Nothing half-written is left behind."""


class StoreFull(StoreError):
    """There is no room left where the store lies. The transaction was undone whole; make room and run again."""


class StoreBusy(StoreError):
    """Another process has what only one may have: the stream of a store, or its write lock for too long."""

    exit_code = 2


class StoreDamaged(InputError):
    """A store that is damaged, foreign or of a newer version; names it and the way out."""

    def __init__(self, where: object, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason

    def __reduce__(self) -> tuple[type[StoreDamaged], tuple[object, str]]:
        return StoreDamaged, (self.where, self.reason)


class UnknownSubscription(InputError):
    """A subscription that is not there: never given, somebody else's, or removed."""

    def __init__(self, subscription: int, reason: str = "is not known; `tidings subscriptions` lists them") -> None:
        super().__init__(f"Subscription {subscription} {reason}.")
        self.subscription = subscription
        self.reason = reason

    def __reduce__(self) -> tuple[type[UnknownSubscription], tuple[int, str]]:
        return UnknownSubscription, (self.subscription, self.reason)


class UnknownOwner(InputError):
    """An owner that is not there."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no owner {name}; `tidings owner list` lists them.")
        self.name = name

    def __reduce__(self) -> tuple[type[UnknownOwner], tuple[str]]:
        return UnknownOwner, (self.name,)


class QuotaExceeded(InputError):
    """An owner has, or sent, as much as it may; ``retry_after_s`` where waiting helps."""

    def __init__(self, sentence: str, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type[QuotaExceeded], tuple[str, float | None]]:
        return QuotaExceeded, (self.sentence, self.retry_after_s)


class UnknownFeed(InputError):
    """A feed that is not there, or that this owner does not follow."""

    def __init__(self, feed: int) -> None:
        super().__init__(f"Feed {feed} is not known; `tidings feeds list` lists them.")
        self.feed = feed

    def __reduce__(self) -> tuple[type[UnknownFeed], tuple[int]]:
        return UnknownFeed, (self.feed,)


class UnknownWebhook(InputError):
    """A webhook that is not there, or is somebody else's."""

    def __init__(self, webhook: str) -> None:
        super().__init__(f"There is no webhook {webhook}.")
        self.webhook = webhook

    def __reduce__(self) -> tuple[type[UnknownWebhook], tuple[str]]:
        return UnknownWebhook, (self.webhook,)


class ChangesForgotten(StoreError):
    """The change log no longer goes back that far: read all subscriptions anew, then follow from their position."""


class ContendersDisagree(TidingsError):
    """Two contenders of a benchmark found different matches, so their speeds mean nothing."""
