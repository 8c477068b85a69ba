"""What the store asks of a database. `sqlite.py` and `postgres.py` answer; all other SQL is shared."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Whole = NDArray[np.int64]
Row = tuple[Any, ...]
Held = Literal["stream", "crawler", "sender"]


class Given(NamedTuple):
    """Rows the caller brings, to stand behind FROM: the SQL and its parameters."""

    sql: str
    parameters: tuple[Any, ...]


class Database(Protocol):
    """A connection that any thread may use, one at a time. Parameters are written ``?``."""

    def rows(self, sql: str, *parameters: Any) -> list[Row]:
        """Run one statement and fetch everything it answers."""
        ...

    def run(self, sql: str, *parameters: Any) -> int:
        """Run one statement that answers nothing; the number of rows it changed."""
        ...

    def write(self) -> AbstractContextManager[None]:
        """One transaction, with all other writers of the store locked out: whole or not at all."""
        ...

    def append(self, table: str, columns: pa.Table, fixed: dict[str, Any]) -> int:
        """Insert many rows, `fixed` being the same in each, but none that breaks uniqueness; how many went in."""
        ...

    def pairs(self, a: Whole, b: Whole) -> Given:
        """Rows with the columns ``a`` and ``b``: whole numbers from 0, together below 63 bits."""
        ...

    def texts(self, values: list[str]) -> Given:
        """Rows with the columns ``place`` (from 0) and ``value``."""
        ...

    def hold(self, what: Held) -> AbstractContextManager[None]:
        """The right to run the stream, the crawler or the sender; StoreBusy names who has it. Dies with the process."""
        ...

    def bytes_used(self) -> int:
        """What the store takes on disk."""
        ...

    def tidy(self) -> None:
        """Give room that deletions left back, in short steps."""
        ...

    def close(self) -> None: ...
