"""What a feed reader gets to see of a subscription: the same in every format, and never the markup of a post."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tidings.store.rows import StoredMatch
from tidings.text.sanitize import clean_link

_NAMESPACE = uuid.UUID("7c1d3c1e-5d0e-4f0e-9b57-6f1f2c1d7d05")  # drawn once, for the ids of entries
_TITLE_CHARACTERS = 100
_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """One match. ``id`` is the same whenever and however it is told; ``text`` is text, not HTML."""

    id: str
    title: str
    text: str
    link: str | None
    author: str | None
    tags: tuple[str, ...]
    published: datetime
    arrived: datetime


@dataclass(frozen=True, slots=True)
class Document:
    """The newest matches of a subscription, the newest first. ``address`` is that of the document itself."""

    id: str
    title: str
    address: str
    home: str
    updated: datetime
    entries: tuple[Entry, ...]


def document(
    subscription: int, query: str, matches: Iterable[StoredMatch], address: str, home: str, updated_at: float
) -> Document:
    """The document of these matches, which are given the oldest first."""
    entries = tuple(_entry(subscription, match) for match in matches)[::-1]
    title = legal(f"Tidings: {query}")
    return Document(_identity(str(subscription)), title, address, home, _moment(updated_at), entries)


def _entry(subscription: int, match: StoredMatch) -> Entry:
    text = legal(match.text or "")
    kind = "number" if isinstance(match.post_id, int) else "text"
    arrived = _moment(match.arrived_at)
    return Entry(
        id=_identity(f"{subscription}/{kind}/{match.post_id}"),
        title=legal(match.title or "") or _shortened(text) or "(no text)",
        text=text,
        link=clean_link(match.link) if match.link else None,
        author=legal(match.author) if match.author else None,
        tags=tuple(legal(tag) for tag in match.tags),
        published=said_at(match.time) or arrived,
        arrived=arrived,
    )


def legal(text: str) -> str:
    """The text without what an XML document may not hold, or would not give back as it was."""
    return _NOT_XML.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def _identity(name: str) -> str:
    return uuid.uuid5(_NAMESPACE, name).urn


def _shortened(text: str) -> str:
    line = " ".join(text[: _TITLE_CHARACTERS * 4].split())
    return line if len(line) <= _TITLE_CHARACTERS else line[: _TITLE_CHARACTERS - 1].rstrip() + "…"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def said_at(time: str | None) -> datetime | None:
    """When a post says it was written: ISO 8601, seconds since 1970, or as in e-mail; None for anything else."""
    for read in (_from_iso, _from_seconds, parsedate_to_datetime) if time else ():
        try:
            found = read(str(time))
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
        except (ValueError, OverflowError, TypeError, OSError):
            continue
    return None


def _from_iso(time: str) -> datetime:
    if time.isdigit():
        raise ValueError("seconds; 20260101 would be one too, and is rarer")
    return datetime.fromisoformat(time)


def _from_seconds(time: str) -> datetime:
    return datetime.fromtimestamp(float(time), UTC)
