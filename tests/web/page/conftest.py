"""Fixtures for tests in a real browser: Chromium, driven by Playwright, against the real application on loopback."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator

import pytest
from tests.web.conftest import live_server

from tidings.stream.phase import PhaseFile

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAIT_MS = 60_000  # on a loaded machine


@pytest.fixture(scope="module")
def browser():
    """Return one browser for a module; no longer, because asyncio cannot be used next to Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed (make setup)")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("Chromium is not installed (scripts/setup.sh tests)")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def profile(browser):
    """Return a new profile: its tabs share storage and workers. Errors and violations of the policy fail the test."""
    context = browser.new_context(viewport={"width": 1100, "height": 800}, reduced_motion="reduce")
    context.set_default_timeout(WAIT_MS)
    problems: list[str] = []
    context.on("weberror", lambda error: problems.append(str(error.error)))
    context.on("console", lambda message: "Security Policy" in message.text and problems.append(message.text))
    yield context
    context.close()
    assert not problems


@pytest.fixture
def phase(tmp_path) -> PhaseFile:
    """Return the phase of the stream, which is running."""
    file = PhaseFile(tmp_path)
    file.write("running")
    return file


@pytest.fixture
def url(context, phase) -> Iterator[str]:
    with live_server(context) as address:
        yield address


@pytest.fixture
def open_tab(profile, url) -> Callable:
    """Return a function that opens a tab and signs in."""

    def open_signed_in(client, is_live=True):
        token = client.headers["Authorization"].removeprefix("Bearer ")
        tab = profile.new_page()
        tab.goto(f"{url}/#token={token}")
        tab.wait_for_selector("#dashboard")
        if is_live:
            await_state(tab, "Live")
        return tab

    return open_signed_in


def await_condition(tab, condition: Callable[[], object], what: str) -> None:
    """Wait for a condition outside the page, while the page goes on."""
    deadline = time.monotonic() + WAIT_MS / 1000
    while not condition():
        assert time.monotonic() < deadline, f"waited {WAIT_MS // 1000} s for: {what}"
        tab.wait_for_timeout(20)


def await_state(tab, text: str) -> None:
    tab.wait_for_function("text => document.querySelector('#live-state')?.textContent.startsWith(text)", arg=text)


def await_posts(tab, *texts: str) -> None:
    """Wait until exactly these matches are shown, top to bottom."""
    script = "texts => [...document.querySelectorAll('#matches .text')].map(e => e.textContent).join('|') === texts"
    tab.wait_for_function(script, arg="|".join(texts))


def focused_id(tab) -> str:
    """Return the id of the element with the focus."""
    return tab.evaluate("document.activeElement.id")
