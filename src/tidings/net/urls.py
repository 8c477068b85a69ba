"""Addresses we may be sent to, in one spelling, so that one feed is one feed however it was written."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit, urlunsplit

from tidings.errors import InputError

MAX_URL = 2048
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HIDDEN = re.compile(r"[\x00-\x20\x7f\u200b-\u200f\u2028-\u202e\ufeff\ud800-\udfff]")
_KEPT = "%/:=&?~#+!$,;'@()*[]|"


def checked_url(url: str) -> str:
    """The address in its usual spelling; InputError unless it is one that HTTP can fetch.

    Scheme and host in small letters, the host in ASCII, no default port, no fragment, a path at least `/`. Without a
    scheme it is https; `feed:` is what some pages write for http.
    """
    text = url.strip()
    if text.lower().startswith("feed:"):
        text = text[5:] if text[5:].lower().startswith("http") else f"http:{text[5:]}"
    if "://" not in text:
        text = "https://" + text
    if len(text) > MAX_URL or _HIDDEN.search(text):
        raise InputError(f"{url[:80]!r} is no address: it is too long, or holds blanks or unprintable characters.")
    return _rebuilt(text, url)


def _rebuilt(text: str, given: str) -> str:
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), _ascii(parts.hostname or ""), parts.port
    except ValueError as error:  # UnicodeError is one
        raise InputError(f"{given[:80]!r} is no address that can be fetched: {error}.") from None
    if scheme not in _DEFAULT_PORTS or not host:
        raise InputError(f"{given[:80]!r} is no address that can be fetched; give one that begins with http or https.")
    where = f"[{host}]" if ":" in host else host
    where += "" if port in (None, _DEFAULT_PORTS[scheme]) else f":{port}"
    where = f"{parts.netloc.rpartition('@')[0]}@{where}" if "@" in parts.netloc else where
    return urlunsplit((scheme, where, quote(parts.path or "/", safe=_KEPT), quote(parts.query, safe=_KEPT), ""))


def _ascii(host: str) -> str:
    name = host.rstrip(".")
    return name if name.isascii() else name.encode("idna").decode("ascii")


def host_of(url: str) -> str:
    """Whom one has to be polite to: the host and port."""
    return urlsplit(url).netloc.rpartition("@")[2]
