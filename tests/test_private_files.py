"""New files of a state can be read by its user only; a group gets access only if an administrator prepares it."""

from __future__ import annotations

import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.runs import run_here

from tidings.cli.options.state import StateLocation
from tidings.crawl.loop import CrawlStats
from tidings.private_files import Exposure, find_exposure, private_umask
from tidings.store import open_store

WRITE_STATE = """
import sys
from pathlib import Path
from tidings.cli.options.state import locate_state
from tidings.ingest.inbox import write_posts
from tidings.stream.sinks import ParquetSink
from tests.stream.test_sinks import ONE_MATCH

state = Path(sys.argv[1])
location = locate_state(str(state))
location.protect()
with location.open_or_create() as store, store.lease("stream"):
    store.subscriptions.add("storm")
    write_posts(state / "inbox", "one", [{"text": "a storm"}])
    ParquetSink(state.parent / "results" / "today").write("stream", 0, 1, [ONE_MATCH])
    print(*sorted(f"{path.stat().st_mode & 0o777:o} {path.name}" for path in (state, *state.rglob("*"))), sep="\\n")
"""


@pytest.fixture
def ordinary_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def write_state(state: Path) -> list[str]:
    """Write a state in a process of its own, because the umask belongs to the process; return the modes and names."""
    done = subprocess.run([sys.executable, "-c", WRITE_STATE, str(state)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_state_can_be_read_by_its_user_only(tmp_path, ordinary_umask):
    lines = write_state(tmp_path / "state")
    names = ["one.jsonl", "store-created", "stream.lock", "tidings.sqlite", "tidings.sqlite-shm", "tidings.sqlite-wal"]
    assert lines == [*(f"600 {name}" for name in names), "700 inbox", "700 state"]


def test_results_keep_the_permissions_of_the_umask(tmp_path, ordinary_umask):
    write_state(tmp_path / "state")
    results = tmp_path / "results"
    assert [mode_of(path) for path in (results, *results.rglob("*"))] == [0o755, 0o755, 0o644]


def test_a_store_is_private_without_a_command_too(tmp_path, ordinary_umask):
    with open_store(tmp_path / "new" / "state") as store:
        store.subscriptions.add("storm")
        modes = {mode_of(path) for path in (tmp_path / "new" / "state").iterdir()}
    assert (mode_of(tmp_path / "new" / "state"), modes) == (0o700, {0o600})


def test_a_directory_prepared_for_a_group_gives_it_access(tmp_path, ordinary_umask):
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o2750)
    lines = write_state(state)
    assert {line.split()[0] for line in lines} == {"640", "750"}
    assert find_exposure(state) is None
    state.chmod(0o2770)
    assert private_umask(state) == 0o007


@pytest.mark.parametrize(
    ("command", "warns"),
    [
        ("subscribe rain --json", True),
        ("unsubscribe 1", True),
        ("feeds add https://e.org/f --json", True),
        ("feeds import LIST --json", True),
        ("feeds remove 1", True),
        ("owners add cat --json", True),
        ("owners token ann --json", True),
        ("owners quotas ann --feeds 5", True),
        ("owners revoke ann", True),
        ("owners remove ann", True),
        ("crawl --once --json", True),
        ("webhooks add 1 https://e.org/hook --json", True),
        ("subscriptions", False),
        ("feeds list", False),
        ("matches 1", False),
        ("owners list", False),
    ],
)
def test_commands_that_write_warn_once_about_a_state_that_others_can_read(
    tmp_path, command, warns, ordinary_umask, monkeypatch
):
    monkeypatch.setattr("tidings.stream.crawl_app.run_crawl", lambda job: CrawlStats())
    state, opml = tmp_path / "state", tmp_path / "list.opml"
    opml.write_text('<opml><body><outline xmlUrl="https://e.org/g"/></body></opml>')
    with open_store(state) as store:
        store.subscriptions.add("storm", "ann")
        store.feeds.add("https://e.org/a")
        store.accounts.add("ann")
    state.chmod(0o755)
    words = command.replace("LIST", str(opml)).split()
    (result,) = run_here([[*words, "--state", str(state)]], tmp_path)
    assert (result.code, result.err.count("state readable by other users")) == (0, int(warns)), result.err
    if "--json" in words:
        json.loads(result.out)


def test_children_of_a_service_do_not_repeat_its_warning(tmp_path, caplog, monkeypatch):
    tmp_path.chmod(0o755)
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)
    location = StateLocation(str(tmp_path), tmp_path)
    for name, value in location.child_environment.items():
        monkeypatch.setenv(name, value)
    location.warn_if_exposed()
    assert "readable" not in caplog.text


def test_a_state_that_others_can_read_is_reported_with_the_remedy(tmp_path, caplog, monkeypatch):
    tmp_path.chmod(0o755)
    assert find_exposure(tmp_path) == Exposure("0755", f"chmod -R go= {tmp_path}")
    monkeypatch.setattr(logging.getLogger("tidings"), "propagate", True)
    before = os.umask(0o022)
    try:
        StateLocation(str(tmp_path), tmp_path).protect()
    finally:
        os.umask(before)
    assert f'state readable by other users path={tmp_path} mode=0755 remedy="chmod -R go= {tmp_path}"' in caplog.text
    tmp_path.chmod(0o2755)
    assert find_exposure(tmp_path) == Exposure("2755", f"chmod -R o= {tmp_path}")
    tmp_path.chmod(0o700)
    assert find_exposure(tmp_path) is None
