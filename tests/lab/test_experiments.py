"""Experiments: their files, tiny runs, the report, and the command line of the lab."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidings.errors import InputError
from tidings.provision.costs import load_calibration
from tidings_lab import calibrate_costs, cli, results, runner
from tidings_lab.charts import LABELS
from tidings_lab.claims import RULES
from tidings_lab.experiment import find_experiment, load_experiments

NAMES = [experiment.name for experiment in load_experiments()]
FAST = ("corpus", "shedding", "detection", "scaling", "workloads")  # the others take more than two seconds


def test_experiments_are_in_the_order_of_their_numbers() -> None:
    assert NAMES[:2] == ["scalability", "subscriptions"]
    assert NAMES.index("correlations") < NAMES.index("space-baselines") < NAMES.index("space-adjustment")
    assert NAMES.index("bandwidth") < NAMES.index("latency")


def test_every_experiment_has_figures_and_claims_with_known_rules() -> None:
    for experiment in load_experiments():
        assert experiment.claims
        assert experiment.figures
        assert all(claim.rule in RULES for claim in experiment.claims)
        assert not [claim.source for claim in experiment.claims if "issue" in claim.source]
    with pytest.raises(InputError, match="scalability"):
        find_experiment("nothing")


def test_every_axis_is_labelled_in_words() -> None:
    panels = [panel for experiment in load_experiments() for figure in experiment.figures for panel in figure.panels]
    unlabelled = [
        panel[axis]
        for panel in panels
        for axis in "xy"
        if f"{axis}label" not in panel and panel[axis] not in LABELS and not (axis == "x" and panel.get("bars"))
    ]
    assert unlabelled == []


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.long) for name in NAMES]
)
def test_tiny_run_gives_results_verdicts_and_a_report(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "results", tmp_path / "report"
    experiment = find_experiment(name)
    path, result = runner.run_experiment(experiment, "tiny", folder, lambda *step: None)
    assert len(result["rows"]) > 1
    stored = json.loads(path.read_text("utf-8"))
    assert stored["rows"] == json.loads(json.dumps(result["rows"], default=results.to_json_type))
    assert stored["command"] == f"tidings-lab run {name} --tiny"
    assert stored["data"]["source"].startswith(("generated", "calibration"))
    assert cli.run(["report", "--results", str(folder), "--out", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    page = Path(report["page"]).read_text("utf-8")
    assert all(claim.text in page for claim in experiment.claims)
    assert all(len(line) <= 100 for line in page.splitlines() if not line.startswith(("|", "#", "!")))
    assert {file.name for file in out.glob("*.png")} == {f"{figure.name}.png" for figure in experiment.figures}
    assert cli.run(["list", "--results", str(folder), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["experiments"]
    assert [row["verdict"] for row in listed if row["name"] == name] == [report["verdicts"][name]]


def test_changed_parameters_are_stored_with_the_command(tmp_path: Path) -> None:
    changes = {"articles_per_feed_day": [1.0], "seed": 3}
    _, result = runner.run_experiment(find_experiment("workloads"), "tiny", tmp_path, lambda *step: None, changes)
    assert result["changed"] == ["articles_per_feed_day", "seed"]
    assert (result["seed"], result["parameters"]["articles_per_feed_day"]) == (3, [1.0])
    assert "--set articles_per_feed_day=[1.0]" in result["command"].replace("'", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "--all"),
        (["run", "nothing"], "is not an experiment"),
        (["run", "shedding", "--set", "speed=9"], "no parameter 'speed'"),
        (["run", "shedding", "--set", "speed"], "NAME=VALUE"),
        (["run", "shedding", "--quick", "--medium"], "at most one of them"),
        (["report", "--results", "/nowhere"], "there are no results"),
        (["bench", "--posts", "0"], "Try: tidings-lab bench --help"),
        (["nothing"], "Try: tidings-lab --help"),
    ],
)
def test_invalid_command_is_rejected_in_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_missing_package_is_named_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> None:
        raise ModuleNotFoundError("No module named 'tomotopy'", name="tomotopy")

    monkeypatch.setattr("tidings_lab.report.write_report", fail)
    assert cli.run(["report"]) == 2
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith("tomotopy is not installed. Install it with: pip install 'tidings-lab'")
    )


def test_unexpected_error_is_one_line_without_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("tidings_lab.report.write_report", fail)
    assert cli.run(["report"]) == 1
    error = capsys.readouterr().err
    assert "ValueError: broken" in error
    assert len(error.splitlines()) == 1
    assert cli.run(["report", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_calibration_is_written_to_the_file_of_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate_costs, "calibrate", lambda report, sizes: load_calibration())
    file = tmp_path / "costs.json"
    assert cli.run(["calibrate", "--costs", str(file)]) == 0
    assert load_calibration(file).costs == load_calibration().costs
    assert cli.run(["calibrate", "--costs", str(tmp_path / "missing" / "costs.json")]) == 1
