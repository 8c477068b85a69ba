"""Array files: round trips, invalid files, and reading from several threads."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tidings.errors import IndexDamaged
from tidings.index.files import load_array, save_arrays

KINDS = st.sampled_from(["u1", "u2", "<u4", "<u8", "<i8", "<f8", "?"])


@given(array=hnp.arrays(KINDS, hnp.array_shapes(max_dims=3, min_side=0, max_side=5)))
def test_an_array_survives_a_round_trip(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("arrays") / "one"
    save_arrays(folder, {"it": array}, durably=False)
    loaded = load_array(folder / "it.npy")
    assert (loaded.dtype, loaded.shape) == (array.dtype, array.shape)
    assert loaded.tobytes() == array.tobytes()


def test_loading_does_not_compile_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On CPython 3.11 two threads that compile simultaneously may fail, and merges run in a thread of the stream."""
    save_arrays(tmp_path / "one", {"it": np.arange(99)})

    def fail(*_: object, **__: object) -> object:
        raise SystemError("AST constructor recursion depth mismatch (before=42, after=192)")

    monkeypatch.setattr(ast, "literal_eval", fail)
    assert load_array(tmp_path / "one" / "it.npy").sum() == 99 * 49


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<u4', 'fortran_order': False, 'shape': (16,), }\n",  # no data for 16 numbers
        b"\x93NUMPY\x01\x00v\x00{'descr': '<z9', 'fortran_order': False, 'shape': (1,), }\n12345678",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<u4', 'fortran_order': False, 'shape': (99999999999999999999,), }\n1234",
        b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n12345678",
    ],
)
def test_a_file_that_is_not_an_array_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "it.npy").write_bytes(content)
    with pytest.raises(IndexDamaged, match="not an array"):
        load_array(tmp_path / "it.npy")
