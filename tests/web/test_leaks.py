"""Two owners, every route: what is another's is answered as what never was. And no request makes the server fail."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.web.conftest import client, opened
from tests.web.test_subscriptions import subscribe

from tidings.store.feeds import Visited
from tidings.web.app import application, described

SECRET = "xylophone-of-ann"
# A query or an address may be refused for what no schema can say, and unknown parameters are passed over.
NOT_CLAIMED = [positive_data_acceptance, negative_data_rejection]
OPEN_ENDED = r"/live$"  # never ends, so it cannot be asked for here; see test_live.py


def routes(service):
    """Every (method, path) of the description."""
    paths = described(service).openapi()["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


@pytest.fixture
def owned(ann, found, service):
    """What ann has: a subscription with matches, a webhook and a feed."""
    made = subscribe(ann, SECRET)
    found(made["id"], ["a"], text=[f"post for {SECRET}"])
    feed = ann.post("/api/feeds", json={"url": f"https://{SECRET}.example.org/rss", "title": SECRET}).json()
    hook = ann.post("/api/webhooks", json={"subscription": made["id"], "url": f"https://{SECRET}.example.org/"}).json()
    numbers = {"subscriptions": str(made["id"]), "feeds": feed["id"], "webhooks": hook["id"]}
    return {**numbers, "read": urlsplit(made["addresses"]["rss"]).path}


def filled(path, identity):
    return path.replace("{id}", identity).replace("{secret}", identity)


def test_every_route_about_one_thing_answers_another_owner_as_if_it_were_not_there(service, bob, owned):
    asked = set()
    for method, path in sorted(routes(service)):
        kind = next((name for name in ("subscriptions", "feeds", "webhooks") if f"/{name}/{{id}}" in path), None)
        if kind is None:
            continue
        asked.add(path)
        answers = [bob.request(method, filled(path, one)) for one in (owned[kind], "999999")]
        assert [answer.status_code for answer in answers] == [404, 404], (method, path)
        assert answers[0].content == answers[1].content, (method, path)
        assert answers[0].headers == answers[1].headers, (method, path)
    assert len(asked) >= 10


def test_no_list_shows_what_is_anothers(service, bob, owned):
    for method, path in sorted(routes(service)):
        if method == "GET" and "{" not in path:
            answer = bob.get(path)
            assert answer.status_code == 200, path
            assert SECRET not in answer.text, path


def test_every_route_but_the_secret_addresses_needs_a_token(service, anonymous, owned):
    for method, path in sorted(routes(service)):
        answer = anonymous.request(method, filled(path, "1"))
        assert answer.status_code == (404 if path.startswith("/read/") else 401), (method, path)


def test_a_feed_somebody_follows_already_looks_new_to_the_next(service, ann, bob):
    url = "https://e.org/rss"
    mine = ann.post("/api/feeds", json={"url": url}).json()
    visited = "UPDATE feed SET state = 'ok', title = 'known', site = 'https://e.org', articles = 9"
    service.writing.database.run(f"{visited}, checked_at = added_at")
    other = bob.post("/api/feeds", json={"url": url}).json()
    fresh = bob.post("/api/feeds", json={"url": "https://other.org/rss"}).json()
    told = [{**one, "id": "", "url": "", "added_at": ""} for one in (other, fresh)]
    assert told[0] == told[1]
    assert other["id"] != mine["id"]
    assert bob.delete(f"/api/feeds/{mine['id']}").status_code == 404
    assert bob.delete(f"/api/feeds/{other['id']}").status_code == 204
    assert [feed["id"] for feed in ann.get("/api/feeds").json()["feeds"]] == [mine["id"]]


def test_where_a_feed_moved_for_others_is_not_told_before_it_was_visited_for_oneself(service, ann, bob):
    ann.post("/api/feeds", json={"url": "https://e.org/"})
    (feed,) = service.writing.feeds("ann")
    service.writing.visited([Visited(feed.id, "https://e.org/rss", "ok", feed.added_at, feed.added_at + 60)])
    told = bob.post("/api/feeds", json={"url": "https://e.org/"}).json()
    assert told["url"] == "https://e.org/"
    assert bob.get("/api/feeds").json() == {"feeds": [told]}
    assert b"e.org/rss" not in bob.get("/api/opml").content
    (mine,) = service.writing.feeds("bob")
    service.writing.visited([Visited(feed.id, mine.url, "ok", mine.added_at + 1, mine.added_at + 60)])
    assert bob.get("/api/feeds").json()["feeds"][0]["url"] == "https://e.org/rss"


@pytest.mark.parametrize("examples", [6, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])])
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_request_that_the_description_allows_or_forbids_makes_the_server_fail(tmp_path, mode, examples):
    with opened(tmp_path) as service:
        token = service.writing.accounts.add("ann")
        for _ in range(3):
            subscribe(client(service, token))
        schema = schemathesis.openapi.from_asgi("/openapi.json", application(service)).exclude(path_regex=OPEN_ENDED)
        operations = [result.ok() for result in schema.get_all_operations()]
        for operation in operations:
            if mode == GenerationMode.POSITIVE or not operation.path.startswith("/read/"):  # any text may be a secret
                _fuzz(operation, mode, examples, {"Authorization": f"Bearer {token}"})
        asked = {(operation.method.upper(), operation.path) for operation in operations}
        assert asked == {one for one in routes(service) if not one[1].endswith("/live")}


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
    def judged(case):
        case.call_and_validate(headers=headers, excluded_checks=NOT_CLAIMED)

    judged()
