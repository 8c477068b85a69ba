"""Errors of addresses are sentences for users, and passwords in addresses are not shown."""

from __future__ import annotations

import pytest

from tidings.errors import InputError
from tidings.net.urls import drop_userinfo, mask_userinfo, normalize_url


@pytest.mark.parametrize(
    ("url", "masked", "dropped"),
    [
        ("https://ann:secret@e.org/feed", "https://•••@e.org/feed", "https://e.org/feed"),
        ("https://token@e.org:8443/?a=b@c", "https://•••@e.org:8443/?a=b@c", "https://e.org:8443/?a=b@c"),
        ("https://a:b@c@e.org/", "https://•••@e.org/", "https://e.org/"),
        ("ann:secret@e.org/feed", "•••@e.org/feed", "e.org/feed"),
        ("https://e.org/@ann/feed", "https://e.org/@ann/feed", "https://e.org/@ann/feed"),
        ("https://e.org?x=@y", "https://e.org?x=@y", "https://e.org?x=@y"),
        ("", "", ""),
    ],
)
def test_user_name_and_password_are_masked_or_dropped(url, masked, dropped):
    assert (mask_userinfo(url), drop_userinfo(url)) == (masked, dropped)


@pytest.mark.parametrize(
    "url",
    ["ftp://u:secret@e.org/", "https://u:secret@e.org:port/", "https://u:secret/x@e.org/", "https://u:secret@e .org/",
     "https://u:secret@" + "x" * 3_000, "http://u:secret@[::1", "https://u:se//secret@e.org:x/",
     "https://u:secret//x@e.org:x/", "https://u:secret@e.org:x//feed", "u:secret//x@e.org:x"],
)  # fmt: skip
def test_the_error_of_an_invalid_address_does_not_show_its_password(url):
    with pytest.raises(InputError) as raised:
        normalize_url(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("not a url", "'not a url': not a web address (it has spaces)."),
        ("javascript:alert(1)", "'javascript:alert(1)': only http and https addresses are supported."),
        ("http://e.org:alert(1)/", "'http://e.org:alert(1)/': not a web address (its port is not a valid number)."),
        ("notaurl", "'notaurl': not a web address (write it like https://example.org/feed)."),
    ],
)
def test_errors_of_addresses_have_no_words_of_programmers(url, sentence):
    with pytest.raises(InputError) as raised:
        normalize_url(url)
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    "url", ["https:/u:secret@e.org/ok", "HTTP:u:secret@e.org/", "https:/u:secret@e.org/?a=x://y",
            "ftp:/u:secret@e.org/",
            "feed:https:/u:secret@e.org/"]
)  # fmt: skip
def test_a_scheme_without_two_slashes_is_not_taken_for_a_host(url):
    with pytest.raises(InputError, match="write // after the scheme") as raised:
        normalize_url(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("url", ["localhost:8000/feed", "example.org", "192.0.2.1/feed", "http://intranet/feed"])
def test_a_host_without_scheme_needs_a_dot(url):
    assert normalize_url(url).startswith("http")
