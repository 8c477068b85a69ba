"""Reading and typing: focus and position stay while data changes, and a key acts once."""

from __future__ import annotations

import pytest
from tests.web.page.conftest import await_condition, await_posts, await_state, focused_id
from tests.web.test_subscriptions import subscribe


def top_of(tab, post):
    return tab.locator("#matches li", has_text=f"text of {post}").bounding_box()["y"]


def await_text(tab, selector, text):
    tab.wait_for_function("([s, t]) => document.querySelector(s)?.textContent === t", arg=[selector, text])


def count_objects(profile, tab, field):
    """Return how many objects with a field are in the memory of a tab."""
    session = profile.new_cdp_session(tab)
    prototype = session.send("Runtime.evaluate", {"expression": "Object.prototype"})["result"]["objectId"]
    found = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"]["objectId"]
    count = f"function () {{ return this.filter((each) => Object.hasOwn(each, '{field}')).length; }}"
    counted = session.send("Runtime.callFunctionOn", {"objectId": found, "functionDeclaration": count})
    return counted["result"]["value"]


def queries_of(client):
    return [row["query"] for row in client.get("/api/subscriptions").json()["subscriptions"]]


def test_the_focus_stays_when_lists_are_updated(ann, profile, url, context):
    made = [subscribe(ann, query) for query in ("storm", "rain")]
    for name in ("a", "b"):
        ann.post("/api/feeds", json={"url": f"https://{name}.example/rss"})
    tab = profile.new_page()
    tab.clock.install()
    tab.goto(f"{url}/#token={ann.headers['Authorization'].removeprefix('Bearer ')}")
    tab.wait_for_function("() => document.querySelector('#live-state')?.textContent === 'Live'")
    tab.focus(".pick >> nth=1")
    ann.delete(f"/api/subscriptions/{made[0]['id']}")
    subscribe(ann, "snow")
    tab.wait_for_function("() => document.querySelector('#subscriptions').textContent.includes('snow')")
    assert tab.evaluate("document.activeElement.textContent").startswith("rain")
    tab.focus("#feeds button >> nth=1")
    ann.post("/api/feeds", json={"url": "https://c.example/rss"})
    tab.clock.run_for(31_000)  # feeds are read again every 30 s
    tab.wait_for_function("() => document.querySelectorAll('#feeds li').length === 3")
    assert tab.evaluate("document.activeElement.ariaLabel") == "Remove the feed https://b.example/rss"


def test_the_field_of_the_query_has_the_focus_after_signing_in(ann, open_tab):
    tab = open_tab(ann)
    tab.wait_for_function("() => document.activeElement.id === 'query'")


def test_typing_while_the_first_lists_are_read_keeps_the_focus(ann, profile, url):
    tab, held = profile.new_page(), []
    tab.route("**/api/subscriptions?*", lambda route: held.append(route), times=1)
    tab.goto(f"{url}/#token={ann.headers['Authorization'].removeprefix('Bearer ')}")
    tab.focus("#feed-url")
    tab.keyboard.insert_text("https://a.exam")
    await_condition(tab, lambda: held, "the list of queries is requested")
    held[0].continue_()
    tab.wait_for_selector("#no-queries:visible")
    tab.wait_for_timeout(200)
    assert focused_id(tab) == "feed-url"


@pytest.mark.parametrize("way", ["scrolled", "hovering", "focused"])
def test_new_matches_do_not_move_what_is_being_read(ann, open_tab, store_matches, way):
    made = subscribe(ann)
    store_matches(made["id"], [f"{n:02}" for n in range(30)])
    tab = open_tab(ann)
    tab.wait_for_function("() => document.querySelectorAll('#matches li').length === 30")
    item = tab.locator("#matches li", has_text="text of 27")
    if way == "scrolled":
        tab.locator("#matches li", has_text="text of 10").scroll_into_view_if_needed()
        tab.mouse.move(1, 1)
        item = tab.locator("#matches li", has_text="text of 10")
    elif way == "hovering":
        item.hover()
    else:
        item.focus()
    before = item.bounding_box()["y"]
    store_matches(made["id"], ["new 1", "new 2", "new 3"])
    await_text(tab, "#new-matches", "3 new matches")
    assert item.bounding_box()["y"] == before
    assert tab.locator("#matches li").count() == 30
    tab.click("#new-matches")
    tab.wait_for_function("() => document.querySelectorAll('#matches li').length === 33")
    assert tab.evaluate("document.activeElement.textContent").startswith("text of new 3")
    assert tab.is_hidden("#new-matches")


def test_a_tab_that_is_scrolled_keeps_only_the_matches_that_it_can_show(ann, profile, open_tab, store_matches):
    made = subscribe(ann)
    store_matches(made["id"], [f"{n:03}" for n in range(30)])
    tab = open_tab(ann)
    tab.wait_for_function("() => document.querySelectorAll('#matches li').length === 30")
    tab.locator("#matches li", has_text="text of 010").scroll_into_view_if_needed()
    store_matches(made["id"], [f"{n:03}" for n in range(30, 830)])
    await_text(tab, "#new-matches", "800 new matches")
    assert count_objects(profile, tab, "arrived_at") <= 200
    tab.click("#new-matches")
    await_posts(tab, *(f"text of {n:03}" for n in reversed(range(630, 830))))
    assert tab.is_hidden("#new-matches")


@pytest.mark.parametrize("width", [360, 740, 840])
def test_neither_new_matches_nor_the_state_move_the_text(ann, open_tab, store_matches, phase, width):
    made = subscribe(ann)
    store_matches(made["id"], [f"{n:02}" for n in range(30)])
    tab = open_tab(ann)
    tab.set_viewport_size({"width": width, "height": 740})
    item = tab.locator("#matches li", has_text="text of 27")
    item.focus()
    before = item.bounding_box()["y"]
    phase.write("stopped")
    await_state(tab, "Stopped")
    store_matches(made["id"], ["new"])
    await_text(tab, "#new-matches", "1 new match")
    assert item.bounding_box()["y"] == before


def test_new_matches_appear_at_once_while_nobody_reads(ann, open_tab, store_matches):
    made = subscribe(ann)
    store_matches(made["id"], ["a"])
    tab = open_tab(ann)
    await_posts(tab, "text of a")
    store_matches(made["id"], ["b"])
    await_posts(tab, "text of b", "text of a")
    assert tab.is_hidden("#new-matches")


def test_older_matches_can_be_read(ann, open_tab, store_matches):
    made = subscribe(ann)
    store_matches(made["id"], [f"{n:02}" for n in range(60)])
    tab = open_tab(ann)
    tab.wait_for_function("() => document.querySelectorAll('#matches li').length === 50")
    tab.click("#older-matches")
    await_posts(tab, *(f"text of {n:02}" for n in reversed(range(60))))
    assert tab.is_hidden("#older-matches")


def test_enter_subscribes_directly_after_typing_and_once(ann, open_tab):
    tab = open_tab(ann, is_live=False)
    tab.focus("#query")
    tab.keyboard.insert_text("hurricane")
    for _ in range(10):  # held down
        tab.keyboard.down("Enter")
    await_text(tab, "#selected-query", "hurricane")
    tab.wait_for_function("() => document.querySelector('#query').value === ''")
    assert queries_of(ann) == ["hurricane"]


def test_enter_subscribes_while_the_list_of_the_query_before_is_read(ann, open_tab):
    tab, held = open_tab(ann), []
    tab.route("**/api/subscriptions?*", lambda route: held.append(route))
    for query in ("hurricane", "tornado"):
        tab.focus("#query")
        tab.keyboard.insert_text(query)
        tab.keyboard.press("Enter")
        tab.wait_for_function("() => document.querySelector('#query').value === ''")
    assert held
    assert queries_of(ann) == ["hurricane", "tornado"]


def test_enter_after_an_invalid_query_explains_the_error(ann, open_tab):
    tab = open_tab(ann, is_live=False)
    tab.focus("#query")
    tab.keyboard.insert_text("storm AND (")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#explanation .error")
    assert tab.input_value("#query") == "storm AND ("
    assert queries_of(ann) == []


def test_enter_that_is_held_down_deletes_one_query(ann, open_tab):
    for query in ("storm", "rain", "snow"):
        subscribe(ann, query)
    tab = open_tab(ann)
    tab.focus("#delete")
    for _ in range(10):
        tab.keyboard.down("Enter")
    tab.keyboard.up("Enter")
    assert focused_id(tab) == "confirmation-cancel"
    assert queries_of(ann) == ["storm", "rain", "snow"]
    tab.focus("#confirmation-accept")
    for _ in range(10):
        tab.keyboard.down("Enter")
    await_text(tab, "#selected-query", "rain")
    for _ in range(10):
        tab.keyboard.down("Enter")
    tab.keyboard.up("Enter")
    assert focused_id(tab) == "queries-heading"
    assert tab.is_hidden("#confirmation")
    assert queries_of(ann) == ["storm", "rain"]


def test_a_query_that_is_selected_during_a_deletion_stays_selected(ann, open_tab):
    made = [subscribe(ann, query) for query in ("storm", "rain", "snow")]
    tab, held = open_tab(ann), []
    tab.route(f"**/api/subscriptions/{made[-1]['id']}", lambda route: held.append(route), times=1)
    tab.click("#delete")
    tab.click("#confirmation-accept")
    await_condition(tab, lambda: held, "the deletion is requested")
    tab.click(".pick >> nth=0")
    held[0].continue_()
    tab.wait_for_function("() => document.querySelectorAll('#subscriptions li').length === 2")
    tab.wait_for_timeout(200)
    assert tab.text_content("#selected-query") == "storm"


def test_enter_that_is_held_down_removes_one_feed(ann, open_tab):
    for name in ("a", "b", "c"):
        ann.post("/api/feeds", json={"url": f"https://{name}.example/rss"})
    tab = open_tab(ann, is_live=False)
    tab.focus("#feeds button >> nth=0")
    tab.keyboard.press("Enter")
    tab.keyboard.press("Enter")  # the safe answer has the focus
    assert tab.is_hidden("#confirmation")
    tab.keyboard.press("Enter")
    tab.focus("#confirmation-accept")
    for _ in range(10):
        tab.keyboard.down("Enter")
    tab.wait_for_function("() => document.querySelectorAll('#feeds li').length === 2")
    tab.keyboard.up("Enter")
    assert focused_id(tab) == "feeds-heading"
    assert len(ann.get("/api/feeds").json()["feeds"]) == 2


def test_an_answer_to_a_question_does_not_answer_the_next_one(ann, open_tab):
    tab = open_tab(ann, is_live=False)
    answers = tab.evaluate(
        """async () => {
            const { confirmAction } = await import("./static/confirmation.js");
            const first = confirmAction("First?", "Yes");
            document.getElementById("confirmation-cancel").click();
            const second = confirmAction("Second?", "Yes"); // before the browser tells that the first was closed
            setTimeout(() => document.getElementById("confirmation-accept").click(), 50);
            return [await first, await second];
        }"""
    )
    assert answers == [False, True]


def test_escape_deletes_nothing(ann, open_tab):
    subscribe(ann, "storm")
    tab = open_tab(ann)
    tab.click("#delete")
    tab.keyboard.press("Escape")
    assert tab.is_hidden("#confirmation")
    tab.click("#delete")
    tab.click("#confirmation-accept")
    tab.wait_for_selector("#subscriptions li", state="detached")
    assert queries_of(ann) == []
