"""Live updates: one connection for all tabs, an honest state, nothing lost or repeated when the server goes away."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest
from tests.web.page.conftest import await_condition, await_posts, await_state
from tests.web.test_subscriptions import subscribe

RECORD_STATES = """() => {
    window.states = [];
    new MutationObserver(() => {
        const text = document.querySelector("#live-state")?.textContent;
        if (text && text !== window.states.at(-1)) window.states.push(text);
    }).observe(document, { subtree: true, childList: true, characterData: true });
}"""

# the page would connect again, and read everything, because the time of its worker is another one
IGNORE_SILENCE = "{ const set = setTimeout; window.setTimeout = (task, ms) => (ms === 30_000 ? 0 : set(task, ms)); }"


def test_eight_tabs_share_one_connection_and_all_receive_a_match(ann, open_tab, store_matches, context):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    tabs = [open_tab(ann) for _ in range(8)]
    for tab in tabs:
        await_posts(tab, "text of a")
    assert len(context.live_readers) == 1
    store_matches(made["id"], ["b"])
    for tab in tabs:
        await_posts(tab, "text of b", "text of a")
        assert tab.text_content("#subscriptions .count") == "2"
    tabs[-1].fill("#query", "rain")  # requests still get through
    tabs[-1].wait_for_selector("#explanation .estimate")


def test_the_page_never_says_live_without_a_running_stream(ann, profile, open_tab, phase):
    subscribe(ann)
    phase.write("starting")
    profile.add_init_script(f"({RECORD_STATES})()")
    tab = open_tab(ann, is_live=False)
    await_state(tab, "Starting")
    assert "Live" not in tab.evaluate("window.states")
    for name, text in (("running", "Live"), ("stopping", "Stopping"), ("stopped", "Stopped"), ("running", "Live")):
        phase.write(name)
        await_state(tab, text)


def test_the_state_is_shown_before_there_is_a_query(ann, open_tab, phase):
    phase.write("starting")
    tab = open_tab(ann, is_live=False)
    await_state(tab, "Starting")
    assert tab.is_visible("#live-state")
    for unused in ("#selected-query", "#new-matches", "#query-actions", "#no-matches", "#older-matches"):
        assert tab.is_hidden(unused)


def test_without_shared_workers_the_page_polls(ann, profile, open_tab, store_matches, phase, context):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    profile.add_init_script("delete window.SharedWorker")
    profile.clock.install()
    tab = open_tab(ann, is_live=False)
    await_state(tab, "Updated every 10 seconds")
    await_posts(tab, "text of a")
    store_matches(made["id"], ["b"])
    tab.clock.run_for(10_000)
    await_posts(tab, "text of b", "text of a")
    assert len(context.live_readers) == 0


def test_a_worker_that_the_browser_ended_is_replaced(ann, browser, profile, open_tab, store_matches, context):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    profile.add_init_script(f"({RECORD_STATES})()")
    profile.clock.install()
    tab = open_tab(ann)
    await_posts(tab, "text of a")
    session = browser.new_browser_cdp_session()
    for target in session.send("Target.getTargets")["targetInfos"]:
        if target["type"] == "shared_worker":
            session.send("Target.closeTarget", {"targetId": target["targetId"]})
    await_condition(tab, lambda: not len(context.live_readers), "the connection of the worker is closed")
    store_matches(made["id"], ["b"])
    tab.clock.run_for(30_000)
    await_posts(tab, "text of b", "text of a")
    await_state(tab, "Live")
    assert tab.evaluate("window.states").count("Live") == 2
    assert len(context.live_readers) == 1


def test_a_worker_that_could_not_be_loaded_is_loaded_later(ann, profile, open_tab):
    subscribe(ann)
    profile.clock.install()
    profile.route("**/live_worker.js", lambda route: route.abort())
    tab = open_tab(ann, is_live=False)
    tab.clock.run_for(3_000)
    await_state(tab, "Updated every 10 seconds")
    profile.unroute("**/live_worker.js")
    tab.clock.run_for(30_000)
    await_state(tab, "Live")


def test_a_query_that_is_deleted_elsewhere_is_reported(ann, open_tab, store_matches):
    made, other = subscribe(ann), subscribe(ann, "rain")
    store_matches(other["id"], ["a"])
    tab = open_tab(ann)
    await_posts(tab, "text of a")
    ann.delete(f"/api/subscriptions/{other['id']}")
    await_state(tab, "This query was deleted")
    await_posts(tab, "text of a")
    tab.wait_for_function("() => document.querySelectorAll('#subscriptions li').length === 1")
    assert not tab.is_visible("#delete")
    tab.click(".pick")
    await_state(tab, "Live")
    assert tab.text_content("#selected-query") == made["query"]


def test_matches_that_could_not_be_read_once_appear_without_another_event(ann, profile, open_tab, store_matches):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    profile.clock.install()
    profile.add_init_script(IGNORE_SILENCE)
    tab, refused = open_tab(ann), []
    await_posts(tab, "text of a")
    tab.route("**/matches?after=*", lambda route: (refused.append(route), route.fulfill(status=503)))
    store_matches(made["id"], ["b"])
    await_condition(tab, lambda: refused, "the page requests the new matches")
    tab.unroute("**/matches?after=*")
    tab.clock.run_for(31_000)  # the page refreshes every 30 s
    await_posts(tab, "text of b", "text of a")


@contextmanager
def server_process(folder, port):
    command = [sys.executable, "-m", "tests.web.page.serve_state", str(folder), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield
        finally:
            process.kill()


@pytest.fixture
def port():
    """Reserve a port: no other program gets it while this socket is bound, but a server may listen there."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def test_a_killed_server_loses_and_repeats_nothing(ann, profile, store_matches, phase, tmp_path, port):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    token = ann.headers["Authorization"].removeprefix("Bearer ")
    tab = profile.new_page()
    with server_process(tmp_path, port):
        tab.goto(f"http://127.0.0.1:{port}/#token={token}")
        await_state(tab, "Live")
        await_posts(tab, "text of a")
        tab.fill("#query", "half-typed")
    await_state(tab, "Offline")
    store_matches(made["id"], ["b", "c"])
    await_posts(tab, "text of a")
    with server_process(tmp_path, port):
        await_state(tab, "Live")
        await_posts(tab, "text of c", "text of b", "text of a")
        store_matches(made["id"], ["d"])
        await_posts(tab, "text of d", "text of c", "text of b", "text of a")
    assert tab.input_value("#query") == "half-typed"
