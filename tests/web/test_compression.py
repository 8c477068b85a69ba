"""Responses are compressed for clients that accept it; their length reveals nothing about the secret in them."""

from __future__ import annotations

import gzip
import zlib
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.web.test_subscriptions import subscribe

from tidings.web.compression import accepts_gzip, compress

TEXT = "storm and tea and storm again; " * 40


@given(st.binary(max_size=2_000), st.binary(max_size=40), st.integers(0, 3))
def test_decompression_restores_the_body(body, secret, times):
    document = body.join([secret] * (times + 1)) if times else body
    assert gzip.decompress(compress(document, secret)) == document
    one_member = zlib.decompressobj(31)  # like clients that support only one member
    assert one_member.decompress(compress(document, secret)) == document
    assert (one_member.eof, one_member.unused_data) == (True, b"")


def test_guessing_the_secret_does_not_shorten_a_response():
    """BREACH: a right guess repeats the secret and would compress better."""
    secret, wrong = b"3q8ZkD0w5uYhT1vRb7Xn", b"Xc5Vb2Lm9Kj4Hg7Fd1Sa"

    def size(guess, is_protected):
        body = b"<link href='https://t.example/read/" + secret + b"/rss'/>" + TEXT.encode() + b"/read/" + guess
        return len(compress(body, secret if is_protected else b""))

    assert size(secret, is_protected=False) < size(wrong, is_protected=False)  # the attack works without protection
    lengths = {size(secret[:n] + wrong[n:], is_protected=True) for n in range(len(secret))}
    assert max(lengths) - min(lengths) <= 2  # random differences of other characters
    assert size(secret, is_protected=True) >= min(lengths)


@pytest.mark.parametrize("kind", ["rss", "atom", "json"])
def test_feeds_are_compressed_for_clients_that_accept_gzip(ann, anonymous, store_matches, kind):
    made = subscribe(ann)
    store_matches(made["id"], [str(n) for n in range(50)], title=[TEXT] * 50)
    path = urlsplit(made["addresses"][kind]).path
    plain = anonymous.get(path, headers={"Accept-Encoding": "identity"})
    compressed = anonymous.get(path, headers={"Accept-Encoding": "gzip, br"})
    assert ("content-encoding" in plain.headers, compressed.headers["content-encoding"]) == (False, "gzip")
    assert plain.content == compressed.content  # the client decompresses it
    assert int(compressed.headers["content-length"]) < len(plain.content) / 5
    assert plain.headers["vary"] == compressed.headers["vary"] == "Accept-Encoding"
    assert plain.headers["etag"] == compressed.headers["etag"]
    assert compressed.headers["etag"].startswith("W/")  # one ETag for both encodings must be weak
    again = anonymous.get(path, headers={"If-None-Match": compressed.headers["etag"], "Accept-Encoding": "gzip"})
    assert (again.status_code, again.content, "content-encoding" in again.headers) == (304, b"", False)


def test_matches_opml_and_static_files_are_compressed(ann, store_matches):
    made = subscribe(ann)
    store_matches(made["id"], [str(n) for n in range(50)], title=[TEXT] * 50)
    for n in range(30):
        ann.post("/api/feeds", json={"url": f"https://e.example/{n}"})
    for path in (f"/api/subscriptions/{made['id']}/matches", "/api/opml", "/", "/static/page.js"):
        assert ann.get(path).headers["content-encoding"] == "gzip", path
    for path in (f"/api/subscriptions/{made['id']}", "/api/subscriptions", "/api/webhooks"):  # these contain secrets
        assert "content-encoding" not in ann.get(path).headers, path


@pytest.mark.parametrize(
    ("header", "expected"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("x-gzip", True), ("", False), ("br", False),
     ("gzip;q=0", False), ("gzip; q=0.000, br", False), ("*;q=0", False), ("gzip;q=0, *", False)],
)  # fmt: skip
def test_accept_encoding_is_parsed(header, expected):
    assert accepts_gzip(header) is expected
