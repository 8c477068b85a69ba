"""Every route with two owners: resources of others look nonexistent. Fuzzing: no request makes the server fail."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.web.conftest import client, open_context
from tests.web.test_subscriptions import subscribe

from tidings.store.feeds import VisitRecord
from tidings.web.app import build_api, build_application

SECRET = "xylophone-of-ann"
# Queries and URLs may be invalid although they match the schema, and unknown parameters are ignored.
EXCLUDED_CHECKS = [positive_data_acceptance, negative_data_rejection]
ENDLESS = r"/live$"  # never ends, see test_live.py


def routes(context):
    """Return every (method, path) of the OpenAPI description."""
    paths = build_api(context).openapi()["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


@pytest.fixture
def resources(ann, store_matches, context):
    """A subscription with matches, a webhook and a feed of ann."""
    made = subscribe(ann, SECRET)
    store_matches(made["id"], ["a"], text=[f"post for {SECRET}"])
    feed = ann.post("/api/feeds", json={"url": f"https://{SECRET}.example.org/rss", "title": SECRET}).json()
    hook = ann.post("/api/webhooks", json={"subscription": made["id"], "url": f"https://{SECRET}.example.org/"}).json()
    numbers = {"subscriptions": str(made["id"]), "feeds": feed["id"], "webhooks": hook["id"]}
    return {**numbers, "read": urlsplit(made["addresses"]["rss"]).path}


def fill_path(path, identity):
    return path.replace("{id}", identity).replace("{secret}", identity)


def test_resources_of_other_owners_look_nonexistent_on_every_route(context, bob, resources):
    checked = set()
    for method, path in sorted(routes(context)):
        kind = next((name for name in ("subscriptions", "feeds", "webhooks") if f"/{name}/{{id}}" in path), None)
        if kind is None:
            continue
        checked.add(path)
        answers = [bob.request(method, fill_path(path, identity)) for identity in (resources[kind], "999999")]
        assert [answer.status_code for answer in answers] == [404, 404], (method, path)
        assert answers[0].content == answers[1].content, (method, path)
        assert answers[0].headers == answers[1].headers, (method, path)
    assert len(checked) >= 10


def test_no_list_shows_resources_of_other_owners(context, bob, resources):
    for method, path in sorted(routes(context)):
        if method == "GET" and "{" not in path and not re.search(ENDLESS, path):
            answer = bob.get(path)
            assert answer.status_code == 200, path
            assert SECRET not in answer.text, path


def test_every_route_except_secret_urls_needs_a_token(context, anonymous, resources):
    for method, path in sorted(routes(context)):
        answer = anonymous.request(method, fill_path(path, "1"))
        assert answer.status_code == (404 if path.startswith("/read/") else 401), (method, path)


def test_a_feed_with_followers_looks_new_to_a_new_follower(context, ann, bob):
    url = "https://e.org/rss"
    mine = ann.post("/api/feeds", json={"url": url}).json()
    visited = "UPDATE feed SET state = 'ok', title = 'known', site = 'https://e.org', articles = 9"
    context.write_store.database.execute(f"{visited}, checked_at = added_at")
    other = bob.post("/api/feeds", json={"url": url}).json()
    fresh = bob.post("/api/feeds", json={"url": "https://other.org/rss"}).json()
    shown = [{**feed, "id": "", "url": "", "added_at": ""} for feed in (other, fresh)]
    assert shown[0] == shown[1]
    assert other["id"] != mine["id"]
    assert bob.delete(f"/api/feeds/{mine['id']}").status_code == 404
    assert bob.delete(f"/api/feeds/{other['id']}").status_code == 204
    assert [feed["id"] for feed in ann.get("/api/feeds").json()["feeds"]] == [mine["id"]]


def test_a_new_follower_does_not_see_an_earlier_redirect_before_a_visit(context, ann, bob):
    ann.post("/api/feeds", json={"url": "https://e.org/"})
    (feed,) = context.write_store.feeds.all("ann")
    context.write_store.feeds.record_visits(
        [VisitRecord(feed.id, "https://e.org/rss", "ok", feed.added_at, feed.added_at + 60)]
    )
    followed = bob.post("/api/feeds", json={"url": "https://e.org/"}).json()
    assert followed["url"] == "https://e.org/"
    assert bob.get("/api/feeds").json() == {"feeds": [followed]}
    assert b"e.org/rss" not in bob.get("/api/opml").content
    (mine,) = context.write_store.feeds.all("bob")
    context.write_store.feeds.record_visits(
        [VisitRecord(feed.id, mine.url, "ok", mine.added_at + 1, mine.added_at + 60)]
    )
    assert bob.get("/api/feeds").json()["feeds"][0]["url"] == "https://e.org/rss"


@pytest.mark.parametrize("examples", [6, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])])
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_makes_the_server_fail(tmp_path, mode, examples):
    with open_context(tmp_path) as context:
        token = context.write_store.accounts.add("ann")
        for _ in range(3):
            subscribe(client(context, token))
        schema = schemathesis.openapi.from_asgi("/openapi.json", build_application(context)).exclude(path_regex=ENDLESS)
        operations = [result.ok() for result in schema.get_all_operations()]
        for operation in operations:
            if mode == GenerationMode.POSITIVE or not operation.path.startswith("/read/"):  # any text may be a secret
                _fuzz(operation, mode, examples, {"Authorization": f"Bearer {token}"})
        fuzzed = {(operation.method.upper(), operation.path) for operation in operations}
        assert fuzzed == {route for route in routes(context) if not route[1].endswith("/live")}


def _fuzz(operation, mode, examples, headers):
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        case.call_and_validate(headers=headers, excluded_checks=EXCLUDED_CHECKS)

    check()
