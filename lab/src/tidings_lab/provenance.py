"""What code a result measured: a digest per package of all files that a measurement imports, directly or not.

A result is stale if any of these digests differs from that of the code here. Comments, docstrings and layout do not
count. This needs no history, and a change that was not committed counts too.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tidings_lab import REPOSITORY

_ROOTS = {"tidings": REPOSITORY / "src", "tidings_lab": REPOSITORY / "lab" / "src"}
# They describe, store and show what was measured, and cannot change it.
_NEUTRAL = (
    *("tidings.errors", "tidings.log", "tidings.version", "tidings.cli", "tidings.extras"),
    *("tidings_lab.results", "tidings_lab.runner", "tidings_lab.experiment", "tidings_lab.claims"),
    *("tidings_lab.errors", "tidings_lab.progress", "tidings_lab.provenance", "tidings_lab.thresholds"),
)
BENCHMARK_MODULES = {  # a benchmark measures what its module imports
    "spine": "tidings_lab.bench_pipeline",
    "modes": "tidings_lab.bench_modes",
    "kernels": "tidings_lab.bench_kernels",
    "growth": "tidings_lab.bench_scale",
    "plans": "tidings_lab.bench_plans",
    "correlations": "tidings_lab.bench_correlations",
    "space": "tidings_lab.bench_spatial",
    "hot-spot": "tidings_lab.bench_hot_spot",
    "stream": "tidings_lab.bench_stream",
    "serve": "tidings_lab.bench_serving",
    "crawl": "tidings_lab.bench_crawl",
    "startup": "tidings_lab.bench_startup",
    "soak": "tidings_lab.soak",
}
Digests = dict[str, str]


def code_digests(module: str) -> Digests:
    """Return a digest per package of the code that a module runs, for example `tidings.balance`."""
    by_package: dict[str, Any] = {}
    for name in sorted(imported_modules(module)):
        package = ".".join(name.split(".")[:2]) if name.startswith("tidings.") else "tidings_lab"
        by_package.setdefault(package, hashlib.sha256()).update(f"{name} {_file_digest(name)}\n".encode())
    return {package: digest.hexdigest()[:12] for package, digest in by_package.items()}


def changed_packages(stored: Mapping[str, str] | None, module: str) -> list[str]:
    """Return the packages that changed since a result stored its digests; all if it has none."""
    current = code_digests(module)
    if stored is None:
        return sorted(current)
    return sorted(name for name in {*stored, *current} if stored.get(name) != current.get(name))


@cache
def imported_modules(module: str) -> frozenset[str]:
    """Return the modules of Tidings and of the lab that a module imports, itself included."""
    found: set[str] = set()
    pending = [module]
    while pending:
        name = pending.pop()
        if name in found or _is_neutral(name) or _path_of(name) is None:
            continue
        found.add(name)
        pending += _imports(name)
    return frozenset(found)


def _is_neutral(name: str) -> bool:
    return any(name == other or name.startswith(f"{other}.") for other in _NEUTRAL)


@cache
def _path_of(module: str) -> Path | None:
    root = _ROOTS.get(module.split(".")[0])
    if root is None:
        return None
    path = root.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def _tree(module: str) -> ast.Module:
    """Return the code of a module without docstrings."""
    path = _path_of(module)
    assert path is not None
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _has_docstring(
            node
        ):
            del node.body[0]
    return tree


def _has_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None


@cache
def _imports(module: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_iter_imports(_tree(module))))


def _iter_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _file_digest(module: str) -> str:
    return hashlib.sha256(ast.dump(_tree(module)).encode()).hexdigest()
