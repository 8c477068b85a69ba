"""Turn the fields of an article, as a format has them, into plain text, absolute links, dates and tags."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin

from tidings.crawl.article import MAX_ID, MAX_NAME, MAX_TAG, MAX_TAGS, MAX_TEXT, MAX_TITLE, Article
from tidings.text.sanitize import clean_link, clean_text, html_to_text, truncate

_ABSOLUTE = ("https://", "http://")
_MAIL = re.compile(r"\S+@\S+ \((.+)\)")  # authors in RSS: mail (name)
_ZERO_YEAR = re.compile(r"(?:^|\s)0\d{3}(?=[\s-])")  # placeholder for no date; Python reads it as about 2000
_MONTHS = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
_RFC_822 = re.compile(  # the format of nearly all dates in RSS
    r"(?:[A-Z][a-z]{2}, )?(\d\d?) ([A-Z][a-z]{2}) ([12]\d{3}) (\d\d):(\d\d):(\d\d) "
    r"(?:GMT|UTC|([+-](?:0\d|1[0-4]))([0-5]\d))",
    re.ASCII,
)
_SLASHES = re.compile(r"(\d{4})/(\d\d?)/(\d\d?) (\d\d?):(\d\d):(\d\d)", re.ASCII)
_EARLIEST, _LATEST = 0.0, 4_102_444_800.0  # 1970 to 2100; other dates are errors


@dataclass(slots=True)
class RawArticle:
    """An article as its format has it. Texts may be HTML if `is_html`."""

    guid: str = ""
    link: str = ""
    title: str = ""
    text: str = ""
    author: str = ""
    published: str = ""
    published_at: float | None = None
    tags: list[str] = field(default_factory=list)
    is_html: bool = True
    title_is_html: bool = True


def clean_article(raw: RawArticle, base: str) -> Article:
    """Return the article without markup, with links resolved against the URL of its feed."""
    return Article(
        guid=to_single_line(raw.guid, MAX_ID, False),
        link=web_link(raw.link, base),
        title=to_single_line(raw.title, MAX_TITLE, raw.title_is_html),
        text=to_plain_text(raw.text, MAX_TEXT, raw.is_html),
        author=to_single_line(_MAIL.sub(r"\1", raw.author) if "@" in raw.author else raw.author, MAX_NAME, True),
        published_at=parse_date(raw.published) if raw.published_at is None else _plausible(raw.published_at),
        tags=_clean_tags(raw.tags),
    )


def to_plain_text(text: str, longest: int, is_html: bool) -> str:
    """Return plain text of at most `longest` characters; HTML is converted to what a browser shows."""
    if is_html and ("<" in text or "&" in text):
        return truncate(html_to_text(text), longest)
    return clean_text(text.strip(), longest)


def to_single_line(text: str, longest: int, is_html: bool) -> str:
    """Return plain text on one line."""
    return " ".join(to_plain_text(text, longest, is_html).split())


def web_link(link: str, base: str) -> str:
    """Resolve a link in a document at `base`; return an empty string if it is not http(s)."""
    bare = link.strip()
    if not bare:
        return ""
    try:
        return clean_link(bare if bare.startswith(_ABSOLUTE) else urljoin(base, bare)) or ""
    except ValueError:
        return ""


def _clean_tags(tags: list[str]) -> tuple[str, ...]:
    cleaned = dict.fromkeys([to_single_line(tag, MAX_TAG, True) for tag in tags[:MAX_TAGS]])
    return tuple(tag for tag in cleaned if tag)


def parse_date(text: str) -> float | None:
    """Parse a date of RSS (RFC 822) or Atom (ISO 8601) into seconds since 1970, UTC if it has no zone; else None."""
    text = text.strip()
    if (parts := _RFC_822.fullmatch(text)) and parts[2] in _MONTHS:
        day, month, year, hour, minute, second, offset_hours, offset_minutes = parts.groups()
        offset_s = int(offset_hours) * 3_600 + int(f"{offset_hours[0]}{offset_minutes}") * 60 if offset_hours else 0
        return _to_timestamp(offset_s, int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second))
    if parts := _SLASHES.fullmatch(text):
        return _to_timestamp(0, *map(int, parts.groups()))
    return parse_any_date(text)


def parse_ttl(minutes: str) -> float:
    """Return the `ttl` of RSS in seconds, 0 if it is not a plausible number of minutes."""
    return float(minutes) * 60 if minutes.isascii() and minutes.isdigit() and len(minutes) < 9 else 0.0


def _to_timestamp(offset_s: int, *parts: int) -> float | None:
    try:
        return _plausible(datetime(*parts, tzinfo=UTC).timestamp() - offset_s)  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def parse_any_date(text: str) -> float | None:
    """Parse a date in any format that Python supports; slower than `parse_date`."""
    if _ZERO_YEAR.search(text):
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime) if text[:4].isdigit() else (parsedate_to_datetime,):
        try:
            date = read(text)
            return _plausible((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _plausible(at: float) -> float | None:
    return at if _EARLIEST < at < _LATEST else None
