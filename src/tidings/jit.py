"""How kernels are compiled: ahead of use, cached on disk, over flat arrays.

Signatures are given, so a kernel is compiled (or loaded from the cache) when its module is imported, never in the
middle of a batch, and read-only arrays (Arrow buffers, memory maps) need no second compilation.
Indices are unsigned: signed ones make numba add wrap-around code.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import numba
from numba import types


def read(item: Any, dimensions: int = 1) -> Any:
    """The type of an array that a kernel only reads."""
    return types.Array(item, dimensions, "C", readonly=True)


def write(item: Any, dimensions: int = 1) -> Any:
    """The type of an array that a kernel writes."""
    return types.Array(item, dimensions, "C")


def kernel(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function of flat arrays for exactly these argument types."""
    compiled: Callable[[Callable[..., Any]], Callable[..., Any]] = numba.njit(
        result(*arguments), cache=True, nogil=True, error_model="numpy", boundscheck=False
    )
    return compiled


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """A small piece of a kernel, put into its callers. It is not cached itself: then it would be called, 1.4 x slower."""
    compiled: Callable[..., Any] = numba.njit(nogil=True, error_model="numpy", boundscheck=False, forceinline=True)(
        function
    )
    return compiled


def warm() -> None:
    """Import every module that holds kernels, so that what forks from here has them compiled."""
    import tidings

    for room in ("receive", "index", "match", "merge", "route"):
        package = importlib.import_module(f"{tidings.__name__}.{room}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


if __name__ == "__main__":
    warm()
