"""Compile kernels with numba: before their first call, over flat arrays, cached on disk.

Kernels have explicit signatures. They are compiled (or loaded from the cache) when their module is imported, never
during a batch, and read-only arrays (Arrow buffers, memory maps) need no second compilation.
Indices are unsigned: for signed ones numba adds wrap-around code. Kernels own no memory and count no references:
numba would put atomic increments around calls of inlined functions (2.5 times slower in the tokenizer). Therefore a
kernel allocates nothing; scratch space is an argument.

Every state of the source has its own cache directory: numba checks only the file of a kernel, not the files of the
functions inlined into it. Run `python -m tidings.jit` to compile all kernels.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
from numba import types

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False}
MATCHING_PACKAGES = ("text", "query", "query.geo", "plan", "plan.placement", "index", "matching", "routing")
_KERNEL_PACKAGES = (*MATCHING_PACKAGES, "balance", "balance.rebalance", "correlate", "correlate.partition")


def _cache_folder() -> Path:
    """Return the directory for compiled kernels: in the cache of the user, or temporary if not writable."""
    package = Path(__file__).parent
    sources = sorted(file for name in _KERNEL_PACKAGES for file in (package / name.replace(".", "/")).glob("*.py"))
    checksum = zlib.crc32(b"".join(file.read_bytes() for file in [Path(__file__), *sources]))
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "tidings" / f"kernels-{checksum:08x}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="tidings-kernels-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="tidings-kernels-"))


if not os.environ.get("NUMBA_CACHE_DIR"):
    numba.config.CACHE_DIR = str(_cache_folder())  # type: ignore[attr-defined]


def read(item: Any, dimensions: int = 1) -> Any:
    """Return the type of an array that a kernel only reads."""
    return types.Array(item, dimensions, "C", readonly=True)


def write(item: Any, dimensions: int = 1) -> Any:
    """Return the type of an array that a kernel writes."""
    return types.Array(item, dimensions, "C")


def kernel(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function of flat arrays for exactly these argument types."""
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(
        result(*arguments), cache=True, **_OPTIONS
    )
    return compiled


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function to be inlined into kernels. (Cached separately it would be called: 1.4 times slower.)"""
    compiled: Callable[..., Any] = numba.njit(forceinline=True, **_OPTIONS)(function)
    return compiled


def import_kernels(packages: Sequence[str] = _KERNEL_PACKAGES) -> None:
    """Import all modules of the packages, which compiles or loads their kernels. Skip those that need an extra."""
    for name in packages:
        package = importlib.import_module(f"tidings.{name}")
        for module in pkgutil.iter_modules(package.__path__):
            try:
                importlib.import_module(f"{package.__name__}.{module.name}")
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("tidings"):
                    raise


if __name__ == "__main__":
    import_kernels()
