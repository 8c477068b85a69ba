"""Normalize URLs, so that differently written URLs of one feed are equal, and hide their passwords."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit, urlunsplit

from tidings.errors import InputError

MAX_URL_CHARACTERS = 2048
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f\u200b-\u200f\u2028-\u202e\ufeff\ud800-\udfff]")
_SAFE_CHARACTERS = "%/:=&?~#+!$,;'@()*[]|"
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?!//|\d)", re.IGNORECASE)
_MISSING_SLASH = re.compile(r"https?:(?!//)|[a-z][a-z0-9+-]*:/(?!/)", re.IGNORECASE)
_SHOWN_CHARACTERS = 80
_MASK = "•••"
_USERINFO = re.compile(r"^((?:[a-z][a-z0-9+.-]*:)?//)?[^/?#]*@", re.IGNORECASE)
_BEFORE_AT_SIGN = re.compile(r"^([a-z][a-z0-9+.-]*://)?.*@", re.IGNORECASE | re.DOTALL)


def normalize_url(url: str) -> str:
    """Return the normalized URL. Raises InputError if it is not a valid http or https URL.

    Scheme and host become lower case, the host ASCII; default port and fragment are dropped; the path is at least `/`.
    The default scheme is https, for hosts with a dot; some pages write `feed:` for http.
    """
    text = url.strip()
    if text.lower().startswith("feed:"):
        text = text[5:] if text[5:].lower().startswith("http") else f"http:{text[5:]}"
    if len(text) > MAX_URL_CHARACTERS:
        raise _invalid(url, f"it has more than {MAX_URL_CHARACTERS:,} characters")
    if unprintable := _UNPRINTABLE.search(text):
        raise _invalid(url, "it has spaces" if unprintable[0] == " " else "it has unprintable characters")
    if _MISSING_SLASH.match(text):  # otherwise the scheme would become the host, and a password part of the path
        raise _invalid(url, "write // after the scheme, like https://example.org/feed")
    return _rebuild(text if "://" in text else _add_scheme(text), url)


def _add_scheme(text: str) -> str:
    host = re.split(r"[/?#]", text, maxsplit=1)[0].rpartition("@")[2]
    if "." not in host and not host.lower().startswith(("localhost", "[")) and not _OTHER_SCHEME.match(text):
        raise _invalid(text, "write it like https://example.org/feed")
    return "https://" + text


def _rebuild(text: str, given: str) -> str:
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), _to_ascii(parts.hostname or ""), parts.port
    except ValueError as error:  # also UnicodeError
        if _OTHER_SCHEME.match(given.strip()):
            raise _scheme_error(given) from None
        raise _invalid(given, _explain(error)) from None
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


def _explain(error: ValueError) -> str:
    if str(error).startswith("Port"):
        return "its port is not a valid number"
    return "its host name is not valid"


def _invalid(given: str, reason: str) -> InputError:
    return InputError(f"{_show(given)}: not a web address ({reason}).")


def _scheme_error(given: str) -> InputError:
    return InputError(f"{_show(given)}: only http and https addresses are supported.")


def _show(given: str) -> str:
    """Return the beginning of an invalid address, quoted; everything before an `@` may be a password."""
    shown = mask_rejected(given)
    return repr(shown[:_SHOWN_CHARACTERS]) + ("…" if len(shown) > _SHOWN_CHARACTERS else "")


def mask_rejected(given: str) -> str:
    """Return an address that `normalize_url` rejects with everything before its last `@` masked."""
    return _BEFORE_AT_SIGN.sub(rf"\g<1>{_MASK}@", given)


def mask_userinfo(url: str) -> str:
    """Return a URL with user name and password masked: `https://•••@host/feed`.

    The user name is masked too: some sites use it as an access key.
    """
    return _USERINFO.sub(rf"\g<1>{_MASK}@", url)


def drop_userinfo(url: str) -> str:
    """Return a URL without user name and password: `https://host/feed`."""
    return _USERINFO.sub(r"\g<1>", url)


def host_of(url: str) -> str:
    """Return host and port, to which rate limits apply."""
    return urlsplit(url).netloc.rpartition("@")[2]
