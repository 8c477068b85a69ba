"""The demo ends, shows real matches and suggests the next command."""

from __future__ import annotations

import re

from rich.console import Console
from tests.cli.runs import run_command

from tidings.cli.demo_screen import DemoScreen, highlight
from tidings.demo.feed import SEED
from tidings.demo.generate import DEMO_QUERIES, generate_posts
from tidings.matching.brute_force import match_all
from tidings.query.parse import parse


def test_demo_reports_the_brute_force_matches(tmp_path):
    result = run_command("demo", "--seconds", "2", folder=tmp_path)
    assert result.code == 0, result.err
    assert result.err == ""
    posts = generate_posts(600, SEED)
    positions = zip(*(posts[name].to_pylist() for name in ("text", "lat", "lon")), strict=True)
    expected = len(match_all(positions, [parse(query) for query in DEMO_QUERIES.values()]))
    assert f"\n600 posts, {expected} matches:\n" in result.out
    assert re.search(r'\nheavy rain  "heavy rain"\n    @\w+  .*heavy rain', result.out)
    assert "match sample/posts.jsonl --subscriptions sample/subscriptions.txt --out matches.csv" in result.out
    assert not list(tmp_path.iterdir())


def test_matched_words_are_highlighted_and_markup_is_escaped():
    text = highlight("storm -calm", "[red]Storms[/] &amp; \x1b[1m rain", None, None, "bold")
    assert text.plain == "[red]Storms[/] &  [1m rain"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["Storms"]


def test_all_matches_are_counted_and_a_few_are_shown():
    console = Console(width=100, record=True, file=None, quiet=False, force_terminal=False)
    posts = [{"text": f"storm {number}"} for number in range(20)]
    screen = DemoScreen({"one": "storm", "other": "storm 3"}, posts, console)
    with console.capture() as shown:
        screen.show([("one", number) for number in range(1, 20)] + [("other", 4)])
    assert screen.counts == {"one": 19, "other": 1}
    assert "… and 18 more" in shown.get()
    assert "storm 3" in shown.get()
