"""The commands `tidings subscribe`, `unsubscribe` and `subscriptions`."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cli.runs import environment

from tidings.cli.main import run
from tidings.cli.options.state import locate_state
from tidings.store import open_store

IMPORTS = """
import sys
from tidings.cli.main import run
assert run(["subscribe", "storm OR rain", "--region", "1,2,3,4"]) == 0
open("few.txt", "w").write("storm")
assert run(["subscribe", "--file", "few.txt", "--json"]) == 0
print([name for name in ("pyspark", "numba") if name in sys.modules])
"""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Change to an empty folder, without TIDINGS variables."""
    monkeypatch.chdir(tmp_path)
    for name in ("TIDINGS_STATE", "TIDINGS_WORK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run_tidings(capsys):
    def run_it(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_it


def read_stored(where="tidings-state"):
    with open_store(where) as store:
        return [(row.id, row.owner, row.query, row.region) for row in store.subscriptions.all()]


def test_id_is_printed_and_the_state_is_created(run_tidings):
    assert run_tidings("subscribe", 'storm OR "heavy rain"') == (0, "1\n", "")
    assert run_tidings("subscribe", "-calm fire", "--owner", "ann", "--region", "-1, 50, 1, 52") == (0, "2\n", "")
    assert read_stored() == [(1, "", 'storm OR "heavy rain"', None), (2, "ann", "-calm fire", (-1.0, 50.0, 1.0, 52.0))]


def test_json_has_the_stored_subscription(run_tidings):
    code, out, _ = run_tidings("subscribe", "storm", "--region", "1,2,3,4", "--owner", "ann", "--json")
    assert code == 0
    assert json.loads(out) == {"id": 1, "owner": "ann", "query": "storm", "region": [1.0, 2.0, 3.0, 4.0]}


def test_region_alone_is_a_subscription(run_tidings):
    assert run_tidings("subscribe", "--region", "1,2,3,4")[0] == 0
    assert read_stored() == [(1, "", "", (1.0, 2.0, 3.0, 4.0))]


def test_invalid_query_is_shown_with_a_caret_and_creates_nothing(run_tidings, tmp_path):
    code, out, err = run_tidings("subscribe", "storm (fire")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "tidings: This parenthesis is never closed. Add one at the end of the group. (at character 7)",
        "  storm (fire",
        "        ^",
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "QUERY or --file FILE is required"),
        (["storm", "--region", "1,2,3"], "--region 1,2,3: A rectangle needs four numbers"),
        (["storm", "--region", "1,2,3,91"], "south and north must be between -90 and 90"),
        (["storm", "--region", "5,4,3,2"], "south must not be greater than north"),
        (["storm", "--file", "subs.txt"], "--file: cannot be combined with QUERY or --region"),
        (["--file", "nowhere.txt"], "nowhere.txt: no such file."),
        (["--jsn"], "--jsn: no such option"),
        (["storm", "--onwer", "ann"], "--onwer"),
        (["storm\udcff"], "QUERY is not valid UTF-8"),
        (["storm", "--state", "mysql://here/x"], "Give a directory or a postgresql:// URL"),
        (["storm", "--state", "file"], "a file, not a directory. Give a directory."),
        (["storm", "--state", "a", "--work-dir", "b"], "is only for a state in PostgreSQL"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_sentence(run_tidings, tmp_path, arguments, sentence):
    (tmp_path / "file").write_text("")
    code, out, err = run_tidings("subscribe", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert sentence in err
    assert not (tmp_path / "tidings-state").exists()


def test_state_comes_from_option_or_environment(run_tidings, monkeypatch):
    monkeypatch.setenv("TIDINGS_STATE", "other")
    run_tidings("subscribe", "storm")
    run_tidings("subscribe", "rain", "--state", "third")
    assert (read_stored("other")[0][2], read_stored("third")[0][2]) == ("storm", "rain")


def test_valid_rows_of_a_file_are_stored_and_others_reported(run_tidings, tmp_path):
    (tmp_path / "subs.txt").write_text("storm\n(bad\n\nthe\nrain\n")
    code, out, err = run_tidings("subscribe", "--file", "subs.txt", "--owner", "ann")
    assert (code, out) == (0, "2 subscribed, ids 1 to 2; 2 rejected\n")
    assert "subs.txt, line 2: This parenthesis is never closed" in err
    assert "subs.txt, line 4: There is nothing to search for" in err
    assert [(owner, query) for _, owner, query, _ in read_stored()] == [("ann", "storm"), ("ann", "rain")]


def test_rows_keep_their_regions_and_owners(run_tidings, tmp_path):
    rows = [
        {"id": 7, "query": "storm", "owner": "bob", "region": [1, 2, 3, 4]},
        {"id": 8, "query": "rain"},
        {"id": 9, "query": "fire", "region": [1, 2, 3, 99]},
        {"id": 7, "query": "again"},
    ]
    (tmp_path / "subs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, _ = run_tidings("subscribe", "--file", "subs.jsonl", "--owner", "ann", "--json")
    summary = json.loads(out)
    assert (code, summary["subscribed"], summary["first_id"], summary["last_id"]) == (0, 2, 1, 2)
    assert [(row["line"], row["id"]) for row in summary["rejected"]] == [(3, 9), (4, 7)]
    assert "between -90 and 90" in summary["rejected"][0]["reason"]
    assert read_stored() == [(1, "bob", "storm", (1.0, 2.0, 3.0, 4.0)), (2, "ann", "rain", None)]


def test_csv_and_parquet_are_read(run_tidings, tmp_path):
    (tmp_path / "subs.csv").write_text('id,query,region\na,storm,"1,2,3,4"\n')
    pq.write_table(pa.table({"id": ["x"], "query": ["rain"]}), tmp_path / "subs.parquet")
    assert run_tidings("subscribe", "--file", "subs.csv")[1] == "1 subscribed, ids 1 to 1\n"
    assert run_tidings("subscribe", "--file", "subs.parquet")[1] == "1 subscribed, ids 2 to 2\n"


def test_file_without_valid_rows_is_rejected_and_changes_nothing(run_tidings, tmp_path):
    (tmp_path / "subs.txt").write_text("(bad\n")
    code, out, err = run_tidings("subscribe", "--file", "subs.txt", "--json")
    assert (code, out) == (2, "")
    assert "all 1 subscriptions are rejected. The first is line 1: This parenthesis" in err
    assert not (tmp_path / "tidings-state").exists()


def test_only_some_of_many_rejected_rows_are_shown(run_tidings, tmp_path):
    (tmp_path / "subs.txt").write_text("storm\n" + "(\n" * 50)
    _, out, err = run_tidings("subscribe", "--file", "subs.txt")
    assert out == "1 subscribed, ids 1 to 1; 50 rejected\n"
    assert err.count("never closed") == 20
    assert "30 more are rejected; --json lists all" in err


def test_unsubscribe_removes_and_ids_are_not_reused(run_tidings):
    run_tidings("subscribe", "storm")
    assert run_tidings("unsubscribe", 1) == (0, "Subscription 1 removed.\n", "")
    assert run_tidings("unsubscribe", 1)[::2] == (2, "tidings: Subscription 1 was removed.\n")
    assert run_tidings("subscribe", "storm")[1] == "2\n"


def test_subscription_of_another_owner_does_not_exist(run_tidings):
    run_tidings("subscribe", "storm", "--owner", "ann")
    code, _, err = run_tidings("unsubscribe", 1, "--owner", "bob")
    assert (code, err) == (2, "tidings: Subscription 1 does not exist. `tidings subscriptions` lists yours.\n")
    assert run_tidings("unsubscribe", 1, "--owner", "ann")[0] == 0


def test_subscriptions_are_listed_by_owner(run_tidings):
    for query, owner in (("storm", "ann"), ("rain", "bob")):
        run_tidings("subscribe", query, "--owner", owner, "--region", "1,2,3,4")
    _, out, _ = run_tidings("subscriptions")
    assert [line.split()[0] for line in out.splitlines()] == ["id", "1", "2"]
    assert "rain  --region 1,2,3,4" in out
    code, out, _ = run_tidings("subscriptions", "--owner", "bob", "--json")
    (summary,) = map(json.loads, out.splitlines())
    assert (code, summary["id"], summary["query"], summary["region"]) == (0, 2, "rain", [1, 2, 3, 4])
    assert abs(summary["created_at"] - time.time()) < 60


def test_empty_list_shows_how_to_begin(run_tidings):
    run_tidings("subscribe", "storm")
    code, out, err = run_tidings("subscriptions", "--owner", "nobody")
    assert (code, out) == (0, "")
    assert "no subscriptions of nobody; add one with `tidings subscribe QUERY`" in err
    assert run_tidings("subscriptions", "--owner", "nobody", "--json") == (0, "", "")


def test_long_list_is_complete(run_tidings, tmp_path):
    (tmp_path / "subs.txt").write_text("".join(f"word{number}\n" for number in range(1200)))
    run_tidings("subscribe", "--file", "subs.txt")
    lines = run_tidings("subscriptions")[1].splitlines()
    assert [line.split()[-1] for line in lines[1:]] == [f"word{number}" for number in range(1200)]


def test_closed_pipe_is_not_an_error(run_tidings, tmp_path):
    (tmp_path / "subs.txt").write_text("".join(f"word{number}\n" for number in range(5000)))
    run_tidings("subscribe", "--file", "subs.txt")
    for option in ("", "--json"):
        command = f"{sys.executable} -m tidings.cli.main subscriptions {option} | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, text=True, check=True)
        assert (done.stdout.splitlines()[1:], done.stderr) == (["0"], "")


def test_control_characters_of_queries_and_owners_are_removed(run_tidings):
    with open_store("tidings-state") as store:  # older versions accepted any name
        store.subscriptions.add("storm", "an\x1b]0;x\x07n [bold]")
    assert run_tidings("subscribe", "rain \x1b[31m \x9b1m", "--owner", "an\x1b]0;x\x07n [bold]")[0] == 0
    for arguments in ([], ["--json"]):
        out = run_tidings("subscriptions", *arguments)[1]
        assert not {"\x1b", "\x9b", "\x07"} & set(out)
        assert "[bold]" in out


@pytest.mark.parametrize("command", [["unsubscribe", "1"], ["subscriptions"], ["matches", "1"], ["status"]])
def test_missing_state_shows_how_to_begin(run_tidings, tmp_path, command):
    code, out, err = run_tidings(*command, "--state", "no where")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no where: no state found. Begin with `tidings subscribe QUERY --state 'no where'`" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["subscribe", "unsubscribe", "subscriptions", "matches", "status"])
def test_help_has_examples(run_tidings, command):
    code, out, _ = run_tidings(command, "--help")
    assert code == 0
    assert "Examples" in out
    assert "TIDINGS_STATE" in out


def test_passwords_are_not_shown(tmp_path):
    location = locate_state("postgresql://me:se@cret@host:5432/db?sslpassword=secret&x=1", tmp_path)
    assert location.work_dir == tmp_path
    assert "cret" not in location.display_name + location.option
    assert location.display_name == "postgresql://me@host:5432/db?sslpassword=&x=1"


def test_state_in_a_database_has_a_work_directory(monkeypatch):
    assert str(locate_state("postgres://host/db").work_dir) == "tidings-state"


def test_subscribe_loads_neither_spark_nor_numba(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], env=environment(), capture_output=True, text=True, check=True, timeout=300
    )
    assert [done.stdout.splitlines()[position] for position in (0, -1)] == ["1", "[]"], done.stderr


TRIANGLE = {"type": "Polygon", "coordinates": [[[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]]}
NUMBERS = (1.0, 1.0, 4.0, 0.0, 0.0, 4.0, 0.0, 0.0, 4.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "written",
    [
        TRIANGLE,
        {"type": "Feature", "properties": {}, "geometry": TRIANGLE},
        {"type": "FeatureCollection", "features": [{"type": "Feature", "properties": None, "geometry": TRIANGLE}]},
    ],
)
def test_region_may_be_a_geojson_file(run_tidings, tmp_path, written):
    (tmp_path / "town.geojson").write_text(json.dumps(written))
    code, out, _ = run_tidings("subscribe", "storm", "--region", "town.geojson", "--json")
    assert (code, json.loads(out)["region"]) == (0, TRIANGLE)
    assert read_stored() == [(1, "", "storm", NUMBERS)]
    assert json.loads(run_tidings("subscriptions", "--json")[1])["region"] == TRIANGLE
    assert "storm  (in a polygon of 3 corners)" in run_tidings("subscriptions")[1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON. Give GeoJSON polygons"),
        ('{"west": 1}', "it has no `type`"),
        ('{"type": "Point", "coordinates": [1, 2]}', "not 'Point'"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1]]]}', "Ring 1 of polygon 1 has 3 positions"),
        (None, "No such file"),
    ],
)
def test_invalid_geojson_file_is_rejected_in_one_sentence(run_tidings, tmp_path, content, reason):
    if content is not None:
        (tmp_path / "town.geojson").write_text(content)
    code, out, err = run_tidings("subscribe", "storm", "--region", "town.geojson")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err


def test_polygons_of_a_file_are_stored(run_tidings, tmp_path):
    (tmp_path / "many.jsonl").write_text(json.dumps({"id": 1, "query": "storm", "region": TRIANGLE}) + "\n")
    assert run_tidings("subscribe", "--file", "many.jsonl")[0] == 0
    assert read_stored() == [(1, "", "storm", NUMBERS)]


@pytest.mark.parametrize("name", ["\u0430nn\u200b", "bob.", "Bob", "b0b"])
def test_a_new_owner_has_a_name_that_is_valid_for_accounts(run_tidings, tmp_path, name):
    (tmp_path / "subs.jsonl").write_text(json.dumps({"id": 1, "query": "storm", "owner": name}) + "\n")
    (tmp_path / "subs.txt").write_text("storm\n")
    (tmp_path / "list.opml").write_text('<opml><body><outline xmlUrl="https://e.org/f"/></body></opml>')
    commands = (
        ("subscribe", "storm", "--owner", name),
        ("subscribe", "--file", "subs.txt", "--owner", name),
        ("subscribe", "--file", "subs.jsonl"),
        ("feeds", "add", "https://e.org/f", "--owner", name),
        ("feeds", "import", "list.opml", "--owner", name),
    )
    if name == "b0b":
        run_tidings("owners", "add", "bob")
    for command in commands:
        code, out, err = run_tidings(*command)
        assert (code, out) == (2, ""), command
        assert ("looks like" if name == "b0b" else "not a valid name") in " ".join(err.split())
    assert (tmp_path / "tidings-state").exists() == (name == "b0b")


@pytest.mark.parametrize("name", ["Bob", "b0b"])
def test_an_owner_that_is_known_keeps_its_name(run_tidings, name):
    run_tidings("owners", "add", "bob")
    with open_store("tidings-state") as store:
        store.feeds.add("https://e.org/a", name)
    assert run_tidings("subscribe", "storm", "--owner", name)[0] == 0
    assert run_tidings("feeds", "add", "https://e.org/f", "--owner", name)[0] == 0
    assert run_tidings("subscribe", "rain", "--owner", "bob")[0] == 0


def test_hidden_characters_of_a_query_are_removed_where_they_have_no_effect(run_tidings, tmp_path):
    hidden, cleaned = "st\u200borm\U000e0041 OR 👩\u200d👧 OR می\u200cخ", "storm OR 👩\u200d👧 OR می\u200cخ"
    (tmp_path / "subs.txt").write_text(f"{hidden}\n")
    assert json.loads(run_tidings("subscribe", hidden, "--json")[1])["query"] == cleaned
    assert run_tidings("subscribe", "--file", "subs.txt")[0] == 0
    assert [query for _, _, query, _ in read_stored()] == [cleaned, cleaned]


def test_owner_that_is_not_utf8_is_rejected(run_tidings):
    assert run_tidings("subscribe", "storm")[0] == 0
    code, out, error = run_tidings("subscriptions", "--owner", "\udcff")
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert "--owner is not valid UTF-8" in error
