"""The matching loop in C, compiled if a compiler is installed: the reference for the numba kernel."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
Find = Callable[..., bool]


def find_compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def compile_find(folder: Path) -> Find:
    """`find` of ``find.c``, called with the same arrays as `tidings.matching.postings_kernel.find_candidates`."""
    library = folder / "find.so"
    command = find_compiler()
    if command is None:
        raise FileNotFoundError("no C compiler found")
    with resources.as_file(resources.files("tidings_lab").joinpath("find.c")) as source:
        subprocess.run([command, *FLAGS, str(source), "-o", str(library)], check=True, capture_output=True)
    native = ctypes.CDLL(str(library)).find
    pointer, number = ctypes.c_void_p, ctypes.c_uint64
    native.argtypes = [pointer, pointer, number, *[pointer] * 6, number, pointer]
    native.restype = ctypes.c_int

    def find(
        terms: NDArray[Any],
        bounds: NDArray[Any],
        posting_start: NDArray[Any],
        second: NDArray[Any],
        rest: NDArray[Any],
        bitmap: NDArray[Any],
        listed: NDArray[Any],
        pairs: NDArray[Any],
        state: NDArray[Any],
    ) -> bool:
        index = (posting_start.ctypes.data, second.ctypes.data, rest.ctypes.data)
        posts = (terms.ctypes.data, bounds.ctypes.data, len(bounds))
        buffers = (bitmap.ctypes.data, listed.ctypes.data, pairs.ctypes.data, len(pairs), state.ctypes.data)
        return bool(native(*posts, *index, *buffers))

    return find
