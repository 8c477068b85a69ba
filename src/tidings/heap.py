"""Memory that a process has freed and its allocators still hold."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import pyarrow as pa


def release_free_memory() -> None:
    """Return free memory of Arrow and, with glibc, of the C library to the system: about 1 ms.

    A process that replaces arrays of all sizes for hours fragments its heap. glibc itself returns only the end of it.
    """
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
