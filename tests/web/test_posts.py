"""Publishing: durable before it is acknowledged, cleaned before it is stored, counted against a quota."""

from __future__ import annotations

import json

import pytest

from tidings.store.accounts import Quotas


def waiting(service):
    """The posts in the inbox."""
    files = sorted(service.inbox.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def test_what_is_acknowledged_lies_in_the_inbox(ann, service):
    one = ann.post("/api/posts", json={"text": "storm ahead", "id": 5, "lat": 51.5, "lon": -0.1, "tags": ["x"]})
    assert (one.status_code, one.json()) == (202, {"accepted": 1, "ids": ["api:ann:5"]})
    many = ann.post("/api/posts", json=[{"text": "a"}, {"text": "b", "id": "b"}])
    assert many.json()["accepted"] == 2
    stored = {post["id"]: post for post in waiting(service)}
    assert stored["api:ann:5"] == {"id": "api:ann:5", "text": "storm ahead", "lat": 51.5, "lon": -0.1, "tags": ["x"]}
    assert set(many.json()["ids"]) < set(stored)


def test_the_same_post_without_an_id_is_the_same_post(ann, bob):
    first, again, other = (client.post("/api/posts", json={"text": "a"}).json()["ids"][0] for client in (ann, ann, bob))
    assert first == again
    assert first.startswith("api:ann:")
    assert other.startswith("api:bob:")


def test_nothing_that_is_no_text_is_stored(ann, service):
    said = {"text": "a\u0000b\u202e<b>c</b>", "title": "t\u0007", "tags": ["\u0000", "x"]}
    ann.post("/api/posts", json={**said, "link": "javascript:alert(1)"})
    ann.post("/api/posts", json={"text": "a", "link": "HTTPS://user:pw@E.org/x y"})
    first, second = sorted(waiting(service), key=lambda one: -len(one["text"]))
    assert first["text"] == "a b<b>c</b>"
    assert first["title"] == "t "
    assert "link" not in first
    assert first["tags"] == ["x"]
    assert second["link"] == "https://e.org/x%20y"


@pytest.mark.parametrize(
    "post",
    [
        {},
        {"text": ""},
        {"text": " \u0000"},
        {"text": "a", "unknown": 1},
        {"text": "a", "lat": 91},
        {"text": "a", "id": ""},
        {"text": "a", "id": "\U0001f600" * 300},  # what the store would not take must not be acknowledged
        {"text": "a", "id": 10**2_000},
        {"text": "é" * 600_000},
        [],
        [{"text": "a"}, {}],
        [{"text": "a"}] * 1_001,
        "a",
        None,
    ],
)
def test_a_post_that_cannot_be_used_is_refused_and_none_of_its_request_taken(ann, service, post):
    told = ann.post("/api/posts", json=post)
    assert told.status_code == 422
    assert told.json()["error"]
    assert waiting(service) == []
    assert ann.get("/api/me").json()["posts_today"]["used"] == 0


def test_what_a_full_disk_has_no_room_for_is_refused_and_not_counted(ann, service, monkeypatch):
    def full(inbox, name, posts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tidings.web.posts.write_posts", full)
    assert ann.post("/api/posts", json=[{"text": "a"}, {"text": "b"}]).status_code == 503
    assert ann.get("/api/me").json()["posts_today"]["used"] == 0


def test_a_day_has_its_quota(ann, service):
    service.write_store.accounts.set_quotas("ann", Quotas(posts_per_day=3))
    assert ann.post("/api/posts", json=[{"text": "a"}] * 2).status_code == 202
    told = ann.post("/api/posts", json=[{"text": "a"}] * 2)
    assert told.status_code == 429
    assert 0 < int(told.headers["retry-after"]) <= 86_400
    assert "1 are left" in told.json()["error"]
    assert ann.post("/api/posts", json={"text": "a"}).status_code == 202
    assert len(waiting(service)) == 3


def test_too_much_at_once_is_refused_before_it_is_read(ann):
    told = ann.post("/api/posts", content=b"[" + b" " * (9 << 20) + b"]", headers={"Content-Type": "application/json"})
    assert (told.status_code, "at most 8 MB" in told.json()["error"]) == (413, True)

    unannounced = (b" " * (1 << 20) for _ in range(9))
    told = ann.post("/api/posts", content=unannounced, headers={"Content-Type": "application/json"})
    assert told.status_code == 413
