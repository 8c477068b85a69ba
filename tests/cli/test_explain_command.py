"""The command `tidings explain`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.cli.runs import environment

from tidings.cli.console import caret_lines
from tidings.cli.main import run


def run_explain(capsys, *arguments: str) -> tuple[int, str, str]:
    code = run(["explain", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_normal_form_and_anchors_are_shown(capsys):
    code, out, _ = run_explain(capsys, "storm OR (fire -drill)")
    assert code == 0
    assert "1. storm   (anchor: storm)" in out
    assert "2. fire -drill   (anchor: fire)" in out
    assert "literals 3 of 1,024" in out


def test_reasons_are_shown_term_by_term(capsys):
    code, out, _ = run_explain(capsys, "storm -calm", "--text", "Storms & calm seas")
    assert code == 0
    assert "does not match" in out
    assert "yes storm: “Storms” at character 1" in out
    assert "no  -calm: “calm” at character 10" in out


def test_invalid_query_is_shown_with_a_caret_and_exit_code_2(capsys):
    code, out, err = run_explain(capsys, "storm (fire")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "tidings: This parenthesis is never closed. Add one at the end of the group. (at character 7)",
        "  storm (fire",
        "        ^",
    ]


def test_query_may_begin_with_a_negation(capsys):
    assert run_explain(capsys, "-calm storm")[0] == 0


def test_region_option_is_added_to_the_query(capsys):
    given = ("fire", "--region", "-1,50,1,52", "--text", "Fire!", "--lat", "51", "--json")
    assert json.loads(run_explain(capsys, *given, "--lon", "0")[1])["is_match"] is True
    assert json.loads(run_explain(capsys, *given, "--lon", "9")[1])["is_match"] is False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fire", "--lat", "1"), "--lat and --lon: give both"),
        (("fire", "--lat", "1", "--lon", "1"), "--text"),
        (("fire", "--text", "x", "--lat", "91", "--lon", "1"), "between -90 and 90"),
        (("fire", "--region", "1,2,3"), "four numbers"),
        (("fire", "--region", "1,2,3,nan"), "not a number"),
        (("fire", "--txt", "x"), "--txt"),
    ],
)
def test_invalid_options_are_rejected_in_one_sentence(capsys, arguments, sentence):
    code, out, err = run_explain(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_control_characters_of_a_text_are_removed(capsys):
    _, out, _ = run_explain(capsys, "fire", "--text", "fire \x1b[31m [bold]x[/] \x9b1m")
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert "[bold]x[/]" in out


def test_caret_is_below_wide_characters_and_in_long_queries():
    assert caret_lines("東京 (x", 3, 80) == ("東京 (x", "     ^")
    line, mark = caret_lines("word " * 800 + "(", 4000, 60)
    assert line[mark.index("^")] == "("
    assert len(line) <= 60


def test_explain_does_not_load_spark():
    code = (
        "import sys\nfrom tidings.cli.main import run\nrun(['explain', 'storm'])\nassert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True, capture_output=True)
