"""Signing out: nothing of the owner stays in the tab, in other tabs or in the browser."""

from __future__ import annotations

from tests.web.page.conftest import await_condition, await_posts
from tests.web.test_subscriptions import subscribe

EVERYTHING = """() => [
    document.documentElement.outerHTML, document.title, location.href, document.referrer,
    ...[...document.querySelectorAll("input")].map((input) => input.value),
    ...Object.values(sessionStorage), ...Object.values(localStorage), history.state,
].join("\\n")"""


def sign_in(tab, client):
    tab.fill("#token", client.headers["Authorization"].removeprefix("Bearer "))
    tab.press("#token", "Enter")
    tab.wait_for_selector("#dashboard")


def sign_out(tab):
    tab.click("#sign-out")
    tab.wait_for_selector("#sign-in-form")


def find_traces(tab, made, client):
    """Return what of an owner's session is anywhere in a tab."""
    secret = made["addresses"]["rss"].split("/")[-2]
    token = client.headers["Authorization"].removeprefix("Bearer ")
    everything = tab.evaluate(EVERYTHING)
    traces = [made["query"], secret, token, "half-typed", "text of private", "feeds.example", ">ann<"]
    return [trace for trace in traces if trace in everything]


def test_the_next_user_sees_nothing_of_the_previous_owner(ann, bob, open_tab, store_matches, context):
    made = subscribe(ann, "embezzlement")
    store_matches(made["id"], ["private"])
    ann.post("/api/feeds", json={"url": "https://feeds.example/rss"})
    tab = open_tab(ann)
    await_posts(tab, "text of private")
    tab.fill("#query", "half-typed")
    tab.fill("#feed-url", "half-typed")
    assert len(find_traces(tab, made, ann)) == 7
    sign_out(tab)
    assert find_traces(tab, made, ann) == []
    sign_in(tab, bob)
    tab.wait_for_selector("#no-queries:visible")
    assert find_traces(tab, made, ann) == []
    tab.goto("about:blank")
    tab.go_back()
    tab.wait_for_selector("#dashboard")
    assert find_traces(tab, made, ann) == []


def test_signing_out_signs_out_all_tabs_and_closes_the_stream(ann, open_tab, context):
    made = subscribe(ann, "embezzlement")
    first, second = open_tab(ann), open_tab(ann)
    assert len(context.live_readers) == 1
    sign_out(first)
    second.wait_for_selector("#sign-in-form")
    assert second.text_content("#sign-in-reason") == "You signed out in another tab."
    assert find_traces(second, made, ann) == find_traces(first, made, ann) == []
    await_condition(first, lambda: not len(context.live_readers), "the stream is closed")
    sign_in(first, ann)
    first.wait_for_function("() => document.querySelector('#live-state')?.textContent === 'Live'")
    assert second.is_visible("#sign-in-form")


def test_the_sign_in_link_of_another_owner_replaces_the_owner_of_a_tab(ann, bob, open_tab, url):
    made = subscribe(ann, "embezzlement")
    tab = open_tab(ann)
    tab.goto(f"{url}/#token={bob.headers['Authorization'].removeprefix('Bearer ')}")
    tab.wait_for_function("() => document.querySelector('#account-name')?.textContent === 'bob'")
    assert find_traces(tab, made, ann) == []
    assert tab.url == f"{url}/"


def test_a_tab_that_is_opened_again_after_the_sign_out_stays_signed_out(ann, open_tab, url):
    subscribe(ann)
    tab = open_tab(ann)
    closed = tab.evaluate("({...sessionStorage})")
    sign_out(tab)
    tab.evaluate("saved => Object.assign(sessionStorage, saved)", closed)  # as a browser does for a restored tab
    tab.reload()
    tab.wait_for_selector("#sign-in-form")
    assert tab.evaluate("sessionStorage.length") == 0
    assert tab.locator("#dashboard").count() == 0


def test_a_tab_that_waits_for_the_server_is_signed_out_too(ann, open_tab):
    made = subscribe(ann, "embezzlement")
    first, second = open_tab(ann), open_tab(ann)
    second.clock.install()
    second.route("**/api/me", lambda route: route.abort())
    second.reload()
    second.wait_for_function("() => document.querySelector('#sign-in-error').textContent.endsWith('Trying again…')")
    sign_out(first)
    second.wait_for_function("() => sessionStorage.length === 0")
    second.unroute("**/api/me")
    second.clock.run_for(10_000)
    second.wait_for_timeout(500)
    assert find_traces(second, made, ann) == []
    assert second.text_content("#sign-in-reason") == "You signed out in another tab."
    assert second.text_content("#sign-in-error") == ""


def test_a_response_that_arrives_after_the_sign_out_is_ignored(ann, open_tab, store_matches):
    made = subscribe(ann, "embezzlement")
    store_matches(made["id"], ["private"])
    tab, held = open_tab(ann), []
    tab.route("**/api/subscriptions*", lambda route: held.append(route))
    tab.route("**/api/check", lambda route: held.append(route))
    tab.fill("#query", "half-typed")
    subscribe(ann, "rain")  # the list is read again
    await_condition(tab, lambda: len(held) == 2, "both requests")
    answers = [route.fetch() for route in held]
    sign_out(tab)
    for route, answer in zip(held, answers, strict=True):
        route.fulfill(response=answer)
    tab.wait_for_timeout(100)
    assert find_traces(tab, made, ann) == []


def test_a_revoked_token_is_the_reason_for_signing_out(ann, open_tab, context):
    made = subscribe(ann, "embezzlement")
    tab = open_tab(ann)
    context.write_store.accounts.revoke_tokens("ann")
    context.write_store.subscriptions.add("any change wakes the reader")
    tab.wait_for_selector("#sign-in-form")
    assert tab.text_content("#sign-in-reason") == "You were signed out: your token was revoked."
    assert find_traces(tab, made, ann) == []


def test_an_unknown_token_is_rejected_with_a_reason(profile, url):
    tab = profile.new_page()
    tab.goto(url)
    tab.fill("#token", "tidings_unknown")
    tab.press("#token", "Enter")
    tab.wait_for_function("() => document.querySelector('#sign-in-error').textContent !== ''")
    assert tab.text_content("#sign-in-error") == "This token is unknown or was revoked."
