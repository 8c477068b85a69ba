"""An article as a format wrote it, before it is cleaned: the one place where texts, links, dates and tags are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin

from tidings.crawl.article import MAX_ID, MAX_NAME, MAX_TAG, MAX_TAGS, MAX_TEXT, MAX_TITLE, Article
from tidings.text.sanitize import clean_link, clean_text, cut, text_of_html

_WHOLE = ("https://", "http://")
_MAIL = re.compile(r"\S+@\S+ \((.+)\)")  # how RSS writes authors: mail (name)
_ZERO_YEAR = re.compile(r"(?:^|\s)0\d{3}(?=[\s-])")  # how some write that there is no date; to Python it is 2000 or so
_MONTHS = {name: number for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
_RFC_822 = re.compile(  # as nearly all of RSS is dated
    r"(?:[A-Z][a-z]{2}, )?(\d\d?) ([A-Z][a-z]{2}) ([12]\d{3}) (\d\d):(\d\d):(\d\d) "
    r"(?:GMT|UTC|([+-](?:0\d|1[0-4]))([0-5]\d))",
    re.ASCII,
)
_SLASHES = re.compile(r"(\d{4})/(\d\d?)/(\d\d?) (\d\d?):(\d\d):(\d\d)", re.ASCII)
_EARLIEST, _LATEST = 0.0, 4_102_444_800.0  # 1970 to 2100: other dates are mistakes


@dataclass(slots=True)
class Raw:
    """As written. Texts may be HTML where ``is_html`` says so."""

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


def cleaned(raw: Raw, base: str) -> Article:
    """The article without markup, links made whole from the address of its feed."""
    return Article(
        guid=one_line(raw.guid, MAX_ID, False),
        link=web_link(raw.link, base),
        title=one_line(raw.title, MAX_TITLE, raw.title_is_html),
        text=plain(raw.text, MAX_TEXT, raw.is_html),
        author=one_line(_MAIL.sub(r"\1", raw.author) if "@" in raw.author else raw.author, MAX_NAME, True),
        published_at=moment(raw.published) if raw.published_at is None else _sane(raw.published_at),
        tags=_tags(raw.tags),
    )


def plain(text: str, longest: int, is_html: bool) -> str:
    """Plain text; HTML is read, at least what a browser would show of so much of it."""
    if is_html and ("<" in text or "&" in text):
        return cut(text_of_html(text), longest)
    return clean_text(text.strip(), longest)


def one_line(text: str, longest: int, is_html: bool) -> str:
    """Plain text on one line."""
    return " ".join(plain(text, longest, is_html).split())


def web_link(link: str, base: str) -> str:
    """Where a link written in a document at `base` leads; empty if not to the web."""
    bare = link.strip()
    if not bare:
        return ""
    try:
        return clean_link(bare if bare.startswith(_WHOLE) else urljoin(base, bare)) or ""
    except ValueError:
        return ""


def _tags(tags: list[str]) -> tuple[str, ...]:
    found = dict.fromkeys([one_line(tag, MAX_TAG, True) for tag in tags[:MAX_TAGS]])
    return tuple(tag for tag in found if tag)


def moment(written: str) -> float | None:
    """A date of RSS (RFC 822) or Atom (ISO 8601) in seconds since 1970, UTC where no zone is told; else None."""
    text = written.strip()
    if (told := _RFC_822.fullmatch(text)) and told[2] in _MONTHS:
        day, month, year, hour, minute, second, ahead, more = told.groups()
        ahead_s = int(ahead) * 3_600 + int(f"{ahead[0]}{more}") * 60 if ahead else 0
        return _as_told(ahead_s, int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second))
    if told := _SLASHES.fullmatch(text):
        return _as_told(0, *map(int, told.groups()))
    return any_moment(text)


def _as_told(ahead_s: int, *parts: int) -> float | None:
    try:
        return _sane(datetime(*parts, tzinfo=UTC).timestamp() - ahead_s)  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def any_moment(text: str) -> float | None:
    """`moment` of a date that may be written in any way."""
    if _ZERO_YEAR.search(text):
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime) if text[:4].isdigit() else (parsedate_to_datetime,):
        try:
            found = read(text)
            return _sane((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
        except (ValueError, TypeError, OverflowError, IndexError):
            continue
    return None


def _sane(at: float) -> float | None:
    return at if _EARLIEST < at < _LATEST else None
