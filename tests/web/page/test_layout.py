"""Layout: nothing overflows on phones, texts have contrast, targets can be hit, and the keyboard reaches everything."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.web.conftest import client
from tests.web.page.conftest import await_posts, focused_id
from tests.web.test_subscriptions import subscribe

LONG = "x" * 300
LONG_QUERY = "y" * 256
MIN_TARGET_PX = 24
MIN_CONTRAST = 4.5  # WCAG 2 AA
LOW_CONTRASTS = """() => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const toRgb = (color) => {
        pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1);
        return [...pen.getImageData(0, 0, 1, 1).data];
    };
    const luminance = (rgb) => {
        const [r, g, b] = rgb.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const background = (element) => {
        for (; element; element = element.parentElement) {
            const rgb = toRgb(getComputedStyle(element).backgroundColor);
            if (rgb[3] === 255) return rgb;
        }
        return [255, 255, 255, 255];
    };
    const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    return [...document.body.querySelectorAll("*")]
        .filter((element) => hasText(element) && element.checkVisibility({ opacityProperty: true }))
        .map((element) => {
            const colors = [toRgb(getComputedStyle(element).color), background(element)];
            const [low, high] = colors.map(luminance).sort((a, b) => a - b);
            return [element.id || element.className || element.tagName, (high + 0.05) / (low + 0.05)];
        });
}"""
SMALL_TARGETS = """(least) => [...document.querySelectorAll("button, a, summary, input")]
    .filter((element) => element.checkVisibility() && element.id !== "skip")
    .map((element) => [element.textContent || element.id, element.getBoundingClientRect()])
    .filter(([, { width, height }]) => width < least || height < least).map(([name]) => name)"""


@pytest.fixture
def full_tab(ann, open_tab, store_matches, context):
    """Return a tab with one of everything, as long as it gets."""
    made = subscribe(ann, LONG_QUERY)
    columns = {"title": [LONG], "text": [LONG], "author": [LONG], "link": [f"https://{'a' * 60}.example/"]}
    store_matches(made["id"], ["a"], **columns)
    ann.post("/api/feeds", json={"url": f"https://e.example/{LONG}", "title": LONG})
    feed = next(iter(context.write_store.feeds.all("ann")))
    context.write_store.feeds.record_visits([_visit(feed)])
    tab = open_tab(ann)
    await_posts(tab, LONG)
    tab.fill("#query", f"{LONG_QUERY} OR rain")
    tab.wait_for_selector("#explanation .estimate")
    return tab


def _visit(feed):
    from tidings.store.feeds import VisitRecord

    return VisitRecord(feed.id, feed.url, "ok", feed.added_at + 1, feed.added_at + 60)


def test_nothing_overflows_on_a_phone(full_tab):
    full_tab.set_viewport_size({"width": 360, "height": 740})
    assert full_tab.evaluate("document.documentElement.scrollWidth") == 360
    full_tab.click("#delete")
    assert full_tab.locator("#confirmation").bounding_box()["width"] <= 360
    assert full_tab.evaluate("document.documentElement.scrollWidth") == 360


def test_long_names_and_errors_do_not_overflow_on_a_phone(context, open_tab):
    owner = client(context, context.write_store.accounts.add("w" * 64))
    tab = open_tab(owner, is_live=False)
    tab.set_viewport_size({"width": 360, "height": 740})
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    tab.fill("#query", f"storm {'&' * 250}")
    tab.wait_for_selector("#explanation .estimate")
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    tab.fill("#feed-url", f"not an address {LONG}")
    tab.press("#feed-url", "Enter")
    tab.wait_for_selector("#feed-error:not(:empty)")
    assert tab.evaluate("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast_and_targets_can_be_hit(full_tab, scheme):
    full_tab.emulate_media(color_scheme=scheme)
    contrasts = full_tab.evaluate(LOW_CONTRASTS)
    assert {"state ok", "live-state", "text", "query", "count"} <= {name for name, _ in contrasts}
    assert [(name, round(ratio, 2)) for name, ratio in contrasts if ratio < MIN_CONTRAST] == []
    assert full_tab.evaluate(SMALL_TARGETS, MIN_TARGET_PX) == []


def test_the_keyboard_skips_to_the_matches_and_reaches_every_control(ann, open_tab, store_matches):
    for query in ("storm", "rain", "snow"):
        made = subscribe(ann, query)
    store_matches(made["id"], ["a"], link=["https://e.example/"])
    tab = open_tab(ann)
    await_posts(tab, "text of a")
    tab.evaluate("document.activeElement.blur()")
    seen = []
    for _ in range(30):
        tab.keyboard.press("Tab")
        seen.append(tab.evaluate("document.activeElement.id || document.activeElement.textContent"))
    for control in ("skip", "sign-out", "query", "subscribe", "feed-url", "renew", "delete", "e.example"):
        assert control in seen
    assert sum(name.startswith(("storm", "rain", "snow")) for name in seen) >= 3
    tab.focus("#skip")
    tab.keyboard.press("Enter")
    assert focused_id(tab) == "selected-query"
    for _ in range(6):  # three addresses, two actions, the link
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "e.example"


def test_a_match_shows_when_it_was_published_and_found(ann, open_tab, store_matches):
    made = subscribe(ann)
    published = datetime.now(UTC) - timedelta(days=3, hours=1)
    store_matches(made["id"], ["a", "b"], time=[published.isoformat(), "yesterday"])
    tab = open_tab(ann)
    await_posts(tab, "text of b", "text of a")
    assert tab.locator(".about").all_text_contents() == ["found just now", "published 3 days agofound just now"]
