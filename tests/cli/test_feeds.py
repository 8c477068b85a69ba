"""`tidings feeds` and invalid options of `tidings crawl`."""

from __future__ import annotations

import json
import socket
from collections import Counter

import pytest
from tests.cli.runs import run_here

from tidings.cli.main import run
from tidings.crawl.latency import read_latencies
from tidings.store import open_store

OPML = """<opml version="2.0"><body><outline text="A" xmlUrl="https://a.example/feed"/>
<outline text="Bad" xmlUrl="gopher://b.example/"/></body></opml>"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of all commands, run in turn."""
    folder = tmp_path_factory.mktemp("feeds")
    (folder / "list.opml").write_text(OPML)
    (folder / "bad.opml").write_text("<html/>")
    commands = {
        "list, no state": ["feeds", "list"],
        "crawl, no state": ["crawl", "--once"],
        "add": ["feeds", "add", "example.com/blog", "--owner", "ann", "--title", "The blog"],
        "add json": ["feeds", "add", "https://example.com/blog", "--owner", "bob", "--json"],
        "add bad": ["feeds", "add", "ftp://example.com/"],
        "import": ["feeds", "import", "list.opml", "--owner", "ann"],
        "import bad": ["feeds", "import", "bad.opml"],
        "import missing": ["feeds", "import", "no.opml"],
        "list": ["feeds", "list", "--owner", "ann"],
        "list json": ["feeds", "list", "--json"],
        "export": ["feeds", "export", "--owner", "ann"],
        "remove another's": ["feeds", "remove", "2", "--owner", "bob"],
        "remove": ["feeds", "remove", "1", "--owner", "ann"],
        "list after": ["feeds", "list", "--owner", "ann", "--json"],
        "bad network": ["crawl", "--once", "--allow", "intranet"],
        "bad times": ["crawl", "--once", "--at-most-every", "2 days", "--at-least-every", "1 h"],
    }
    arguments = [[*command, "--state", "state"] for command in commands.values()]
    return dict(zip(commands, run_here(arguments, folder), strict=True))


def test_feed_has_one_id_for_all_owners(results):
    assert results["add"].out == "1\n"
    assert json.loads(results["add json"].out) == {"id": 1, "url": "https://example.com/blog"}


def test_feeds_are_listed_with_their_state(results):
    assert [line.split()[:3] for line in results["list"].out.splitlines()] == [
        ["1", "new", "https://example.com/blog"],
        ["2", "new", "https://a.example/feed"],
    ]
    assert [json.loads(line)["state"] for line in results["list json"].out.splitlines()] == ["new", "new"]
    assert results["remove"].out == "Feed 1 removed.\n"
    assert [json.loads(line)["id"] for line in results["list after"].out.splitlines()] == [2]


def test_opml_is_imported_and_exported(results):
    assert results["import"].out == "1 feeds added; 1 rejected\n"
    assert "gopher" in results["import"].err
    assert 'xmlUrl="https://a.example/feed"' in results["export"].out
    assert 'text="The blog"' in results["export"].out


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("list, no state", "no state found"),
        ("crawl, no state", "no state found"),
        ("add bad", "only http and https addresses are supported"),
        ("import bad", "root element is <html>, not <opml>"),
        ("import missing", "cannot be read"),
        ("remove another's", "Feed 2 does not exist"),
        ("bad network", "'intranet': not a network"),
        ("bad times", "must not be longer than"),
    ],
)
def test_errors_are_reported_in_one_sentence(results, command, reason):
    assert (results[command].code, reason in " ".join(results[command].err.split())) == (2, True), results[command].err


def test_passwords_of_feeds_are_never_printed(tmp_path, capsys):
    with_password = "https://ann:secret@b.example/feed"
    file = tmp_path / "list.opml"
    file.write_text(f'<opml><body><outline xmlUrl="{with_password.replace("https", "gopher")}"/></body></opml>')
    commands = (
        "add URL --json",
        "list",
        "list --json",
        "export",
        "import FILE --json",
        "add https://a:secret@b.example:x/",
    )
    for command in commands:
        words = command.replace("URL", with_password).replace("FILE", str(file)).split()
        run(["feeds", *words, "--state", str(tmp_path / "state")])
    printed = "".join(capsys.readouterr())
    assert ("secret" in printed, "https://•••@b.example/feed" in printed) == (False, True)
    assert 'xmlUrl="https://b.example/feed"' in printed
    with open_store(tmp_path / "state") as store:
        assert [feed.url for feed in store.feeds.all()] == [with_password]  # used for visits
        assert store.feeds.add(with_password) == 1


@pytest.mark.parametrize("end", ["/", "?", "#"])
def test_the_password_of_a_rejected_feed_is_not_printed(tmp_path, capsys, end):
    file = tmp_path / "list.opml"
    file.write_text(f'<opml><body><outline xmlUrl="https://u:pass{end}secret@h.example/f"/></body></opml>')
    run(["feeds", "import", str(file), "--json", "--state", str(tmp_path / "state")])
    printed = capsys.readouterr().out
    (rejected,) = json.loads(printed)["rejected"]
    assert ("pass" in printed, rejected["url"]) == (False, "https://•••@h.example/f")


def test_measure_replaces_its_own_site_and_keeps_others(tmp_path, capsys):
    file = tmp_path / "latencies.csv"
    file.write_text("site,host,ms\nmoon,a.example,1300.000\nhere,gone.example,1.000\n")
    with socket.create_server(("127.0.0.1", 0)) as server, open_store(tmp_path) as store:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        for path in "ab":
            store.feeds.add(f"http://{host}/{path}")
        command = ["feeds", "measure", "--state", str(tmp_path), "--json"]
        assert run([*command, "--out", str(file), "--allow", "loopback"]) == 0
        measured = json.loads(capsys.readouterr().out)
        assert run(command) == 0
        rejected = json.loads(capsys.readouterr().out)
    assert (measured["hosts"], measured["measured"], 0 < measured["ms"][host] < 1_000) == (1, 1, True)
    assert set(read_latencies(file).ms) == {("moon", "a.example"), ("here", host)}
    assert (rejected["hosts"], rejected["measured"]) == (1, 0)  # private addresses are not probed


def test_crawl_prints_its_stats_as_json(tmp_path, capsys, monkeypatch):
    from tidings.crawl.loop import CrawlStats
    from tidings.stream import crawl_app

    with open_store(tmp_path) as store:
        store.feeds.add("https://example.com/feed")
    steps = Counter(read=2, failed=1)
    stats = CrawlStats(rounds=1, visits=3, articles=2, steps=steps, seconds=22.04, error="not found")
    monkeypatch.setattr(crawl_app, "run_crawl", lambda job: stats)
    assert run(["crawl", "--state", str(tmp_path), "--once", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["visits"], printed["articles"], printed["steps"]) == (3, 2, {"read": 2, "failed": 1})
    assert run(["crawl", "--state", str(tmp_path), "--once"]) == 0
    summary = "crawler: 3 feeds visited in 22 s, 1 failed (example: not found); 2 new articles, 0 updated."
    assert summary in capsys.readouterr().err
