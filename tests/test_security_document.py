"""docs/security.md names a test for every claim, and each of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = (ROOT / "docs" / "security.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", DOCUMENT)))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_test_named_in_the_document_exists(file, name):
    defined = ast.parse((ROOT / file).read_text("utf-8")).body
    assert name in {node.name for node in defined if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_claim_in_a_table_names_its_test():
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("|") and not re.match(r"\|[-|]+\|$", line)]
    heads = [row for row in rows if row.endswith("| test |")]
    without = [row for row in rows if row not in heads and "::test_" not in row]
    assert without == []
    assert len(rows) - len(heads) > 30
