"""`tidings provision`: what it prints, what a program gets, and one sentence for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tidings.cli.main import run
from tidings.cli.values import parse_bits_per_second, parse_bytes, parse_count
from tidings.errors import InputError
from tidings.provision.costs import NAMES, load_calibration

ASKED = ["provision", "--subscriptions", "10M", "--feeds", "1M"]


def _json(capsys: pytest.CaptureFixture[str], *more: str) -> dict:
    assert run([*ASKED, "--json", *more]) == 0
    told: dict = json.loads(capsys.readouterr().out)
    return told


def test_the_answer_tells_everything_to_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    told = _json(capsys)
    topology = told["topology"]
    assert topology["nodes"] == topology["crawler"] + topology["filter"] + topology["reflector"]
    for service, left in told["headroom"].items():
        for constraint, share in left.items():
            assert 0 <= share <= 1
            used, limit = told["loads"][service][constraint], told["limits"][constraint]
            assert share == pytest.approx(1 - used / limit)
    assert [row["talk"]["nodes"] for row in told["talk"]] == [3, 57, 51, 57]
    assert [role["machines"] for role in told["start"]] == [
        topology[name] for name in ("crawler", "filter", "reflector")
    ]
    assert set(told["costs"]) == set(NAMES)
    assert told["calibration"]["commit"]


def test_larger_machines_are_fewer_and_costs_can_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    small = _json(capsys)["topology"]["nodes"]
    large = _json(capsys, "--bandwidth", "10Gbps", "--memory", "64GB", "--cores", "32")["topology"]["nodes"]
    assert large < small
    greedy = _json(capsys, "--cost", "index_subscription_bytes=1000")
    assert greedy["costs"]["index_subscription_bytes"] == 1_000
    assert greedy["topology"]["filter"] > 10


def test_people_get_the_topology_the_talks_table_what_to_start_and_what_it_rests_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "topology.svg"
    assert run([*ASKED, "--svg", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "machines for 10,000,000 subscriptions" in said
    assert "57 = 1 + 28 + 28" in said
    assert "tidings run" in said
    assert all(name in said for name in NAMES)
    root = ET.fromstring(picture.read_text("utf-8"))
    assert "10,000,000 subscriptions" in "".join(root.itertext())


def test_costs_come_from_a_file_as_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    file.write_text(load_calibration().to_json())
    assert load_calibration(file) == load_calibration()
    assert _json(capsys, "--costs", str(file)) == _json(capsys)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["provision"], "--subscriptions"),
        (["provision", "-s", "10M"], "--feeds"),
        (["provision", "-s", "many", "-f", "1M"], "'10M'"),
        ([*ASKED, "--bandwidth", "25"], "'25Mbps'"),
        ([*ASKED, "--memory", "0GB"], "greater than 0"),
        ([*ASKED, "--poll", "soon"], "--poll"),
        ([*ASKED, "--cost", "nothing=1"], "no cost called 'nothing'"),
        ([*ASKED, "--cost", "match_share"], "NAME=VALUE"),
        ([*ASKED, "--cost", "match_share=2"], "between 0 and 1"),
        ([*ASKED, "--costs", "none.json"], "cannot be read"),
        ([*ASKED, "--memory", "1MB"], "however many"),
        ([*ASKED, "--plan", "replicated", "--cost", "index_subscription_bytes=1000"], "memory"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.strip().splitlines()) == 1


@pytest.mark.parametrize("body", ["{}", "no JSON", '{"format": "tidings-costs", "format_version": 1, "costs": {}}'])
def test_a_file_of_costs_that_is_none_is_refused_by_name(tmp_path: Path, body: str) -> None:
    file = tmp_path / "odd.json"
    file.write_text(body)
    with pytest.raises(InputError, match=r"odd\.json"):
        load_calibration(file)


def test_quantities_are_read_as_people_write_them() -> None:
    assert [parse_count(one, "") for one in ("7", "250,000", "250K", "0.25M", "1_000", "2B")] == [
        7,
        250_000,
        250_000,
        250_000,
        1_000,
        2_000_000_000,
    ]
    assert [parse_bits_per_second(one, "") for one in ("25Mbps", "1 Gbps", "64 kbit/s")] == [25e6, 1e9, 64e3]
    assert [parse_bytes(one, "") for one in ("1GB", "512 MiB", "2kb")] == [1e9, 512 * 2**20, 2e3]
    for odd in ("", "-1", "1,00", "10X", "1.2.3", "NaN"):
        with pytest.raises(InputError):
            parse_count(odd, "--feeds")
