"""Optional dependencies: which extra of the package installs a module, and what that module is for."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from tidings.errors import MissingExtraError

# top-level module: (what it provides, the extra that installs it); see pyproject.toml
_MODULES = {
    "apsw": ("SQLite support", "stream"),
    "nh3": ("HTML sanitizing", "stream"),
    "orjson": ("fast JSON", "stream"),
    "prometheus_client": ("Prometheus metrics", "stream"),
    "google": ("Spark's stateful streaming", "stream"),  # google.protobuf
    "aiohttp": ("the HTTP client", "crawl"),
    "yarl": ("the HTTP client", "crawl"),
    "uvloop": ("the event loop", "crawl"),
    "feedparser": ("the feed parser", "crawl"),
    "fastapi": ("the web service", "serve"),
    "starlette": ("the web service", "serve"),
    "pydantic": ("the web service", "serve"),
    "uvicorn": ("the web service", "serve"),
    "httptools": ("the web service", "serve"),
    "sse_starlette": ("the web service", "serve"),
    "standardwebhooks": ("webhook signing", "serve"),
    "psycopg": ("PostgreSQL support", "postgres"),
    "pymetis": ("the METIS partitioner", "partitioners"),
    "rtree": ("the R-tree partitioner", "partitioners"),
    "mtkahypar": ("the hypergraph partitioner", "partitioners"),
    "tidings_lab": ("the lab", "lab"),
}


def explain_missing(error: ModuleNotFoundError) -> MissingExtraError | None:
    """Return the error that names the extra to install, or None if no extra installs the missing module."""
    module = (error.name or "").partition(".")[0]
    return _missing(module) if module in _MODULES else None


def _missing(module: str) -> MissingExtraError:
    feature, extra = _MODULES[module]
    return MissingExtraError(f"{feature[0].upper()}{feature[1:]}", f"tidings[{extra}]")


def require_extra(extra: str) -> None:
    """Check that an extra is installed, without importing it. Raises MissingExtraError.

    A command calls this first. Otherwise it would name the extra of the first module that it happens to import.
    """
    for module, (_, installed_by) in _MODULES.items():
        if installed_by == extra and importlib.util.find_spec(module) is None:
            raise _missing(module)


def import_extra(module: str) -> Any:
    """Import an optional module. Raises MissingExtraError, which names the extra to install, if it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise explain_missing(error) or error from error
