"""The demonstration ends by itself, shows real matches and tells what to try next."""

from __future__ import annotations

import re

from rich.console import Console
from tests.cli.runs import tidings

from tidings.cli.demo_screen import DemoScreen, highlight
from tidings.demo.feed import SEED
from tidings.demo.generate import DEMO_QUERIES, generate_posts
from tidings.matching.brute_force import match_all
from tidings.query.parse import parse


def test_it_finds_exactly_what_there_is(tmp_path):
    result = tidings("demo", "--seconds", "2", folder=tmp_path)
    assert result.code == 0, result.err
    assert result.err == ""
    posts = generate_posts(600, SEED)
    places = zip(*(posts[name].to_pylist() for name in ("text", "lat", "lon")), strict=True)
    expected = len(match_all(places, [parse(query) for query in DEMO_QUERIES.values()]))
    assert f"\n600 posts, {expected} matches:\n" in result.out
    assert re.search(r'\nheavy rain  "heavy rain"\n    @\w+  .*heavy rain', result.out)
    assert "match sample/posts.jsonl --subscriptions sample/subscriptions.txt --out matches.csv" in result.out
    assert not list(tmp_path.iterdir())


def test_matched_words_stand_out_and_markup_in_posts_does_not():
    text = highlight("storm -calm", "[red]Storms[/] &amp; \x1b[1m rain", None, None, "bold")
    assert text.plain == "[red]Storms[/] &  [1m rain"
    assert [text.plain[span.start : span.end] for span in text.spans] == ["Storms"]


def test_all_matches_are_counted_and_a_few_of_different_subscriptions_shown():
    console = Console(width=100, record=True, file=None, quiet=False, force_terminal=False)
    posts = [{"text": f"storm {number}"} for number in range(20)]
    screen = DemoScreen({"one": "storm", "other": "storm 3"}, posts, console)
    with console.capture() as shown:
        screen.show([("one", number) for number in range(1, 20)] + [("other", 4)])
    assert screen.counts == {"one": 19, "other": 1}
    assert "… and 18 more" in shown.get()
    assert "storm 3" in shown.get()
