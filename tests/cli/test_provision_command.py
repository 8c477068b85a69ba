"""`tidings provision`: text, JSON, and one sentence for every error."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tidings.cli.main import run
from tidings.cli.values import parse_bits_per_second, parse_bytes, parse_count
from tidings.errors import InputError
from tidings.provision.costs import NAMES, load_calibration

COMMAND = ["provision", "--subscriptions", "10M", "--feeds", "1M"]


def _json(capsys: pytest.CaptureFixture[str], *more: str) -> dict:
    assert run([*COMMAND, "--json", *more]) == 0
    report: dict = json.loads(capsys.readouterr().out)
    return report


def test_json_has_the_complete_report(capsys: pytest.CaptureFixture[str]) -> None:
    report = _json(capsys)
    topology = report["topology"]
    assert topology["nodes"] == topology["crawler"] + topology["filter"] + topology["reflector"]
    for service, left in report["headroom"].items():
        for constraint, share in left.items():
            assert 0 <= share <= 1
            used, limit = report["loads"][service][constraint], report["limits"][constraint]
            assert share == pytest.approx(1 - used / limit)
    assert [row["talk"]["nodes"] for row in report["talk"]] == [3, 57, 51, 57]
    assert [role["machines"] for role in report["start"]] == [
        topology[name] for name in ("crawler", "filter", "reflector")
    ]
    assert set(report["costs"]) == set(NAMES)
    assert report["calibration"]["commit"]


def test_larger_machines_are_fewer_and_costs_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    small = _json(capsys)["topology"]["nodes"]
    large = _json(capsys, "--bandwidth", "10Gbps", "--memory", "64GB", "--cores", "32")["topology"]["nodes"]
    assert large < small
    greedy = _json(capsys, "--cost", "index_subscription_bytes=1000")
    assert greedy["costs"]["index_subscription_bytes"] == 1_000
    assert greedy["topology"]["filter"] > 10


def test_text_has_topology_comparison_commands_and_costs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "topology.svg"
    assert run([*COMMAND, "--svg", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "machines for 10,000,000 subscriptions" in text
    assert "57 = 1 + 28 + 28" in text
    assert "tidings run" in text
    assert all(name in text for name in NAMES)
    root = ET.fromstring(picture.read_text("utf-8"))
    assert "10,000,000 subscriptions" in "".join(root.itertext())


def test_costs_come_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(load_calibration().to_json())
    assert load_calibration(file) == load_calibration()
    assert _json(capsys, "--costs", str(file)) == _json(capsys)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["provision"], "--subscriptions"),
        (["provision", "-s", "10M"], "--feeds"),
        (["provision", "-s", "many", "-f", "1M"], "'10M'"),
        ([*COMMAND, "--bandwidth", "25"], "'25Mbps'"),
        ([*COMMAND, "--memory", "0GB"], "greater than 0"),
        ([*COMMAND, "--poll", "soon"], "--poll"),
        ([*COMMAND, "--cost", "nothing=1"], "nothing: no such cost"),
        ([*COMMAND, "--cost", "match_share"], "NAME=VALUE"),
        ([*COMMAND, "--cost", "match_share=2"], "between 0 and 1"),
        ([*COMMAND, "--costs", "none.json"], "cannot be read"),
        ([*COMMAND, "--memory", "1MB"], "for any number of replicas"),
        ([*COMMAND, "--plan", "replicated", "--cost", "index_subscription_bytes=1000"], "memory"),
    ],
)
def test_errors_are_reported_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    report = capsys.readouterr().err
    assert sentence in report
    assert len(report.strip().splitlines()) == 1


@pytest.mark.parametrize("body", ["{}", "no JSON", '{"format": "tidings-costs", "format_version": 1, "costs": {}}'])
def test_invalid_file_of_costs_is_rejected_by_name(tmp_path: Path, body: str) -> None:
    file = tmp_path / "odd.json"
    file.write_text(body)
    with pytest.raises(InputError, match=r"odd\.json"):
        load_calibration(file)


def test_quantities_are_parsed() -> None:
    assert [parse_count(text, "") for text in ("7", "250,000", "250K", "0.25M", "1_000", "2B")] == [
        7,
        250_000,
        250_000,
        250_000,
        1_000,
        2_000_000_000,
    ]
    assert [parse_bits_per_second(text, "") for text in ("25Mbps", "1 Gbps", "64 kbit/s")] == [25e6, 1e9, 64e3]
    assert [parse_bytes(text, "") for text in ("1GB", "512 MiB", "2kb")] == [1e9, 512 * 2**20, 2e3]
    for odd in ("", "-1", "1,00", "10X", "1.2.3", "NaN"):
        with pytest.raises(InputError):
            parse_count(odd, "--feeds")


@pytest.mark.parametrize("options", [["--calibrate"], [*COMMAND[1:], "--calibrate", "--costs", "here.json"]])
def test_calibration_moved_to_the_lab(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["provision", *options]) == 2
    expected = "tidings: Calibration moved to `tidings-lab calibrate` (pip install tidings-lab).\n"
    assert capsys.readouterr().err == expected
