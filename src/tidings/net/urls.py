"""Normalize URLs, so that differently written URLs of one feed are equal."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit, urlunsplit

from tidings.errors import InputError

MAX_URL_CHARACTERS = 2048
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\u200b-\u200f\u2028-\u202e\ufeff\ud800-\udfff]")
_SAFE_CHARACTERS = "%/:=&?~#+!$,;'@()*[]|"
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?!//|\d)", re.IGNORECASE)


def normalize_url(url: str) -> str:
    """Return the normalized URL. Raises InputError if it is not a valid http or https URL.

    Scheme and host become lower case, the host ASCII; default port and fragment are dropped; the path is at least `/`.
    The default scheme is https; some pages write `feed:` for http.
    """
    text = url.strip()
    if text.lower().startswith("feed:"):
        text = text[5:] if text[5:].lower().startswith("http") else f"http:{text[5:]}"
    if "://" not in text:
        text = "https://" + text
    if len(text) > MAX_URL_CHARACTERS:
        raise InputError(f"{url[:80]!r}…: not a web address (it has more than {MAX_URL_CHARACTERS:,} characters).")
    if unprintable := _UNPRINTABLE.search(text):
        content = "spaces" if unprintable[0] == " " else "unprintable characters"
        raise InputError(f"{url[:80]!r}: not a web address (it has {content}).")
    return _rebuild(text, url)


def _rebuild(text: str, given: str) -> str:
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), _to_ascii(parts.hostname or ""), parts.port
    except ValueError as error:  # also UnicodeError
        if _OTHER_SCHEME.match(given.strip()):
            raise _scheme_error(given) from None
        raise InputError(f"{given[:80]!r}: not a web address ({error}).") from None
    if scheme not in _DEFAULT_PORTS or not host:
        raise _scheme_error(given)
    netloc = f"[{host}]" if ":" in host else host
    netloc += "" if port in (None, _DEFAULT_PORTS[scheme]) else f":{port}"
    netloc = f"{parts.netloc.rpartition('@')[0]}@{netloc}" if "@" in parts.netloc else netloc
    return urlunsplit(
        (scheme, netloc, quote(parts.path or "/", safe=_SAFE_CHARACTERS), quote(parts.query, safe=_SAFE_CHARACTERS), "")
    )


def _to_ascii(host: str) -> str:
    name = host.rstrip(".")
    return name if name.isascii() else name.encode("idna").decode("ascii")


def _scheme_error(given: str) -> InputError:
    return InputError(f"{given[:80]!r}: only http and https addresses are supported.")


def host_of(url: str) -> str:
    """Return host and port, to which rate limits apply."""
    return urlsplit(url).netloc.rpartition("@")[2]
