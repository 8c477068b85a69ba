"""What `tidings subscribe`, `unsubscribe` and `subscriptions` promise."""

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
from tidings.cli.options.state import state_at
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
def _here(tmp_path, monkeypatch):
    """An empty folder, and nothing in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in ("TIDINGS_STATE", "TIDINGS_WORK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def said(capsys):
    def say(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return say


def stored(where="tidings-state"):
    with open_store(where) as store:
        return [(one.id, one.owner, one.query, one.region) for one in store.subscriptions.all()]


def test_the_id_alone_is_printed_and_the_state_is_made(said):
    assert said("subscribe", 'storm OR "heavy rain"') == (0, "1\n", "")
    assert said("subscribe", "-calm fire", "--owner", "ann", "--region", "-1, 50, 1, 52") == (0, "2\n", "")
    assert stored() == [(1, "", 'storm OR "heavy rain"', None), (2, "ann", "-calm fire", (-1.0, 50.0, 1.0, 52.0))]


def test_json_tells_what_was_stored(said):
    code, out, _ = said("subscribe", "storm", "--region", "1,2,3,4", "--owner", "ann", "--json")
    assert code == 0
    assert json.loads(out) == {"id": 1, "owner": "ann", "query": "storm", "region": [1.0, 2.0, 3.0, 4.0]}


def test_a_region_alone_is_a_subscription(said):
    assert said("subscribe", "--region", "1,2,3,4")[0] == 0
    assert stored() == [(1, "", "", (1.0, 2.0, 3.0, 4.0))]


def test_a_refused_query_is_pointed_at_and_nothing_is_made(said, tmp_path):
    code, out, err = said("subscribe", "storm (fire")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "tidings: This parenthesis is never closed; add one at the end of the group. (at character 7)",
        "  storm (fire",
        "        ^",
    ]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Give the QUERY in quotes"),
        (["storm", "--region", "1,2,3"], "--region 1,2,3: A region has four numbers"),
        (["storm", "--region", "1,2,3,91"], "South and north lie between -90 and 90"),
        (["storm", "--region", "5,2,3,4"], "West lies east of east"),
        (["storm", "--file", "subs.txt"], "either a QUERY (and --region) or --file"),
        (["--file", "nowhere.txt"], "nowhere.txt: no such file."),
        (["--jsn"], "There is no option --jsn"),
        (["storm", "--onwer", "ann"], "--onwer"),
        (["storm\udcff"], "QUERY is not valid UTF-8"),
        (["storm", "--state", "mysql://here/x"], "a state is a directory or a postgresql:// URL"),
        (["storm", "--state", "file"], "this is a file; give a directory."),
        (["storm", "--state", "a", "--work", "b"], "is for a state in PostgreSQL"),
    ],
)
def test_each_mistake_is_named_in_one_sentence(said, tmp_path, arguments, sentence):
    (tmp_path / "file").write_text("")
    code, out, err = said("subscribe", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert sentence in err
    assert not (tmp_path / "tidings-state").exists()


def test_the_state_may_be_named_by_option_or_environment(said, monkeypatch):
    monkeypatch.setenv("TIDINGS_STATE", "other")
    said("subscribe", "storm")
    said("subscribe", "rain", "--state", "third")
    assert (stored("other")[0][2], stored("third")[0][2]) == ("storm", "rain")


def test_of_a_file_the_good_rows_are_stored_and_the_bad_ones_told(said, tmp_path):
    (tmp_path / "subs.txt").write_text("storm\n(bad\n\nthe\nrain\n")
    code, out, err = said("subscribe", "--file", "subs.txt", "--owner", "ann")
    assert (code, out) == (0, "2 subscribed, ids 1 to 2; 2 left out\n")
    assert "subs.txt, line 2: This parenthesis is never closed" in err
    assert "subs.txt, line 4: There is nothing to search for" in err
    assert [(owner, query) for _, owner, query, _ in stored()] == [("ann", "storm"), ("ann", "rain")]


def test_rows_with_regions_and_owners_keep_them(said, tmp_path):
    rows = [
        {"id": 7, "query": "storm", "owner": "bob", "region": [1, 2, 3, 4]},
        {"id": 8, "query": "rain"},
        {"id": 9, "query": "fire", "region": [1, 2, 3, 99]},
        {"id": 7, "query": "again"},
    ]
    (tmp_path / "subs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, _ = said("subscribe", "--file", "subs.jsonl", "--owner", "ann", "--json")
    told = json.loads(out)
    assert (code, told["subscribed"], told["first_id"], told["last_id"]) == (0, 2, 1, 2)
    assert [(one["line"], one["id"]) for one in told["rejected"]] == [(3, 9), (4, 7)]
    assert "between -90 and 90" in told["rejected"][0]["reason"]
    assert stored() == [(1, "bob", "storm", (1.0, 2.0, 3.0, 4.0)), (2, "ann", "rain", None)]


def test_csv_and_parquet_are_read_too(said, tmp_path):
    (tmp_path / "subs.csv").write_text('id,query,region\na,storm,"1,2,3,4"\n')
    pq.write_table(pa.table({"id": ["x"], "query": ["rain"]}), tmp_path / "subs.parquet")
    assert said("subscribe", "--file", "subs.csv")[1] == "1 subscribed, ids 1 to 1\n"
    assert said("subscribe", "--file", "subs.parquet")[1] == "1 subscribed, ids 2 to 2\n"


def test_a_file_with_no_good_row_is_refused_and_changes_nothing(said, tmp_path):
    (tmp_path / "subs.txt").write_text("(bad\n")
    code, out, err = said("subscribe", "--file", "subs.txt", "--json")
    assert (code, out) == (2, "")
    assert "none of its 1 subscriptions can be used; the first is line 1: This parenthesis" in err
    assert not (tmp_path / "tidings-state").exists()


def test_only_some_of_many_bad_rows_are_shown(said, tmp_path):
    (tmp_path / "subs.txt").write_text("storm\n" + "(\n" * 50)
    _, out, err = said("subscribe", "--file", "subs.txt")
    assert out == "1 subscribed, ids 1 to 1; 50 left out\n"
    assert err.count("never closed") == 20
    assert "30 more cannot be used; --json lists them all" in err


def test_unsubscribe_removes_and_an_id_is_not_given_again(said):
    said("subscribe", "storm")
    assert said("unsubscribe", 1) == (0, "Subscription 1 is removed.\n", "")
    assert said("unsubscribe", 1)[::2] == (2, "tidings: Subscription 1 was removed.\n")
    assert said("subscribe", "storm")[1] == "2\n"


def test_the_subscription_of_another_owner_is_unknown(said):
    said("subscribe", "storm", "--owner", "ann")
    code, _, err = said("unsubscribe", 1, "--owner", "bob")
    assert (code, err) == (2, "tidings: Subscription 1 does not exist. `tidings subscriptions` lists yours.\n")
    assert said("unsubscribe", 1, "--owner", "ann")[0] == 0


def test_subscriptions_lists_those_of_an_owner(said):
    for query, owner in (("storm", "ann"), ("rain", "bob")):
        said("subscribe", query, "--owner", owner, "--region", "1,2,3,4")
    _, out, _ = said("subscriptions")
    assert [line.split()[0] for line in out.splitlines()] == ["id", "1", "2"]
    assert "rain  --region 1,2,3,4" in out
    code, out, _ = said("subscriptions", "--owner", "bob", "--json")
    (told,) = map(json.loads, out.splitlines())
    assert (code, told["id"], told["query"], told["region"]) == (0, 2, "rain", [1, 2, 3, 4])
    assert abs(told["created_at"] - time.time()) < 60


def test_an_empty_list_says_how_to_begin(said):
    said("subscribe", "storm")
    code, out, err = said("subscriptions", "--owner", "nobody")
    assert (code, out) == (0, "")
    assert "there are no subscriptions of nobody; add one with `tidings subscribe QUERY`" in err
    assert said("subscriptions", "--owner", "nobody", "--json") == (0, "", "")


def test_a_long_list_is_whole(said, tmp_path):
    (tmp_path / "subs.txt").write_text("".join(f"word{number}\n" for number in range(1200)))
    said("subscribe", "--file", "subs.txt")
    lines = said("subscriptions")[1].splitlines()
    assert [line.split()[-1] for line in lines[1:]] == [f"word{number}" for number in range(1200)]


def test_a_list_nobody_reads_to_its_end_is_no_failure(said, tmp_path):
    (tmp_path / "subs.txt").write_text("".join(f"word{number}\n" for number in range(5000)))
    said("subscribe", "--file", "subs.txt")
    for option in ("", "--json"):
        command = f"{sys.executable} -m tidings.cli.main subscriptions {option} | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], env=environment(), capture_output=True, text=True, check=True)
        assert (done.stdout.splitlines()[1:], done.stderr) == (["0"], "")


def test_no_query_or_owner_commands_the_terminal(said):
    said("subscribe", "storm \x1b[31m \x9b1m", "--owner", "an\x1b]0;x\x07n [bold]")
    for arguments in ([], ["--json"]):
        out = said("subscriptions", *arguments)[1]
        assert not {"\x1b", "\x9b", "\x07"} & set(out)
        assert "[bold]" in out


@pytest.mark.parametrize("command", [["unsubscribe", "1"], ["subscriptions"], ["matches", "1"], ["status"]])
def test_where_there_is_no_state_it_says_how_to_begin(said, tmp_path, command):
    code, out, err = said(*command, "--state", "no where")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "no where: there is no state here; begin with `tidings subscribe QUERY --state 'no where'`" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["subscribe", "unsubscribe", "subscriptions", "matches", "status"])
def test_help_teaches_with_examples(said, command):
    code, out, _ = said(command, "--help")
    assert code == 0
    assert "Examples" in out
    assert "TIDINGS_STATE" in out


def test_a_password_is_never_shown(tmp_path):
    place = state_at("postgresql://me:se@cret@host:5432/db?sslpassword=secret&x=1", tmp_path)
    assert place.folder == tmp_path
    assert "cret" not in place.shown + place.option
    assert place.shown == "postgresql://me@host:5432/db?sslpassword=&x=1"


def test_with_a_database_the_work_lies_in_a_directory(monkeypatch):
    assert str(state_at("postgres://host/db").folder) == "tidings-state"


def test_subscribing_loads_neither_spark_nor_kernels(tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", IMPORTS], env=environment(), capture_output=True, text=True, check=True, timeout=300
    )
    assert [told.stdout.splitlines()[place] for place in (0, -1)] == ["1", "[]"], told.stderr


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
def test_a_region_may_be_a_geojson_file(said, tmp_path, written):
    (tmp_path / "town.geojson").write_text(json.dumps(written))
    code, out, _ = said("subscribe", "storm", "--region", "town.geojson", "--json")
    assert (code, json.loads(out)["region"]) == (0, TRIANGLE)
    assert stored() == [(1, "", "storm", NUMBERS)]
    assert json.loads(said("subscriptions", "--json")[1])["region"] == TRIANGLE
    assert "storm  (in a polygon of 3 corners)" in said("subscriptions")[1]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "this file is not JSON"),
        ('{"west": 1}', "it has no `type`"),
        ('{"type": "Point", "coordinates": [1, 2]}', "'Point' is neither"),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1]]]}', "Ring 1 of polygon 1 has 3 positions"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_region_is_refused_in_one_sentence(said, tmp_path, content, reason):
    if content is not None:
        (tmp_path / "town.geojson").write_text(content)
    code, out, err = said("subscribe", "storm", "--region", "town.geojson")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err


def test_polygons_of_a_file_are_stored(said, tmp_path):
    (tmp_path / "many.jsonl").write_text(json.dumps({"id": 1, "query": "storm", "region": TRIANGLE}) + "\n")
    assert said("subscribe", "--file", "many.jsonl")[0] == 0
    assert stored() == [(1, "", "storm", NUMBERS)]


def test_an_owner_that_is_no_text_is_told_in_one_sentence(said):
    assert said("subscribe", "storm")[0] == 0
    code, out, error = said("subscriptions", "--owner", "\udcff")
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert "--owner is not valid UTF-8" in error
