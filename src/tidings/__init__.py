"""Tidings: standing queries over a firehose of posts, on Spark.

    matches = tidings.match(posts, subscriptions)      # DataFrames in, DataFrame out

Importing this package is cheap; Spark is loaded when `match`, `rejected` or `session` is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidings.spark.api import match as match
    from tidings.spark.api import rejected as rejected
    from tidings.spark.session import session as session

__version__ = "0.1.0"
__all__ = ["__version__", "match", "rejected", "session"]


def __getattr__(name: str) -> Any:
    if name == "match":
        return importlib.import_module("tidings.match")  # the room, which can be called
    if name == "rejected":
        from tidings.spark.api import rejected

        return rejected
    if name == "session":
        from tidings.spark.session import session

        return session
    raise AttributeError(f"module 'tidings' has no attribute {name!r}")
