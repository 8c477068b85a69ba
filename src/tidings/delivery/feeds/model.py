"""The content of a feed document, the same in every format. Posts are plain text, never markup."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tidings.store.rows import StoredMatch
from tidings.text.sanitize import clean_link

_NAMESPACE = uuid.UUID("7c1d3c1e-5d0e-4f0e-9b57-6f1f2c1d7d05")  # a random constant, for the ids of entries
_TITLE_CHARACTERS = 100
_MAX_TIME_CHARACTERS = 100
_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One match. Its ``id`` never changes and is the same in all formats; ``text`` is plain text, not HTML."""

    id: str
    title: str
    text: str
    link: str | None
    author: str | None
    tags: tuple[str, ...]
    published: datetime
    """When the post was written or, if that is not known, when it arrived."""


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """The newest matches of a subscription, newest first. ``address`` is the URL of the document itself."""

    id: str
    title: str
    address: str
    home: str
    updated: datetime
    entries: tuple[FeedEntry, ...]


def build_document(
    subscription: int, query: str, matches: Iterable[StoredMatch], address: str, home: str, updated_at: float
) -> FeedDocument:
    """Return the document of these matches, which are given oldest first."""
    entries = tuple(_to_entry(subscription, match) for match in matches)[::-1]
    title = replace_illegal_xml(f"Tidings: {query}")
    return FeedDocument(_to_urn(str(subscription)), title, address, home, _to_datetime(updated_at), entries)


def _to_entry(subscription: int, match: StoredMatch) -> FeedEntry:
    text = replace_illegal_xml(match.text or "")
    kind = "number" if isinstance(match.post_id, int) else "text"
    return FeedEntry(
        id=_to_urn(f"{subscription}/{kind}/{match.post_id}"),
        title=replace_illegal_xml(match.title or "") or _shorten(text) or "(no text)",
        text=text,
        link=clean_link(match.link) if match.link else None,
        author=replace_illegal_xml(match.author) if match.author else None,
        tags=tuple(replace_illegal_xml(tag) for tag in match.tags),
        published=parse_post_time(match.time) or _to_datetime(match.arrived_at),
    )


def replace_illegal_xml(text: str) -> str:
    """Replace characters that XML does not allow or does not preserve."""
    return _NOT_XML.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def _to_urn(name: str) -> str:
    return uuid.uuid5(_NAMESPACE, name).urn


def _shorten(text: str) -> str:
    line = " ".join(text[: _TITLE_CHARACTERS * 4].split())
    return line if len(line) <= _TITLE_CHARACTERS else line[: _TITLE_CHARACTERS - 1].rstrip() + "…"


def _to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def parse_post_time(time: str | None) -> datetime | None:
    """Parse the time of a post: ISO 8601, seconds since 1970, or an e-mail date; return None for other texts."""
    for parse in (_from_iso, _from_seconds, parsedate_to_datetime) if time else ():
        try:
            parsed = parse(str(time)[:_MAX_TIME_CHARACTERS])
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
        except (ValueError, OverflowError, TypeError, OSError):
            continue
    return None


def _from_iso(time: str) -> datetime:
    if time.isdigit():
        raise ValueError("seconds since 1970; a compact date such as 20260101 is rarer")
    return datetime.fromisoformat(time)


def _from_seconds(time: str) -> datetime:
    return datetime.fromtimestamp(float(time), UTC)
