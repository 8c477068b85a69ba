"""The web page: served from the package, nothing from other hosts, and no post can become markup."""

from __future__ import annotations

import re
from importlib import resources

import pytest

STATIC = resources.files("tidings.web").joinpath("static")
MEDIA_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
FILES = {file.name: MEDIA_TYPES[file.name.rpartition(".")[2]] for file in STATIC.iterdir()}


@pytest.mark.parametrize(("name", "kind"), FILES.items())
def test_the_page_and_its_files_are_served(anonymous, name, kind):
    answer = anonymous.get("/" if name == "index.html" else f"/static/{name}")
    assert answer.content == STATIC.joinpath(name).read_bytes()
    assert answer.headers["content-type"].startswith(kind)


@pytest.mark.parametrize(
    "path", ["/static/app.py", "/static/../app.py", "/static/%2e%2e%2fapp.py", "/static/", "/nothing"]
)
def test_no_other_file_is_served(anonymous, path):
    assert anonymous.get(path).status_code in (404, 422)


def test_the_content_security_policy_allows_only_own_files(anonymous):
    policy = anonymous.get("/").headers["content-security-policy"]
    rules = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert rules.pop("trusted-types") == "tidings-worker"
    assert set(rules.values()) <= {"'self'", "'none'", "'script'"}
    assert rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in policy


def test_no_file_uses_other_hosts_or_turns_text_into_markup():
    for name in FILES:
        text = STATIC.joinpath(name).read_text("utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?(https?:)?//", text), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text), name
    html = STATIC.joinpath("index.html").read_text("utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bon[a-z]+=|style=", html)


def test_every_element_that_the_scripts_use_is_on_the_page():
    scripts = {name: STATIC.joinpath(name).read_text("utf-8") for name in FILES if name.endswith(".js")}
    html = STATIC.joinpath("index.html").read_text("utf-8")
    used = {identity for script in scripts.values() for identity in re.findall(r'\$\("([a-z-]+)"\)', script)}
    assert used <= set(re.findall(r'\bid="([a-z-]+)"', html))
    for script in scripts.values():
        assert {name.removeprefix("./") for name in re.findall(r'from "([^"]+)"', script)} <= set(scripts)
