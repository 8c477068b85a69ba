"""Subscriptions over HTTP: created, checked, listed, shown, deleted; their matches page by page."""

from __future__ import annotations

import json

from tidings.query.geo.geojson import flat_polygons
from tidings.store.accounts import Quotas


def subscribe(client, query="storm", **more):
    made = client.post("/api/subscriptions", json={"query": query, **more})
    assert made.status_code == 201, made.text
    return made.json()


def test_a_subscription_is_made_shown_listed_and_deleted(ann):
    made = subscribe(ann, "storm -umbrella", region=[3, 51, 8, 54.5])
    assert made["query"] == "storm -umbrella"
    assert made["region"] == [3, 51, 8, 54.5]
    assert made["matches"] == 0
    assert all(made["addresses"][kind].startswith("http://tidings.test/read/") for kind in ("rss", "atom", "json"))
    path = f"/api/subscriptions/{made['id']}"
    assert ann.get(path).json() == made
    assert ann.get("/api/subscriptions").json() == {"subscriptions": [made], "next": None}
    assert ann.delete(path).status_code == 204
    assert ann.get(path).status_code == 404
    assert ann.get("/api/subscriptions").json()["subscriptions"] == []


def test_a_region_of_polygons_is_shown_as_geojson(ann, service):
    triangle = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 4], [0, 0]]]}
    made = service.writing.subscribe("storm", "ann", tuple(flat_polygons(triangle)))
    assert ann.get(f"/api/subscriptions/{made}").json()["region"] == triangle


def test_a_list_is_given_in_pages(ann):
    ids = [subscribe(ann, f"word{n}")["id"] for n in range(5)]
    seen, after = [], 0
    while after is not None:
        page = ann.get("/api/subscriptions", params={"after": after, "limit": 2}).json()
        seen += [one["id"] for one in page["subscriptions"]]
        after = page["next"]
    assert seen == ids


def test_a_refused_query_says_where(ann):
    for path in ("/api/subscriptions", "/api/check"):
        told = ann.post(path, json={"query": "storm (rain"})
        assert told.status_code == 422
        assert told.json()["position"] == 6
    told = ann.post("/api/subscriptions", json={"query": "storm", "region": [3, 55, 8, 51]})
    assert (told.status_code, "South lies north" in told.json()["error"]) == (422, True)


def test_checking_tells_the_normal_form_and_what_came_lately(ann, service):
    before = ann.post("/api/check", json={"query": "storm OR rain the"}).json()
    assert before["matches_a_day"] is None
    assert [way["text"] for way in before["ways"]] == ["storm", "rain"]
    assert [(one["piece"], one["reason"]) for one in before["ignored"]] == [("the", "a stop word")]
    texts = ["storm ahead", "rain again", "sunshine", "sunny spells"]
    service.history.take([json.dumps({"text": text}) for text in texts])
    after = ann.post("/api/check", json={"query": "storm OR rain"}).json()
    assert after["sampled_posts"] == 4
    assert after["matches_a_day"] == after["posts_a_day"] / 2 > 0
    assert ann.get("/api/subscriptions").json()["subscriptions"] == []


def test_matches_are_read_page_by_page_and_none_twice(ann, found):
    identity = subscribe(ann)["id"]
    found(identity, ["a", "b", "c"], title=["A", "B", "C"], tags=[["x"], None, []])
    path = f"/api/subscriptions/{identity}/matches"
    first = ann.get(path, params={"limit": 2}).json()
    assert [one["post_id"] for one in first["matches"]] == ["a", "b"]
    assert first["more"]
    assert first["matches"][0]["tags"] == ["x"]
    second = ann.get(path, params={"after": first["cursor"], "limit": 2}).json()
    assert [one["post_id"] for one in second["matches"]] == ["c"]
    assert not second["more"]
    end = ann.get(path, params={"after": second["cursor"]}).json()
    assert end == {"matches": [], "cursor": second["cursor"], "more": False}
    found(identity, ["d"])
    assert [m["post_id"] for m in ann.get(path, params={"after": end["cursor"]}).json()["matches"]] == ["d"]


def test_the_quota_is_told_with_what_to_do(service, ann):
    service.writing.accounts.set_quotas("ann", Quotas(subscriptions=1))
    first = subscribe(ann)
    told = ann.post("/api/subscriptions", json={"query": "rain"})
    assert told.status_code == 429
    assert told.json() == {"error": "You may have 1 subscriptions and have them all; delete one first."}
    ann.delete(f"/api/subscriptions/{first['id']}")
    subscribe(ann, "rain")


def test_who_asks_is_told_what_is_left(ann):
    subscribe(ann)
    me = ann.get("/api/me").json()
    assert (me["name"], me["subscriptions"]) == ("ann", {"used": 1, "limit": 1_000})


def test_without_a_token_there_is_nothing(anonymous, service, ann):
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic YTpi"}):
        told = anonymous.get("/api/subscriptions", headers=headers)
        assert (told.status_code, told.headers["www-authenticate"]) == (401, "Bearer")
    service.writing.accounts.revoke("ann")
    assert ann.get("/api/subscriptions").status_code == 401
