"""Tidings: match streams of posts with standing queries, on Spark.

    matches = tidings.match(posts, subscriptions)      # DataFrames in, DataFrame out

Importing this package is cheap: Spark is loaded on the first use of `match`, `rejected` or `session`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tidings.version import __version__

if TYPE_CHECKING:
    from tidings.spark.api import match as match
    from tidings.spark.api import rejected as rejected
    from tidings.spark.session import session as session

__all__ = ["__version__", "match", "rejected", "session"]

_MODULES = {"match": "tidings.spark.api", "rejected": "tidings.spark.api", "session": "tidings.spark.session"}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'tidings' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
