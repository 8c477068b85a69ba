"""The same service on PostgreSQL."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.store.batches import posts, run
from tests.store.conftest import new_schema, server  # noqa: F401
from tests.web.conftest import client, opened
from tests.web.test_subscriptions import subscribe


def test_everything_is_served_from_postgres_too(tmp_path, server):  # noqa: F811
    with opened(tmp_path, new_schema(server)) as service:
        ann = client(service, service.writing.accounts.add("ann"))
        bob = client(service, service.writing.accounts.add("bob"))
        made = subscribe(ann)
        run(service.writing, 0, posts(["a", "b"]), [(made["id"], 0), (made["id"], 1)])
        path = urlsplit(made["addresses"]["rss"]).path
        first = bob.get(path)
        assert first.text.count("<item>") == 2
        assert bob.get(path, headers={"If-None-Match": first.headers["etag"]}).status_code == 304
        assert len(ann.get(f"/api/subscriptions/{made['id']}/matches").json()["matches"]) == 2
        assert bob.get(f"/api/subscriptions/{made['id']}").status_code == 404
        assert ann.post("/api/posts", json={"text": "storm"}).status_code == 202
        assert ann.post("/api/feeds", json={"url": "https://e.org/rss"}).status_code == 201
        assert ann.get("/api/me").json()["feeds"]["used"] == 1
        assert ann.delete(f"/api/subscriptions/{made['id']}").status_code == 204
        assert bob.get(path).status_code == 404
