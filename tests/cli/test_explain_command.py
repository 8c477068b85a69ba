"""What `tidings explain` promises."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.cli.runs import environment

from tidings.cli.console import caret
from tidings.cli.main import run


def explained(capsys, *arguments: str) -> tuple[int, str, str]:
    code = run(["explain", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_shows_the_normal_form_and_the_word_each_conjunction_is_found_by(capsys):
    code, out, _ = explained(capsys, "storm OR (fire -drill)")
    assert code == 0
    assert "1. storm   (found by storm)" in out
    assert "2. fire -drill   (found by fire)" in out
    assert "leaves 3 of 1,024" in out


def test_says_word_by_word_why_a_text_matches(capsys):
    code, out, _ = explained(capsys, "storm -calm", "--text", "Storms & calm seas")
    assert code == 0
    assert "does not match" in out
    assert "yes storm: “Storms” at character 1" in out
    assert "no  -calm: “calm” at character 10" in out


def test_a_refused_query_is_pointed_at_and_exits_with_2(capsys):
    code, out, err = explained(capsys, "storm (fire")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "tidings: This parenthesis is never closed; add one at the end of the group. (at character 7)",
        "  storm (fire",
        "        ^",
    ]


def test_a_query_may_begin_with_a_negation(capsys):
    assert explained(capsys, "-calm storm")[0] == 0


def test_the_region_counts_on_top_of_the_query(capsys):
    given = ("fire", "--region", "-1,50,1,52", "--text", "Fire!", "--lat", "51", "--json")
    assert json.loads(explained(capsys, *given, "--lon", "0")[1])["is_match"] is True
    assert json.loads(explained(capsys, *given, "--lon", "9")[1])["is_match"] is False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("fire", "--lat", "1"), "both --lat and --lon"),
        (("fire", "--lat", "1", "--lon", "1"), "--text"),
        (("fire", "--text", "x", "--lat", "91", "--lon", "1"), "between -90 and 90"),
        (("fire", "--region", "1,2,3"), "four numbers"),
        (("fire", "--region", "1,2,3,nan"), "not a number"),
        (("fire", "--txt", "x"), "--txt"),
    ],
)
def test_wrong_options_get_one_sentence(capsys, arguments, sentence):
    code, out, err = explained(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_nothing_in_a_text_commands_the_terminal(capsys):
    _, out, _ = explained(capsys, "fire", "--text", "fire \x1b[31m [bold]x[/] \x9b1m")
    assert "\x1b" not in out
    assert "\x9b" not in out
    assert "[bold]x[/]" in out


def test_the_caret_stands_under_wide_characters_and_far_into_long_queries():
    assert caret("東京 (x", 3, 80) == ("東京 (x", "     ^")
    line, mark = caret("word " * 800 + "(", 4000, 60)
    assert line[mark.index("^")] == "("
    assert len(line) <= 60


def test_spark_is_not_loaded():
    code = (
        "import sys\nfrom tidings.cli.main import run\nrun(['explain', 'storm'])\nassert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True, capture_output=True)
