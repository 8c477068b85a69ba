"""`tidings match` on files of every format, with rejected rows, unusable files, a full disk and an interrupt."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.runs import TIDINGS, environment, run_command, run_here

from tidings.demo.generate import DEMO_QUERIES, generate_posts
from tidings.matching.brute_force import match_all
from tidings.query.parse import parse

QUERIES = list(DEMO_QUERIES.values())
POSTS = generate_posts(400, seed=5)
KEYS = {
    "posts", "subscriptions", "matches", "rejected_posts", "rejected_subscriptions", "reasons", "duplicate_posts",
    "plan", "why", "matchers", "index_version", "seconds", "posts_per_second", "out", "rejected_file",
}  # fmt: skip
ODD_POSTS = r"""
{"id": "007", "text": "a storm hits the city"}
{"id": "008", "text": "quiet", "tags": ["storm", "sea"]}
{"id": "007", "text": "the storm again"}
{"id": "009", "id": "010", "text": "storm, with a key twice"}
{"id": "a,\"b\"", "text": "storm", "Text": "another field"}
{"id": "011", "text": null}
{"id": "012", "text": "storm", "lat": 91, "lon": 0}
not JSON: storm
{"text": "storm without an id"}
{"id": "=HYPERLINK(1)", "text": "storm"}
{"id": "-7", "text": "storm"}

[not JSON
not JSON: storm
"""
ODD_SUBSCRIPTIONS = 'id,query\n001,storm\n002,"a (b"\n001,rain\n003,#sea\n'
COMMANDS = {
    "parquet": ["posts.parquet", "--subscriptions", "subs.txt", "--out", "m.parquet"],
    "json": ["posts.jsonl.gz", "--subscriptions", "subs.jsonl", "--out", "m.jsonl", "--plan", "partitioned"],
    "csv": ["csv", "--subscriptions", "subs.csv", "--out", "m.csv"],
    "glob": ["csv/*.csv", "--subscriptions", "subs.parquet", "--out", "m.csv", "--overwrite", "--matchers", "3"],
    "odd": ["odd.jsonl", "--subscriptions", "odd.csv", "--out", "odd-matches.csv"],
    "csv-odd": ["odd-posts.csv", "--subscriptions", "odd.csv", "--out", "odd-csv.jsonl"],
    "binary": ["binary.parquet", "--subscriptions", "subs.txt", "--out", "binary"],
    "none": ["empty.jsonl", "--subscriptions", "subs.txt", "--out", "none.csv"],
    "junk": ["junk.jsonl", "--subscriptions", "subs.txt", "--out", "junk.csv"],
    "no text": ["no-text.jsonl", "--subscriptions", "subs.txt", "--out", "no-text.csv"],
    "cut": ["cut.jsonl.gz", "--subscriptions", "subs.txt", "--out", "cut.csv"],
    "damaged": ["damaged.parquet", "--subscriptions", "subs.txt", "--out", "damaged.csv"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The same posts and subscriptions in every format, and files with errors."""
    folder = tmp_path_factory.mktemp("match")
    rows = [{**row, "time": row["time"].isoformat()} for row in POSTS.to_pylist()]
    pq.write_table(POSTS, folder / "posts.parquet")
    with gzip.open(folder / "posts.jsonl.gz", "wt") as out:
        out.writelines(json.dumps({k: v for k, v in row.items() if v is not None}) + "\n" for row in rows)
    (folder / "csv").mkdir()
    write_csv(folder / "csv" / "1.csv", rows[:250], POSTS.column_names)
    write_csv(folder / "csv" / "2.csv", rows[250:], POSTS.column_names[::-1])  # another order of columns
    named = [{"id": number, "query": query} for number, query in enumerate(QUERIES, 1)]
    (folder / "subs.txt").write_text("\n".join(QUERIES))
    (folder / "subs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in named))
    write_csv(folder / "subs.csv", named, ["id", "query"])
    pq.write_table(pa.Table.from_pylist(named), folder / "subs.parquet")
    write_odd(folder)
    return folder


def write_odd(folder: Path) -> None:
    (folder / "odd.jsonl").write_text(ODD_POSTS.strip() + "\n")
    (folder / "odd.csv").write_text(ODD_SUBSCRIPTIONS)
    (folder / "odd-posts.csv").write_bytes(
        b'\xef\xbb\xbfid,text,lat,lon\r\n007,"a ""big""\r\nstorm",,\r\n08,storm,x,1\r\n9,storm\r\n10, storm ,1,1\r\n'
    )
    text = pa.array([b"storm", b"bad \xff storm", b"x" * 1_100_000], pa.binary())
    times = pa.array([1, 2, 3], pa.timestamp("ns"))  # as pandas writes them
    pq.write_table(pa.table({"id": pa.array([1, 2, 2**64 - 1], pa.uint64()), "text": text, "time": times}),
                   folder / "binary.parquet")  # fmt: skip
    (folder / "empty.jsonl").write_text("")
    (folder / "junk.jsonl").write_text("storm\nrain\n")
    (folder / "no-text.jsonl").write_text('{"id": 1, "body": "storm"}\n')
    content = (folder / "posts.jsonl.gz").read_bytes()
    (folder / "cut.jsonl.gz").write_bytes(content[: len(content) // 2])
    damaged = bytearray((folder / "posts.parquet").read_bytes())
    damaged[len(damaged) // 4 : len(damaged) // 2] = bytes(len(damaged) // 2 - len(damaged) // 4)
    (folder / "damaged.parquet").write_bytes(damaged)


def write_csv(file: Path, rows: list[dict], names: list[str]) -> None:
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def results(folder, spark):
    """The results of all commands."""
    done = run_here([["match", *arguments, "--json"] for arguments in COMMANDS.values()], folder, spark)
    return dict(zip(COMMANDS, done, strict=True))


@pytest.fixture(scope="module")
def expected_matches():
    places = zip(*(POSTS[name].to_pylist() for name in ("text", "lat", "lon")), strict=True)
    ids = POSTS["id"].to_pylist()
    return sorted(
        (subscription + 1, ids[post]) for subscription, post in match_all(places, [parse(q) for q in QUERIES])
    )


def read_csv(file: Path) -> list[tuple[str, str]]:
    with file.open(newline="") as content:
        header, *rows = csv.reader(content)
    assert header == ["subscription_id", "post_id", "index_version"]
    assert {row[2] for row in rows} <= {"1"}
    return sorted((row[0], row[1]) for row in rows)


def read_lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_parquet_gives_the_matches_of_the_brute_force_matcher(folder, results, expected_matches):
    table = pq.read_table(folder / "m.parquet")
    assert table.schema.names == ["subscription_id", "post_id", "index_version"]
    assert {str(kind) for kind in table.schema.types} == {"int64"}
    assert sorted(zip(*(table[name].to_pylist() for name in table.schema.names[:2]), strict=True)) == expected_matches
    assert results["parquet"].summary["matches"] == len(expected_matches) > 20


def test_json_lines_give_the_same_matches(folder, results, expected_matches):
    assert results["json"].summary["plan"] == "partitioned"
    found = read_lines(folder / "m.jsonl")
    assert sorted((row["subscription_id"], row["post_id"]) for row in found) == expected_matches


def test_csv_gives_the_same_matches_with_ids_as_text(folder, results, expected_matches):
    wanted = sorted((str(subscription), str(post)) for subscription, post in expected_matches)
    assert results["csv"].summary["matches"] == results["glob"].summary["matches"] == len(wanted)
    assert read_csv(folder / "m.csv") == wanted  # as replaced by the run with the glob


def test_summary_has_all_keys(results):
    summary = results["parquet"].summary
    assert set(summary) == KEYS
    assert summary["posts"] == 400
    assert summary["subscriptions"] == len(QUERIES)
    assert summary["reasons"] == {"posts": {}, "subscriptions": {}}
    assert summary["rejected_file"] is None
    assert summary["posts_per_second"] > 0


def test_ids_keep_their_value_and_repeated_ones_count_once(folder, results):
    found = read_csv(folder / "odd-matches.csv")
    generated = [post for _, post in found if len(post) == 32]
    assert len(generated) == 1
    wanted = [("001", post) for post in ("007", "008", "010", 'a,"b"', "'=HYPERLINK(1)", "-7", *generated)]
    assert found == sorted([*wanted, ("003", "008")])
    assert results["odd"].summary["duplicate_posts"] == 1


def test_rejected_rows_are_counted_by_reason_and_listed(folder, results):
    summary = results["odd"].summary
    reasons = summary["reasons"]
    assert summary["posts"] == 13
    assert reasons["posts"] == {
        "lat is not between -90 and 90": 1,
        "the text is missing": 1,
        "the line cannot be read": 3,
    }
    assert summary["rejected_posts"] == 5
    assert summary["rejected_subscriptions"] == sum(reasons["subscriptions"].values()) == 2
    assert summary["rejected_file"] == "odd-matches.csv.rejected.jsonl"
    listed = read_lines(folder / summary["rejected_file"])
    assert [(row["kind"], row["id"], row["line"]) for row in listed if row["kind"] == "subscription"] == [
        ("subscription", "002", 3), ("subscription", "001", 4),
    ]  # fmt: skip
    assert {(row["id"], row["text"]) for row in listed if row["kind"] == "post"} >= {("011", None), ("012", "storm")}
    rejected = [(row["line"], row["id"], row["text"]) for row in listed if row["kind"] == "post"]
    assert rejected == [
        (6, "011", None), (7, "012", "storm"), (8, None, "not JSON: storm"),
        (13, None, "[not JSON"), (14, None, "not JSON: storm"),
    ]  # fmt: skip
    assert {row["file"] for row in listed if row["kind"] == "post"} == {str(folder / "odd.jsonl")}
    assert {row["file"] for row in listed if row["kind"] == "subscription"} == {str(folder / "odd.csv")}


def test_csv_follows_rfc_4180_and_invalid_rows_are_rejected(folder, results):
    summary = results["csv-odd"].summary
    assert summary["reasons"]["posts"] == {"lat is not a number": 1, "the line cannot be read": 1}
    listed = read_lines(folder / "odd-csv.jsonl.rejected.jsonl")
    posts = [(row["file"], row["line"], row["id"]) for row in listed if row["kind"] == "post"]
    assert posts == [(str(folder / "odd-posts.csv"), 4, "08"), (str(folder / "odd-posts.csv"), 5, "9")]
    found = read_lines(folder / "odd-csv.jsonl")
    assert sorted((row["subscription_id"], row["post_id"]) for row in found) == [("001", "007"), ("001", "10")]


def test_binary_too_long_and_invalid_texts_are_rejected(folder, results):
    summary = results["binary"].summary
    assert summary["reasons"]["posts"] == {
        "the text is not valid UTF-8": 1,
        "the text is longer than 1,048,576 bytes": 1,
    }
    assert pq.read_table(folder / "binary")["post_id"].to_pylist() == [1]


def test_empty_file_gives_no_matches(folder, results):
    assert results["none"].summary["posts"] == 0
    assert (folder / "none.csv").read_text() == "subscription_id,post_id,index_version\n"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("junk", "junk.jsonl: none of the 2 lines is a JSON object."),
        ("no text", "Posts: the field `text` is missing. The fields are: 'body', 'id'."),
        ("cut", "cut.jsonl.gz: the file is damaged"),
        ("damaged", "damaged.parquet: the file is damaged"),
    ],
)
def test_unusable_files_are_rejected_by_name(folder, results, name, sentence):
    result = results[name]
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err
    assert "is damaged" not in sentence or ". Replace it, or leave it out." in result.err
    assert not list(folder.glob(f"{name}.csv*"))


def test_no_temporary_files_are_left(folder, results):
    assert not list(folder.glob(".*"))


def test_progress_and_summary_are_printed_as_text(folder, spark):
    (result,) = run_here([["match", "odd.jsonl", "-s", "odd.csv", "-o", "shown.csv"]], folder, spark)
    assert result.code == 0, result.err
    lines = result.err.splitlines()
    assert lines[0] == "tidings: starting Spark"
    assert "tidings: matching" in lines
    assert all(line.startswith("tidings: ") for line in lines), "no output of Spark"
    for line in (
        "13, of which 5 rejected",
        "1 × the text is missing",
        "1 have an id that occurred before",
        "posts/s",
        "shown.csv.rejected.jsonl",
    ):
        assert line in result.out
    assert "replicated: " in result.out


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare")
def test_full_disk_is_reported_in_one_sentence(folder):
    posts = pa.table({"id": pa.array(range(60_000)), "text": ["storm"] * 60_000})
    pq.write_table(posts, folder / "many.parquet")
    (folder / "disk").mkdir()
    script = 'mount -t tmpfs -o size=64k tmpfs disk && "$@"; code=$?; ls -A disk; exit $code'
    command = ("unshare", "-rm", "sh", "-c", script, "sh", *TIDINGS)
    if subprocess.run([*command[:4], "mount -t tmpfs tmpfs disk"], cwd=folder, capture_output=True).returncode:
        pytest.skip("mounting a small disk is not permitted")
    arguments = ("match", "many.parquet", "-s", "subs.txt", "-o", "disk/out.jsonl", "--json")
    result = run_command(*arguments, folder=folder, command=command)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("tidings: disk/out.jsonl: no space left on the device")
    assert result.err.count("\n") == 1


def test_interrupt_leaves_no_partial_result(folder):
    arguments = ["match", "posts.parquet", "-s", "subs.txt", "-o", "interrupted"]
    process = subprocess.Popen(
        [*TIDINGS, *arguments], cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    lines = next((line for line in process.stderr if "matching" in line or "error" in line), "")
    assert lines == "tidings: matching\n"
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    rest = process.stderr.read()
    assert process.wait(60) == 130
    assert rest == "tidings: interrupted; no partial result was left.\n"
    assert not list(folder.glob("*interrupted*"))
    assert not list(folder.glob(".*interrupted*"))
