"""The web application on PostgreSQL."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.store.batches import posts, run_batch
from tests.store.conftest import new_schema, server  # noqa: F401
from tests.web.conftest import client, open_context
from tests.web.test_subscriptions import subscribe


def test_the_main_routes_work_on_postgres(tmp_path, server):  # noqa: F811
    with open_context(tmp_path, new_schema(server)) as context:
        ann = client(context, context.write_store.accounts.add("ann"))
        bob = client(context, context.write_store.accounts.add("bob"))
        made = subscribe(ann)
        run_batch(context.write_store, 0, posts(["a", "b"]), [(made["id"], 0), (made["id"], 1)])
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
