"""The stream of changes of an owner: new matches, subscriptions, the phase of the stream; never those of others."""

from __future__ import annotations

import json
from contextlib import contextmanager

from tests.web.conftest import live_server, wait_until
from tests.web.test_live import events
from tests.web.test_subscriptions import subscribe

from tidings.errors import StoreError
from tidings.stream.phase import PhaseFile


@contextmanager
def changes(context, client):
    token = client.headers["Authorization"]
    with live_server(context) as url, events(url, "/api/live", Authorization=token) as stream:
        yield stream


def raise_store_error(*_):
    raise StoreError("the server is down")


def next_change(stream):
    event = stream.next()
    return event["event"], json.loads(event["data"] or "null")


def test_new_matches_are_announced_with_their_count(ann, store_matches, context):
    first, second = subscribe(ann)["id"], subscribe(ann, "rain")["id"]
    store_matches(first, ["old"])
    with changes(context, ann) as stream:
        assert next_change(stream) == ("status", {"stream": "stopped"})
        store_matches(second, ["a", "b"])
        assert next_change(stream) == ("matches", {"subscription": second, "matches": 2})
        store_matches(first, ["c"])
        assert next_change(stream) == ("matches", {"subscription": first, "matches": 2})


def test_changes_of_other_owners_are_not_announced(ann, bob, store_matches, context):
    mine = subscribe(ann)["id"]
    with changes(context, ann) as stream:
        assert next_change(stream)[0] == "status"
        store_matches(subscribe(bob)["id"], ["a"])
        store_matches(mine, ["b"])
        assert next_change(stream) == ("matches", {"subscription": mine, "matches": 1})


def test_new_and_removed_subscriptions_are_announced(ann, context):
    with changes(context, ann) as stream:
        assert next_change(stream)[0] == "status"
        made = subscribe(ann)
        assert next_change(stream) == ("subscriptions", {})
        ann.delete(f"/api/subscriptions/{made['id']}")
        assert next_change(stream) == ("subscriptions", {})


def test_the_phase_of_the_stream_is_announced(ann, context, tmp_path):
    phase = PhaseFile(tmp_path)
    phase.write("starting")
    assert ann.get("/api/status").json() == {"stream": "starting"}
    with changes(context, ann) as stream:
        assert next_change(stream) == ("status", {"stream": "starting"})
        phase.write("running")
        assert next_change(stream) == ("status", {"stream": "running"})
        phase.write("stopped")
        assert next_change(stream) == ("status", {"stream": "stopped"})


def test_the_phase_is_announced_while_the_store_is_lost(ann, store_matches, context, tmp_path, monkeypatch):
    made = subscribe(ann)
    phase = PhaseFile(tmp_path)
    phase.write("running")
    with changes(context, ann) as stream:
        assert next_change(stream) == ("status", {"stream": "running"})
        with monkeypatch.context() as lost:
            lost.setattr(context.read_store.database, "fetch", raise_store_error)
            phase.write("stopped")
            assert next_change(stream) == ("status", {"stream": "stopped"})
            wait_until(lambda: context.notifier.is_store_lost)
        store_matches(made["id"], ["a"])
        assert next_change(stream) == ("matches", {"subscription": made["id"], "matches": 1})


def test_revoking_the_token_ends_the_changes(ann, store_matches, context):
    made = subscribe(ann)
    with changes(context, ann) as stream:
        assert next_change(stream)[0] == "status"
        context.write_store.accounts.revoke_tokens("ann")
        store_matches(made["id"], ["a"])
        assert stream.next()["event"] == "gone"
        assert not stream.answer.read().strip()


def test_the_stream_of_changes_needs_a_token(anonymous):
    assert anonymous.get("/api/live").status_code == 401
    assert anonymous.get("/api/status").status_code == 401


def test_pages_before_a_cursor_reach_all_matches(ann, bob, store_matches):
    made = subscribe(ann)["id"]
    store_matches(made, [f"{n:02}" for n in range(25)])
    path, before, seen = f"/api/subscriptions/{made}/matches", 2**53 - 1, []
    while True:
        page = ann.get(path, params={"before": before, "limit": 10}).json()
        seen = [match["post_id"] for match in page["matches"]] + seen
        before = page["cursor"]
        if not page["more"]:
            break
    assert seen == [f"{n:02}" for n in range(25)]
    assert ann.get(path, params={"before": before}).json() == {"matches": [], "cursor": before, "more": False}
    assert bob.get(path, params={"before": before}).status_code == 404
