"""Answers are compressed for who accepts that; how long they are tells nothing of the secret in them."""

from __future__ import annotations

import gzip
import zlib
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.test_subscriptions import subscribe

from tidings.web.compression import accepts_gzip, gzipped

TEXT = "storm and tea and storm again; " * 40


@given(st.binary(max_size=2_000), st.binary(max_size=40), st.integers(0, 3))
def test_what_is_packed_comes_back(body, secret, times):
    whole = body.join([secret] * (times + 1)) if times else body
    assert gzip.decompress(gzipped(whole, secret)) == whole
    one_member = zlib.decompressobj(31)  # as readers do it that know of one member only
    assert one_member.decompress(gzipped(whole, secret)) == whole
    assert (one_member.eof, one_member.unused_data) == (True, b"")


def test_a_guess_of_the_secret_makes_no_answer_shorter():
    """As BREACH would have it: the right guess repeats what is there, and compresses better."""
    secret, wrong = b"3q8ZkD0w5uYhT1vRb7Xn", b"Xc5Vb2Lm9Kj4Hg7Fd1Sa"

    def sizes(guess, apart):
        body = b"<link href='https://t.example/read/" + secret + b"/rss'/>" + TEXT.encode() + b"/read/" + guess
        return len(gzipped(body, secret if apart else b""))

    assert sizes(secret, apart=False) < sizes(wrong, apart=False)  # so it would be, compressed together
    lengths = {sizes(secret[:n] + wrong[n:], apart=True) for n in range(len(secret))}
    assert max(lengths) - min(lengths) <= 2  # what chance makes of other letters
    assert sizes(secret, apart=True) >= min(lengths)


@pytest.mark.parametrize("kind", ["rss", "atom", "json"])
def test_feeds_are_compressed_for_who_accepts_it_and_are_the_same(ann, anonymous, found, kind):
    made = subscribe(ann)
    found(made["id"], [str(n) for n in range(50)], title=[TEXT] * 50)
    path = urlsplit(made["addresses"][kind]).path
    plain = anonymous.get(path, headers={"Accept-Encoding": "identity"})
    packed = anonymous.get(path, headers={"Accept-Encoding": "gzip, br"})
    assert ("content-encoding" in plain.headers, packed.headers["content-encoding"]) == (False, "gzip")
    assert plain.content == packed.content  # the client unpacks it
    assert int(packed.headers["content-length"]) < len(plain.content) / 5
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] == packed.headers["etag"]
    assert packed.headers["etag"].startswith("W/")  # one mark for both, so it must be a weak one
    again = anonymous.get(path, headers={"If-None-Match": packed.headers["etag"], "Accept-Encoding": "gzip"})
    assert (again.status_code, again.content, "content-encoding" in again.headers) == (304, b"", False)


def test_pages_of_matches_lists_of_feeds_and_the_page_are_compressed(ann, found):
    made = subscribe(ann)
    found(made["id"], [str(n) for n in range(50)], title=[TEXT] * 50)
    for n in range(30):
        ann.post("/api/feeds", json={"url": f"https://e.example/{n}"})
    for path in (f"/api/subscriptions/{made['id']}/matches", "/api/opml", "/", "/static/page.js"):
        assert ann.get(path).headers["content-encoding"] == "gzip", path
    for path in (f"/api/subscriptions/{made['id']}", "/api/subscriptions", "/api/webhooks"):  # these tell secrets
        assert "content-encoding" not in ann.get(path).headers, path


@pytest.mark.parametrize(
    ("header", "taken"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("x-gzip", True), ("", False), ("br", False),
     ("gzip;q=0", False), ("gzip; q=0.000, br", False), ("*;q=0", False), ("gzip;q=0, *", False)],
)  # fmt: skip
def test_who_accepts_gzip_is_told_by_their_header(header, taken):
    assert accepts_gzip(header) is taken
