"""A result is stale if the code that it measured changed; a run continues after its last finished step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidings_lab import provenance, results, runner
from tidings_lab.experiment import Claim, Experiment
from tidings_lab.report import write_report


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small package in place of `tidings`, with nothing remembered."""
    root = tmp_path / "tidings"
    (root / "balance").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "balance" / "__init__.py").write_text("")
    (root / "balance" / "salb.py").write_text('"""Text."""\ndef fit():\n    """More."""\n    return 1\n')
    (root / "plan.py").write_text("def late():\n    from tidings.balance import salb\n    return salb\n")
    (root / "unused.py").write_text("x = 1\n")
    monkeypatch.setattr(provenance, "_ROOTS", {"tidings": tmp_path})
    _forget()
    yield root
    _forget()


def _forget() -> None:
    for cached in (
        provenance.imported_modules,
        provenance._path_of,
        provenance._tree,
        provenance._imports,
        provenance._file_digest,
    ):
        cached.cache_clear()


def _digests(root: Path) -> dict[str, str]:
    _forget()
    return provenance.code_digests("tidings.plan")


def test_imports_in_functions_count_and_unused_modules_do_not(package: Path) -> None:
    assert provenance.imported_modules("tidings.plan") == {"tidings.plan", "tidings.balance", "tidings.balance.salb"}


def test_comments_and_docstrings_do_not_change_the_digest_but_code_does(package: Path) -> None:
    before, file = _digests(package), package / "balance" / "salb.py"
    file.write_text('"""Other text."""\n\n\ndef fit():  # why\n    return 1\n')
    assert _digests(package) == before
    file.write_text("def fit():\n    return 2\n")
    assert provenance.changed_packages(before, "tidings.plan") == []  # remembered in this process
    _forget()
    assert provenance.changed_packages(before, "tidings.plan") == ["tidings.balance"]
    (package / "unused.py").write_text("x = 2\n")
    _forget()
    assert provenance.changed_packages(before, "tidings.plan") == ["tidings.balance"]


def test_result_without_digests_is_stale() -> None:
    assert provenance.changed_packages(None, "tidings_lab.measurements.scaling")
    current = provenance.code_digests("tidings_lab.measurements.scaling")
    assert provenance.changed_packages(current, "tidings_lab.measurements.scaling") == []


def test_digests_of_every_benchmark_can_be_computed() -> None:
    for module in provenance.BENCHMARK_MODULES.values():
        assert provenance.code_digests(module)["tidings_lab"]


class _Measurement:
    """Three steps; the second one fails while `is_broken`."""

    def __init__(self) -> None:
        self.is_broken = True
        self.calls: list[int] = []

    def steps(self, parameters: Any) -> int:
        return 3

    def measure(self, posts: Any, parameters: Any, seed: int) -> Iterator[runner.Step]:
        for number in range(3):
            yield f"step {number}", partial(self._run, number)

    def _run(self, number: int) -> list[dict[str, Any]]:
        if number == 1 and self.is_broken:
            raise RuntimeError("killed")
        self.calls.append(number)
        return [{"x": number, "y": 2.0 * number}]

    def data(self, parameters: Any, seed: int) -> dict[str, object]:
        return {"posts": 0, "source": "none", "note": ""}


@pytest.fixture
def measurement(monkeypatch: pytest.MonkeyPatch) -> _Measurement:
    found = _Measurement()
    monkeypatch.setattr(runner, "_load_measurement", lambda experiment: found)
    monkeypatch.setattr(runner, "load_posts", lambda count, seed: SimpleNamespace())
    return found


EXPERIMENT = Experiment("some", "Some", "", "scaling", 1, {"full": {"a": 1}}, [Claim("c", "s", "value", {})], [])


def _run(folder: Path, **options: Any) -> tuple[Path, dict[str, Any]]:
    return runner.run_experiment(EXPERIMENT, "full", folder, lambda *step: None, **options)


def test_repeated_run_continues_after_the_last_finished_step(tmp_path: Path, measurement: _Measurement) -> None:
    with pytest.raises(RuntimeError):
        _run(tmp_path)
    log = tmp_path / runner.UNFINISHED / "some-full.jsonl"
    log.write_text(log.read_text() + '{"step": "torn')
    measurement.is_broken = False
    path, result = _run(tmp_path)
    assert measurement.calls == [0, 1, 2]
    assert [row["x"] for row in result["rows"]] == [0, 1, 2]
    assert (result["steps"], result["steps_done"]) == (3, 3)
    assert not log.exists()
    found = runner.find_complete(EXPERIMENT, "full", tmp_path, {})
    assert found is not None
    assert found[0] == path
    assert runner.find_complete(EXPERIMENT, "full", tmp_path, {"a": 2}) is None


def test_other_parameters_or_other_code_discard_the_finished_steps(
    tmp_path: Path, measurement: _Measurement, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError):
        _run(tmp_path)
    measurement.is_broken = False
    _run(tmp_path, changes={"a": 2})
    assert measurement.calls == [0, 0, 1, 2]
    measurement.is_broken = True
    with pytest.raises(RuntimeError):
        _run(tmp_path)
    measurement.is_broken = False
    monkeypatch.setattr(provenance, "code_digests", lambda module: {"tidings.balance": "changed"})
    _run(tmp_path)
    assert measurement.calls[-3:] == [0, 1, 2]


def test_run_stops_at_its_deadline_and_continues_later(tmp_path: Path, measurement: _Measurement) -> None:
    measurement.is_broken = False
    path, result = _run(tmp_path, deadline=0.0)
    assert (result["steps"], result["steps_done"]) == (3, 1)
    again, result = _run(tmp_path)
    assert (again, result["steps_done"]) == (path, 3)
    assert measurement.calls == [0, 1, 2]


def test_stale_result_gets_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidings_lab.experiment import find_experiment

    monkeypatch.setenv("TIDINGS_DATA", "none")
    path, _ = runner.run_experiment(find_experiment("workloads"), "tiny", tmp_path, lambda *step: None)
    assert write_report(tmp_path, tmp_path / "report")[1]["workloads"] != "stale"
    stored = json.loads(path.read_text())
    stored["code"]["tidings.provision"] = "older"
    path.write_text(results.format_json(stored))
    page, verdicts = write_report(tmp_path, tmp_path / "report")
    assert verdicts == {"workloads": "stale"}
    text = page.read_text()
    assert "changed: tidings.provision" in " ".join(text.split())
    assert "**holds" not in text
