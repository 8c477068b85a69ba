"""Messages never name files that only the repository has: users install a wheel."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tidings

SOURCE = Path(tidings.__file__).parent
REPOSITORY = re.compile(r"\bdocs/\w|CONTRIBUTING|Makefile|\bmake (run|test|setup)\b|\.\./shared|scripts/")


def test_no_message_names_a_file_of_the_repository():
    found = [
        (path.relative_to(SOURCE).as_posix(), text)
        for path in SOURCE.rglob("*.py")
        for text in _messages(path.read_text("utf-8"))
        if REPOSITORY.search(text)
    ]
    assert found == []


def _messages(source: str) -> Iterator[str]:
    """Yield all strings of a module except docstrings."""
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value
