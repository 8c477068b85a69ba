"""How kernels are compiled: ahead of use, cached on disk, over flat arrays.

Signatures are given, so a kernel is compiled (or loaded from the cache) when its module is imported, never in the
middle of a batch, and read-only arrays (Arrow buffers, memory maps) need no second compilation.
Indices are unsigned: signed ones make numba add wrap-around code. Kernels own no memory, so they count no references:
numba would put atomic increments around the calls of inlined pieces (2.5 times slower in the tokeniser). So nothing is
allocated in a kernel; scratch space comes in as an argument.

The cache is a directory of its own for every state of the source: numba itself looks only at the file a kernel stands
in, not at those of the pieces put into it.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import types

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False}
_KERNEL_PACKAGES = (
    "text",
    "query",
    "query.geo",
    "plan",
    "plan.placement",
    "index",
    "matching",
    "routing",
    "balance",
    "balance.rebalance",
    "correlate",
    "correlate.partition",
)


def _cache_folder() -> Path:
    """Where compiled kernels are kept: in the user's cache, or for this process only where that cannot be written."""
    package = Path(__file__).parent
    sources = sorted(file for name in _KERNEL_PACKAGES for file in (package / name.replace(".", "/")).glob("*.py"))
    source = zlib.crc32(b"".join(file.read_bytes() for file in [Path(__file__), *sources]))
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "tidings" / f"kernels-{source:08x}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="tidings-kernels-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="tidings-kernels-"))


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]


def read(item: Any, dimensions: int = 1) -> Any:
    """The type of an array that a kernel only reads."""
    return types.Array(item, dimensions, "C", readonly=True)


def write(item: Any, dimensions: int = 1) -> Any:
    """The type of an array that a kernel writes."""
    return types.Array(item, dimensions, "C")


def kernel(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function of flat arrays for exactly these argument types."""
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(
        result(*arguments), cache=True, **_OPTIONS
    )
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A small piece of a kernel, put into its callers. (Cached on its own it would be called: 1.4 times slower.)"""
    compiled: Callable[..., Any] = numba.njit(forceinline=True, **_OPTIONS)(function)
    return compiled


def warm() -> None:
    """Import every module that holds kernels, so that what forks from here has them compiled."""
    for name in _KERNEL_PACKAGES:
        package = importlib.import_module(f"tidings.{name}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


if __name__ == "__main__":
    warm()
