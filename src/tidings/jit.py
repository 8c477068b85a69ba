"""Compile kernels with numba: at their first call, over flat arrays, cached on disk.

Kernels have explicit signatures: read-only arrays (Arrow buffers, memory maps) need no second compilation. A process
loads only the kernels that it calls. Workers load theirs before the first batch: their daemon calls `load_kernels`.
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
import threading
import zlib
from collections.abc import Callable, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any

import numba
from numba import types

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False}
_KERNEL_PACKAGES = (
    "text", "query", "query.geo", "plan", "plan.placement", "index", "matching", "routing",
    "balance", "balance.rebalance", "correlate", "correlate.partition",
)  # fmt: skip
_lock = threading.RLock()
_kernels: list[_Kernel] = []


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
    """Return a decorator that compiles a function of flat arrays, for exactly these argument types, when called."""
    return lambda function: _Kernel(function, result(*arguments))


class _Kernel:
    """A function that is compiled, or loaded from the cache, when it is first called."""

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        update_wrapper(self, function)
        self._function, self._signature = function, signature
        self.__name__ = function.__name__
        self._compiled: Callable[..., Any] | None = None
        _kernels.append(self)

    @property
    def is_loaded(self) -> bool:
        return self._compiled is not None

    def __call__(self, *arguments: Any) -> Any:
        return (self._compiled or self.load())(*arguments)

    def load(self) -> Callable[..., Any]:
        with _lock:
            if self._compiled is None:
                self._compiled = numba.njit(self._signature, cache=True, **_OPTIONS)(self._function)
            return self._compiled


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function to be inlined into kernels. (Cached separately it would be called: 1.4 times slower.)"""
    compiled: Callable[..., Any] = numba.njit(forceinline=True, **_OPTIONS)(function)
    return compiled


def load_kernels(packages: Sequence[str] = _KERNEL_PACKAGES) -> None:
    """Compile all kernels of the packages, or load them from the cache. Skip modules that need an extra."""
    names = tuple(f"tidings.{name}" for name in packages)
    for name in names:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__):
            try:
                importlib.import_module(f"{name}.{module.name}")
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("tidings"):
                    raise
    for loaded in _kernels:
        if loaded.__module__.rpartition(".")[0] in names:
            loaded.load()


def loaded_kernels() -> list[str]:
    """Return the names of the kernels that this process has loaded."""
    return [f"{loaded.__module__}.{loaded.__name__}" for loaded in _kernels if loaded.is_loaded]


if __name__ == "__main__":
    from tidings.jit import load_kernels as load_all  # not those of this module: it would be a second copy

    load_all()
