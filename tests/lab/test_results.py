"""The format of results: fields, file names, newest results, rejected files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidings.errors import InputError
from tidings_lab import REPOSITORY, results


def _result(kind: str = "experiment", size: str = "full", started: str = "2026-01-02T03:04:05+00:00") -> dict[str, Any]:
    result = results.new_result(kind, "drift", size, "pytest", 7, {"posts": 10, "sizes": [1, 2]}, ["posts"])
    payload: Any = [{"x": 1, "y": np.float64(2.5)}] if kind == "experiment" else {"rates": [1.0, 2.0]}
    return {**result, "started": started, results.PAYLOADS[kind]: payload}


@pytest.mark.parametrize("kind", results.PAYLOADS)
def test_saved_result_is_loaded_unchanged(tmp_path: Path, kind: str) -> None:
    result = _result(kind)
    path = results.save_result(result, tmp_path)
    assert path.name == f"{kind}-drift-full-20260102T030405Z.json"
    assert results.load_results(tmp_path) == [(path, json.loads(json.dumps(result, default=results.to_json_type)))]


def test_result_has_versions_host_and_commit_but_no_host_name() -> None:
    result = _result()
    assert {"python", "pyspark", "pyarrow", "numpy", "numba", "java", "tomotopy"} <= set(result["versions"])
    assert set(result["host"]) == {"cpu", "cores", "memory_bytes", "system", "load_average"}
    assert len(result["commit"]) in (len("unknown"), 40)
    assert (result["parameters"]["posts"], result["changed"]) == (10, ["posts"])


def test_newest_result_of_the_largest_size_is_found(tmp_path: Path) -> None:
    for size, year in (("full", 2026), ("full", 2027), ("quick", 2999)):
        results.save_result(_result(size=size, started=f"{year}-01-01T00:00:00+00:00"), tmp_path)
    results.save_result(_result("benchmark", started="2998-01-01T00:00:00+00:00"), tmp_path)
    newest = results.find_newest(tmp_path, "experiment", "drift")
    assert newest is not None
    assert newest[1]["started"][:4] == "2027"
    assert results.find_newest(tmp_path, "experiment", "other") is None


def test_foreign_files_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "old.json").write_text('{"format": "tidings-bench", "format_version": 1}')
    assert results.load_results(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 1}, "format version 1 is not supported"),
        ({"kind": "test"}, "kind 'test'"),
        ({"size": "huge"}, "size 'huge'"),
        ({"host": None}, "the field 'host' is missing"),
        ({"rows": None}, "the field 'rows' is missing"),
    ],
)
def test_invalid_result_is_rejected(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    result = {**_result(), **change}
    invalid = {key: value for key, value in result.items() if value is not None}
    (tmp_path / "x.json").write_text(json.dumps(invalid, default=results.to_json_type))
    with pytest.raises(InputError, match=message):
        results.load_results(tmp_path)


def test_json_has_one_row_per_line() -> None:
    rows = [{"x": number, "text": "y" * 60} for number in range(3)]
    text = results.format_json({"rows": rows, "numbers": list(range(100))})
    assert json.loads(text) == {"rows": rows, "numbers": list(range(100))}
    assert len(text.splitlines()) == 2 + 5 + 1


def test_stored_results_have_the_current_format() -> None:
    stored = results.load_results(REPOSITORY / "lab" / "results")
    assert stored
    assert {path for path, _ in stored} == set((REPOSITORY / "lab" / "results").glob("*.json"))
