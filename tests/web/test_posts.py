"""Publishing posts: durable before the response, sanitized, counted against a quota."""

from __future__ import annotations

import json

import pytest

from tidings.store.accounts import Quotas


def inbox_posts(context):
    """Return the posts in the inbox."""
    files = sorted(context.inbox.glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def test_published_posts_are_in_the_inbox(ann, context):
    single = ann.post("/api/posts", json={"text": "storm ahead", "id": 5, "lat": 51.5, "lon": -0.1, "tags": ["x"]})
    assert (single.status_code, single.json()) == (202, {"accepted": 1, "ids": ["api:ann:5"]})
    many = ann.post("/api/posts", json=[{"text": "a"}, {"text": "b", "id": "b"}])
    assert many.json()["accepted"] == 2
    stored = {post["id"]: post for post in inbox_posts(context)}
    assert stored["api:ann:5"] == {"id": "api:ann:5", "text": "storm ahead", "lat": 51.5, "lon": -0.1, "tags": ["x"]}
    assert set(many.json()["ids"]) < set(stored)


def test_the_same_post_without_an_id_gets_the_same_id(ann, bob):
    first, again, other = (client.post("/api/posts", json={"text": "a"}).json()["ids"][0] for client in (ann, ann, bob))
    assert first == again
    assert first.startswith("api:ann:")
    assert other.startswith("api:bob:")


def test_posts_are_sanitized(ann, context):
    fields = {"text": "a\u0000b\u202e<b>c</b>", "title": "t\u0007", "tags": ["\u0000", "x"]}
    ann.post("/api/posts", json={**fields, "link": "javascript:alert(1)"})
    ann.post("/api/posts", json={"text": "a", "link": "HTTPS://user:pw@E.org/x y"})
    first, second = sorted(inbox_posts(context), key=lambda post: -len(post["text"]))
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
        {"text": "a", "id": "\U0001f600" * 300},  # the store cannot keep it
        {"text": "a", "id": 10**2_000},
        {"text": "é" * 600_000},
        [],
        [{"text": "a"}, {}],
        [{"text": "a"}] * 1_001,
        "a",
        None,
    ],
)
def test_an_invalid_post_rejects_the_whole_request(ann, context, post):
    answer = ann.post("/api/posts", json=post)
    assert answer.status_code == 422
    assert answer.json()["error"]
    assert inbox_posts(context) == []
    assert ann.get("/api/me").json()["posts_today"]["used"] == 0


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([{"text": "a"}, {"text": "a", "lat": 91}], "Lat is not between -90 and 90 (row 2)."),
        ([{"text": "a"}, {"text": " "}], "The text is missing (row 2)."),
        ([], "The list is empty: row 1 with the field text is missing."),
        ([{"nope": 1}], "text: Field required (row 1)."),
        ([{"text": "a", "nope": 1}], "nope: Extra inputs are not permitted (row 1)."),
        ({"text": "a", "time": "yesterday"}, "The time cannot be read; write it as 2026-03-12T18:00:00Z."),
        ([{"text": "a", "tags": ["x", 1]}], "tags: must be a valid string (item 2, row 1)."),
        ([{"text": "a", "lon": "x"}], "lon: must be a valid number, unable to parse string as a number (row 1)."),
        ({"text": "a", "tags": "x"}, "tags: must be a valid array."),
    ],
)
def test_an_error_names_field_and_row(ann, body, error):
    assert ann.post("/api/posts", json=body).json() == {"error": error}


def test_posts_are_not_counted_if_the_disk_is_full(ann, context, monkeypatch):
    def fail(inbox, name, posts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tidings.web.posts.write_posts", fail)
    assert ann.post("/api/posts", json=[{"text": "a"}, {"text": "b"}]).status_code == 503
    assert ann.get("/api/me").json()["posts_today"]["used"] == 0


def test_the_daily_quota_is_enforced(ann, context):
    context.write_store.accounts.set_quotas("ann", Quotas(posts_per_day=3))
    assert ann.post("/api/posts", json=[{"text": "a"}] * 2).status_code == 202
    answer = ann.post("/api/posts", json=[{"text": "a"}] * 2)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 86_400
    assert "1 left" in answer.json()["error"]
    assert ann.post("/api/posts", json={"text": "a"}).status_code == 202
    assert len(inbox_posts(context)) == 3


def test_a_large_body_is_rejected(ann):
    answer = ann.post(
        "/api/posts", content=b"[" + b" " * (9 << 20) + b"]", headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, "at most 8 MB" in answer.json()["error"]) == (413, True)

    chunks = (b" " * (1 << 20) for _ in range(9))
    answer = ann.post("/api/posts", content=chunks, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


@pytest.mark.parametrize(
    "time", ["2026-03-12", "2026-03-12T18:00:00Z", "1773338400", "Thu, 12 Mar 2026 18:00:00 GMT", ""]
)
def test_every_readable_time_is_accepted(ann, time):
    assert ann.post("/api/posts", json={"text": "a", "time": time}).status_code == 202
