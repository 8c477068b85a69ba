"""The interface of a database. `sqlite.py` and `postgres.py` implement it; all other SQL is shared."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
Row = tuple[Any, ...]
LeaseKind = Literal["stream", "crawler", "sender", "service"]


class Lease(Protocol):
    """An exclusive right that this process holds."""

    def check(self) -> None:
        """Raise LeaseLost if the right was lost: another process may have it."""
        ...


class BoundRows(NamedTuple):
    """Rows passed as parameters: `sql` follows FROM, `parameters` are its values."""

    sql: str
    parameters: tuple[Any, ...]


class Database(Protocol):
    """A connection that threads share, one at a time. Parameters are written ``?``."""

    def fetch(self, sql: str, *parameters: Any) -> list[Row]:
        """Run one statement and return all its rows."""
        ...

    def execute(self, sql: str, *parameters: Any) -> int:
        """Run one statement and return the number of rows it changed."""
        ...

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as one atomic transaction that excludes all other writers of the store."""
        ...

    def insert(self, table: str, columns: pa.Table, fixed: dict[str, Any]) -> int:
        """Insert rows that do not violate uniqueness and return their number; each row also gets the `fixed` values."""
        ...

    def bind_pairs(self, a: Int64Array, b: Int64Array) -> BoundRows:
        """Return rows with the columns ``a`` and ``b``: integers from 0, together below 63 bits."""
        ...

    def bind_texts(self, values: list[str]) -> BoundRows:
        """Return rows with the columns ``row_index`` (from 0) and ``value``."""
        ...

    def lease(self, kind: LeaseKind) -> AbstractContextManager[Lease]:
        """Hold the lease of the stream, the crawler, the sender or the service; it ends with the process.

        Raises StoreBusy, which names the holder.
        """
        ...

    def bytes_used(self) -> int:
        """Return the bytes that the store takes on disk."""
        ...

    def reclaim_space(self) -> None:
        """Return the space of deleted rows to the file system, in short steps."""
        ...

    def close(self) -> None: ...
