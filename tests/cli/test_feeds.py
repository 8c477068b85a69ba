"""`tidings feeds` and `tidings crawl` as users type them."""

from __future__ import annotations

import json
import socket

import pytest
from tests.cli.runs import several

from tidings.cli.main import run
from tidings.crawl.latency import read_latencies
from tidings.store import open_store

OPML = """<opml version="2.0"><body><outline text="A" xmlUrl="https://a.example/feed"/>
<outline text="Bad" xmlUrl="gopher://b.example/"/></body></opml>"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a session of commands prints."""
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
    arguments = [[*one, "--state", "state"] for one in commands.values()]
    return dict(zip(commands, several(arguments, folder), strict=True))


def test_one_feed_has_one_id_whoever_adds_it(told):
    assert told["add"].out == "1\n"
    assert json.loads(told["add json"].out) == {"id": 1, "url": "https://example.com/blog"}


def test_feeds_are_listed_with_their_health(told):
    assert [line.split()[:3] for line in told["list"].out.splitlines()] == [
        ["1", "new", "https://example.com/blog"],
        ["2", "new", "https://a.example/feed"],
    ]
    assert [json.loads(line)["state"] for line in told["list json"].out.splitlines()] == ["new", "new"]
    assert [json.loads(line)["id"] for line in told["list after"].out.splitlines()] == [2]


def test_lists_go_in_and_out(told):
    assert told["import"].out == "1 feeds added; 1 left out\n"
    assert "gopher" in told["import"].err
    assert 'xmlUrl="https://a.example/feed"' in told["export"].out
    assert 'text="The blog"' in told["export"].out


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("list, no state", "there is no state here"),
        ("crawl, no state", "there is no state here"),
        ("add bad", "is no address"),
        ("import bad", "should be OPML"),
        ("import missing", "cannot be read"),
        ("remove another's", "Feed 2 does not exist"),
        ("bad network", "'intranet' is no network"),
        ("bad times", "is longer than"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(told, command, reason):
    assert (told[command].code, reason in " ".join(told[command].err.split())) == (2, True), told[command].err


def test_how_far_hosts_are_is_measured_and_other_sites_are_kept(tmp_path, capsys):
    file = tmp_path / "latencies.csv"
    file.write_text("site,host,ms\nmoon,a.example,1300.000\nhere,gone.example,1.000\n")
    with socket.create_server(("127.0.0.1", 0)) as server, open_store(tmp_path) as store:
        host = f"127.0.0.1:{server.getsockname()[1]}"
        for path in "ab":
            store.add_feed(f"http://{host}/{path}")
        told = ["feeds", "measure", "--state", str(tmp_path), "--json"]
        assert run([*told, "--out", str(file), "--allow", "loopback"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert run(told) == 0
        refused = json.loads(capsys.readouterr().out)
    assert (found["hosts"], found["measured"], 0 < found["ms"][host] < 1_000) == (1, 1, True)
    assert set(read_latencies(file).ms) == {("moon", "a.example"), ("here", host)}
    assert (refused["hosts"], refused["measured"]) == (1, 0)  # it is not ours to probe what leads inside
