"""The house keeps its walls: Spark, FastAPI and the databases each have their room, and nothing knows the tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidings

HOUSE = Path(tidings.__file__).parent
MODULES = sorted(path.relative_to(HOUSE) for path in HOUSE.rglob("*.py"))
OWNERS = {
    "pyspark": "spark",
    "py4j": "spark",
    "fastapi": "web",
    "starlette": "web",
    "apsw": "store",
    "psycopg": "store",
    "nh3": "receive",
    "standardwebhooks": "deliver",
    "feedparser": "crawl",
    "uvicorn": "web",
    "sse_starlette": "web",
}
SHARED = {"aiohttp": {"outgoing", "crawl", "deliver", "lab"}}  # whoever speaks HTTP goes through the guard in outgoing/


def imports(source: str) -> Iterator[str]:
    """Every module a source imports, wherever in it, also by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            yield from (str(name.value) for name in node.args[:1] if isinstance(name, ast.Constant))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_imports_are_seen_wherever_they_hide():
    source = "def f():\n  import pyspark.sql as s\n  from fastapi import x\n  importlib.import_module('py4j.java')"
    assert list(imports(source)) == ["pyspark.sql", "fastapi", "py4j.java"]


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_room_imports_only_what_is_its_own(module):
    for name in imports((HOUSE / module).read_text("utf-8")):
        library = name.split(".")[0]
        assert library != "tests", f"{module} imports the tests"
        assert module.parts[0] in SHARED.get(library, {module.parts[0]}), f"{module} imports {name}"
        owner = OWNERS.get(library, module.parts[0])
        assert module.parts[0] == owner, f"{module} imports {name}; only {owner}/ may"


def test_no_room_but_the_edges_and_the_lab_reaches_for_spark():
    edges = {"__init__.py", "spark", "cli", "web", "lab", "deliver", "correlate"}
    callable_room = Path("match/__init__.py")  # `tidings.match` is the room and the function users call
    for module in MODULES:
        if module.parts[0] not in edges and module != callable_room:
            reached = [
                name for name in imports((HOUSE / module).read_text("utf-8")) if name.startswith("tidings.spark")
            ]
            assert not reached, f"{module} imports {reached}"


def test_importing_tidings_loads_neither_spark_nor_kernels():
    code = "import sys, tidings; print([m for m in ('pyspark', 'numba', 'pandas', 'fastapi') if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert told.stdout.strip() == "[]"
