"""The examples in docs/testing-kit.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "testing-kit.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("code", BLOCKS, ids=["partitioner", "matcher"])
def test_an_example_passes_its_check(code):
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    assert len(tests) == 1
    for test in tests:
        test()
