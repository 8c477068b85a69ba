"""The programs in examples/ run and give the results their texts promise."""

from __future__ import annotations

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name: str, *arguments: object):
    return runpy.run_path(str(EXAMPLES / name))["main"](*arguments)


def test_match_dataframes_finds_weather_police_and_harbour(spark):
    found = dict(run_example("match_dataframes.py"))
    assert {name: text.split()[0] for name, text in found.items()} == {
        "weather": "Storm",
        "london-police": "Police",
        "quiet": "A",
    }


def test_alert_on_stream_sees_every_match_once(spark):
    assert run_example("alert_on_stream.py") == [(1, "a"), (1, "d"), (2, "b"), (3, "d")]


def test_compare_partitioners_measures_every_partitioner():
    results = run_example("compare_partitioners.py", 8)
    assert list(results) == ["hash", "salb", "salb+"]
    assert results["salb+"].throughput > results["hash"].throughput > 1


def test_the_list_of_examples_is_complete():
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert all(f"({path.name})" in listed for path in EXAMPLES.glob("*.py"))
