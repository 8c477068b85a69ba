"""`tidings correlate`, `trends` and `related` on files: exact coefficients, all formats, invalid options."""

from __future__ import annotations

import csv
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.runs import CommandResult, run_here

DAY = 86_400
POSTS = ["correlate", "posts.parquet", "--window", "2 days", "--slide", "1 day", "--min-sightings", "1", "--json"]
COMMANDS = {
    "parquet": [*POSTS, "--partitions", "3", "--check-every", "10", "--threshold", "0.01", "--audit", "--out", "found"],
    "jsonl": ["correlate", "odd.jsonl", "--window", "1 day", "--min-support", "1", "--out", "odd_out.jsonl", "--json"],
    "csv": [*POSTS, "--algorithm", "scl", "--partitioners", "2", "--out", "found.csv"],
    "late": ["correlate", "posts.csv", "--window", "1 day", "--lateness", "1 h", "--out", "l.csv"],
    "again": [*POSTS, "--out", "found"],
    "trends": ["trends", "--from", "found", "--json", "--top", "3", "--posts", "posts.parquet"],
    "related": ["related", "#T1", "--from", "found.csv", "--top", "2", "--json"],
    "shown": ["trends", "--from", "found", "--top", "1"],
    "empty": ["correlate", "empty.jsonl", "--window", "1 day", "--out", "e.csv", "--json"],
    "no time": ["correlate", "untimed.parquet", "--window", "1 day", "--out", "x"],
}


def tagged_posts() -> pa.Table:
    rng = np.random.default_rng(8)
    tags = [sorted({f"t{n}" for n in rng.zipf(1.7, rng.integers(1, 5)) % 30}) for _ in range(600)]
    times = np.sort(rng.integers(0, 6 * DAY, 600)) * 1_000_000
    burst = [["new", "story"]] * 9
    when = np.append(times, [6 * DAY * 1_000_000 - 1] * 9)
    return pa.table(
        {"time": pa.array(when, pa.timestamp("us", "UTC")), "id": np.arange(609), "tags": pa.array([*tags, *burst])}
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory, spark) -> dict[str, CommandResult]:
    folder = tmp_path_factory.mktemp("correlate")
    pq.write_table(tagged_posts(), folder / "posts.parquet")
    pq.write_table(pa.table({"text": ["#a #b"]}), folder / "untimed.parquet")
    odd = [
        '{"id": 1, "time": "2020-03-12T10:00:00Z", "text": "#Storm and #flood"}',
        '{"id": 2, "time": 1584007200, "text": "#storm", "tags": ["flood", "sea"]}',
        '{"id": 3, "time": "soon", "text": "#storm #sea"}',
        "no JSON",
        '{"id": 4, "time": "2020-03-12T12:00:00Z", "text": "nothing"}',
    ]
    (folder / "empty.jsonl").touch()
    (folder / "odd.jsonl").write_text("\n".join(odd))
    (folder / "posts.csv").write_text(
        "time,text\n2020-01-01T10:00:00Z,#a #b\n2020-01-01T13:00:00Z,#a #b\n2020-01-01T10:30:00Z,#a #b\n"
    )
    all_results = dict(zip(COMMANDS, run_here(list(COMMANDS.values()), folder, spark), strict=True))
    all_results["folder"] = folder
    return all_results


def coefficients_by_definition(slides: int) -> dict:
    rows = tagged_posts().to_pylist()
    found: dict = {}
    for row in rows:
        day = int(row["time"].timestamp()) // DAY
        for end in range(day + 1, day + slides + 1):
            found.setdefault(end, []).append(set(row["tags"]))
    return {
        (end, subset): (sum(set(subset) <= post for post in posts), sum(bool(set(subset) & post) for post in posts))
        for end, posts in found.items()
        for post in posts
        for size in range(2, len(post) + 1)
        for subset in combinations(sorted(post), size)
    }


def read_coefficients(path: Path) -> dict:
    if path.suffix == ".csv":
        with path.open() as lines:
            rows = [{**row, "tags": row["tags"].split(" ")} for row in csv.DictReader(lines)]
        return {
            (row["window_end"], tuple(sorted(row["tags"]))): (int(row["support"]), int(row["union"])) for row in rows
        }
    rows = pq.read_table(path).to_pylist()
    return {
        (int(row["window_end"].timestamp()) // DAY, tuple(sorted(row["tags"]))): (row["support"], row["union"])
        for row in rows
    }


def test_output_has_all_coefficients_exactly(results):
    exact = {key: counts for key, counts in coefficients_by_definition(2).items() if counts[0] >= 2}
    assert read_coefficients(results["folder"] / "found") == exact
    summary = results["parquet"].summary
    assert summary["coefficients"] == len(exact)
    assert (summary["coverage"], summary["mean_error"]) == (1.0, 0.0)
    assert summary["repartitions"]
    assert {"reason", "at", "partitions"} == set(summary["repartitions"][0])
    assert sum(summary["loads"]) >= summary["tagged_posts"] == 609


def test_every_algorithm_writes_the_same_coefficients(results):
    assert len(read_coefficients(results["folder"] / "found.csv")) == results["csv"].summary["coefficients"]
    assert results["csv"].summary["coefficients"] == results["parquet"].summary["coefficients"]


def test_rejected_rows_are_listed_and_do_not_stop_the_job(results):
    summary = results["jsonl"].summary
    assert summary["reasons"] == {"the time is missing or cannot be read": 1, "the line cannot be read": 1}
    found = [json.loads(line) for line in (results["folder"] / "odd_out.jsonl").read_text().splitlines()]
    assert {tuple(sorted(row["tags"])): row["support"] for row in found} == {
        ("flood", "storm"): 2,
        ("flood", "sea"): 1,
        ("sea", "storm"): 1,
        ("flood", "sea", "storm"): 1,
    }
    listed = [
        json.loads(line) for line in (results["folder"] / "odd_out.jsonl.rejected.jsonl").read_text().splitlines()
    ]
    assert {row["reason"] for row in listed} == set(summary["reasons"])


def test_empty_file_has_no_coefficients(results):
    assert results["empty"].code == 0, results["empty"].err
    assert results["empty"].summary["coefficients"] == 0


def test_late_posts_are_counted_and_dropped(results):
    assert results["late"].code == 0, results["late"].err
    assert "1 too late" in results["late"].out


def test_trends_show_new_stories_with_counts_and_posts(results):
    (first, *_) = results["trends"].summary
    assert sorted(first["tags"]) == ["new", "story"]
    assert first["tag_sets"][0]["support"] == 9
    assert len(first["posts"]) == 3
    assert "9 of 9 posts have all of them" in results["shown"].out


def test_related_tags_are_sorted_by_coefficient(results):
    found = results["related"].summary
    assert len(found) == 2
    assert found[0]["jaccard"] >= found[1]["jaccard"]


def test_existing_output_is_kept_and_posts_need_a_time(results):
    assert results["again"].code == 2
    assert "already exists" in results["again"].err
    assert results["no time"].code == 2
    assert "column `time`" in results["no time"].err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--window", "long"], "window 'long': not a duration"),
        (["--window", "5 min", "--slide", "2 min"], "whole number of slides"),
        (["--window", "1 h", "--partitions", "99"], "partitions 99: out of range. Choose a number from 1 to 64."),
        (["--window", "1 h", "--algorithm", "best"], "ds+scl"),
        (["--window", "1 h", "--track", "the"], "cannot be tracked"),
    ],
)
def test_invalid_options_are_rejected_in_one_sentence(tmp_path, arguments, sentence):
    pq.write_table(pa.table({"text": ["#a"], "time": [1]}), tmp_path / "p.parquet")
    (result,) = run_here([["correlate", "p.parquet", *arguments, "--out", "o"]], tmp_path)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert sentence in result.err
