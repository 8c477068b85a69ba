"""Files of an index: one memory-mapped file per array, each listed with its size and checksum."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidings.atomic_io import fsync
from tidings.errors import IndexDamaged

_CHUNK_BYTES = 1 << 22
_HEADER_BYTES = 512
_FSYNC_THREADS = 8
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<dtype>[<|][a-z]\d+)', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[\d, ]*)\), \} *\n",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The size and checksum that a file must have. Files with equal records have equal content."""

    size_bytes: int
    checksum: str  # BLAKE2b, 128 bits

    @classmethod
    def of(cls, path: Path) -> FileRecord:
        """Return the record of an existing file."""
        checksum = hashlib.blake2b(digest_size=16)
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                checksum.update(chunk)
        return cls(path.stat().st_size, checksum.hexdigest())


def check_file(path: Path, record: FileRecord, thoroughly: bool) -> None:
    """Raise IndexDamaged, with the path, unless the file has the right size and, if `thoroughly`, content."""
    if not path.is_file():
        raise IndexDamaged(path, "this file of the index is missing. Build the index again.")
    if path.stat().st_size != record.size_bytes:
        actual, expected = path.stat().st_size, record.size_bytes
        raise IndexDamaged(path, f"has {actual:,} bytes instead of {expected:,}. Build the index again.")
    if thoroughly and FileRecord.of(path).checksum != record.checksum:
        raise IndexDamaged(path, "the content does not fit the checksum. Build the index again.")


def save_arrays(folder: Path, arrays: Mapping[str, NDArray[Any]], durably: bool = True) -> None:
    """Write each array to a file of a new folder; `durably` also syncs them to disk."""
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("wb") as file:
            np.save(file, array)
    if durably:  # in parallel, because the disk can combine the syncs
        with ThreadPoolExecutor(_FSYNC_THREADS) as pool:
            list(pool.map(fsync, (folder / f"{name}.npy" for name in arrays)))


def load_array(path: Path) -> NDArray[Any]:
    """Return a memory-mapped array; IndexDamaged if the file is not one.

    The header is parsed here and not by numpy, which compiles it as Python code: CPython 3.11 occasionally fails when
    two threads do so simultaneously (SystemError: AST constructor recursion depth mismatch). Merges have a thread.
    """
    try:
        with path.open("rb") as file:
            header = _HEADER.match(file.read(_HEADER_BYTES))
            if header is None:
                raise ValueError("not a numpy header")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        shape = tuple(int(size) for size in header["shape"].split(b",") if size.strip())
        dtype = np.dtype(header["dtype"].decode())
        if 0 in shape:  # an empty range cannot be mapped
            return np.empty(shape, dtype)
        return np.frombuffer(mapped, dtype, math.prod(shape), header.end()).reshape(shape)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise IndexDamaged(path, "not an array of this index. Build the index again.") from error


def save_ids(path: Path, ids: pa.Array) -> None:
    """Write ids of any type as one Arrow column."""
    with path.open("wb") as file:
        with pa.ipc.new_file(file, pa.schema([("id", ids.type)])) as writer:
            writer.write_batch(pa.record_batch([ids], ["id"]))
        os.fsync(file.fileno())


def load_ids(path: Path) -> pa.Array:
    """Return a memory-mapped column of ids; IndexDamaged if the file is not one."""
    try:
        with pa.memory_map(str(path)) as file:
            return pa.ipc.open_file(file).get_batch(0).column(0)
    except (OSError, pa.ArrowInvalid) as error:
        raise IndexDamaged(path, "not the id column of this index. Build the index again.") from error


def save_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON document atomically, with a checksum."""
    body = json.dumps(content, indent=1, sort_keys=True)
    whole = f'{{"checksum": {zlib.crc32(body.encode())}, "body": {body}}}'
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(whole)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def load_json(path: Path) -> dict[str, Any]:
    """Return a document of `save_json`; IndexDamaged if it is missing or damaged."""
    try:
        whole = json.loads(path.read_text("utf-8"))
        body: object = whole["body"]
        checksum = whole["checksum"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise IndexDamaged(path, "not a manifest of an index. Build the index again.") from error
    if zlib.crc32(json.dumps(body, indent=1, sort_keys=True).encode()) != checksum:
        raise IndexDamaged(path, "the content does not fit the checksum. Build the index again.")
    if not isinstance(body, dict):
        raise IndexDamaged(path, "not a manifest of an index. Build the index again.")
    return body
