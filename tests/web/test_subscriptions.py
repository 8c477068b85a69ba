"""Subscriptions over HTTP: check, create, list, show and delete; matches in pages."""

from __future__ import annotations

import json

from tidings.query.geo.geojson import encode_polygons
from tidings.store.accounts import Quotas
from tidings.testing.hostile_queries import ten_pairs


def subscribe(client, query="storm", **more):
    made = client.post("/api/subscriptions", json={"query": query, **more})
    assert made.status_code == 201, made.text
    return made.json()


def test_a_subscription_is_created_shown_listed_and_deleted(ann):
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


def test_a_region_of_polygons_is_shown_as_geojson(ann, context):
    triangle = {"type": "Polygon", "coordinates": [[[0, 0], [4, 0], [0, 4], [0, 0]]]}
    made = context.write_store.subscriptions.add("storm", "ann", tuple(encode_polygons(triangle)))
    assert ann.get(f"/api/subscriptions/{made}").json()["region"] == triangle


def test_subscriptions_are_listed_in_pages(ann):
    ids = [subscribe(ann, f"word{n}")["id"] for n in range(5)]
    seen, after = [], 0
    while after is not None:
        page = ann.get("/api/subscriptions", params={"after": after, "limit": 2}).json()
        seen += [item["id"] for item in page["subscriptions"]]
        after = page["next"]
    assert seen == ids


def test_hidden_characters_of_a_query_are_removed(ann):
    answer = ann.post("/api/subscriptions", json={"query": "st\u200borm\U000e0041 OR 👩\u200d👧"})
    assert answer.json()["query"] == "storm OR 👩\u200d👧"


def test_an_invalid_query_is_rejected_with_its_position(ann):
    for path in ("/api/subscriptions", "/api/check"):
        answer = ann.post(path, json={"query": "storm (rain"})
        assert answer.status_code == 422
        assert answer.json()["position"] == 6
    answer = ann.post("/api/subscriptions", json={"query": "storm", "region": [3, 55, 8, 51]})
    assert (answer.status_code, "south must not be greater than north" in answer.json()["error"]) == (422, True)


def test_checking_a_query_returns_conjunctions_and_an_estimate(ann, context):
    before = ann.post("/api/check", json={"query": "storm OR rain the"}).json()
    assert before["matches_per_day"] is None
    assert [part["text"] for part in before["conjunctions"]] == ["storm", "rain"]
    assert [(part["piece"], part["reason"]) for part in before["ignored"]] == [("the", "a stop word")]
    texts = ["storm ahead", "rain again", "sunshine", "sunny spells"]
    context.checker.volume.add_posts([json.dumps({"text": text}) for text in texts])
    after = ann.post("/api/check", json={"query": "storm OR rain"}).json()
    assert after["sampled_posts"] == 4
    assert after["matches_per_day"] == after["posts_per_day"] / 2 > 0
    assert ann.get("/api/subscriptions").json()["subscriptions"] == []


def test_paging_returns_every_match_once(ann, store_matches):
    identity = subscribe(ann)["id"]
    store_matches(identity, ["a", "b", "c"], title=["A", "B", "C"], tags=[["x"], None, []])
    path = f"/api/subscriptions/{identity}/matches"
    first = ann.get(path, params={"limit": 2}).json()
    assert [match["post_id"] for match in first["matches"]] == ["a", "b"]
    assert first["more"]
    assert first["matches"][0]["tags"] == ["x"]
    second = ann.get(path, params={"after": first["cursor"], "limit": 2}).json()
    assert [match["post_id"] for match in second["matches"]] == ["c"]
    assert not second["more"]
    end = ann.get(path, params={"after": second["cursor"]}).json()
    assert end == {"matches": [], "cursor": second["cursor"], "more": False}
    store_matches(identity, ["d"])
    assert [match["post_id"] for match in ann.get(path, params={"after": end["cursor"]}).json()["matches"]] == ["d"]


def test_the_subscription_quota_is_enforced(context, ann):
    context.write_store.accounts.set_quotas("ann", Quotas(subscriptions=1))
    first = subscribe(ann)
    answer = ann.post("/api/subscriptions", json={"query": "rain"})
    assert answer.status_code == 429
    assert answer.json() == {"error": "Subscription quota reached (1). Delete a subscription first."}
    ann.delete(f"/api/subscriptions/{first['id']}")
    subscribe(ann, "rain")


def test_expensive_queries_are_refused_by_their_cost(context, ann):
    context.write_store.accounts.set_quotas("ann", Quotas(query_cost=100))
    cost = ann.post("/api/check", json={"query": ten_pairs(0)}).json()["cost"]
    answers = [ann.post("/api/subscriptions", json={"query": ten_pairs(seed)}) for seed in range(100 // cost + 1)]
    assert [answer.status_code for answer in answers] == [201] * (100 // cost) + [429]
    used = cost * (100 // cost)
    assert (
        answers[-1]
        .json()["error"]
        .startswith(f"Query cost quota reached: this query costs {cost}, and {used} of 100 are used.")
    )
    assert ann.get("/api/me").json()["query_cost"] == {"used": used, "limit": 100}


def test_the_account_shows_usage_and_quota(ann):
    subscribe(ann)
    me = ann.get("/api/me").json()
    assert (me["name"], me["subscriptions"]) == ("ann", {"used": 1, "limit": 1_000})


def test_a_missing_or_revoked_token_returns_401(anonymous, context, ann):
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic YTpi"}):
        answer = anonymous.get("/api/subscriptions", headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    context.write_store.accounts.revoke_tokens("ann")
    assert ann.get("/api/subscriptions").status_code == 401
