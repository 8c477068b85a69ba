"""Turn the fields of an article, as a format has them, into plain text, absolute links, dates and tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from urllib.parse import urljoin

from tidings.crawl.article import (
    MAX_ARTICLES,
    MAX_ID,
    MAX_NAME,
    MAX_TAG,
    MAX_TAGS,
    MAX_TEXT,
    MAX_TITLE,
    Article,
)
from tidings.crawl.dates import is_plausible, parse_date
from tidings.crawl.mojibake import repair_mojibake
from tidings.text.sanitize import MAX_LINK_CHARS, clean_link, clean_text, html_to_text, truncate

WEB = ("https://", "http://")
_RAW_CHARACTERS_PER_CHARACTER = 20  # HTML is longer than its text; more than this is not converted
_MAX_RAW_ID = 4 * MAX_ID
_CLOSING_TAG = re.compile(
    r"</(?:[abipsu]|em|strong|div|section|article|span|[uo]l|li|h[1-6]|blockquote|table|code|pre|figure)>",
    re.IGNORECASE,
)
_EMPTY_TAG = re.compile(r"<(?:br|hr|img|p)\b[^<>]{0,2000}>", re.IGNORECASE)
_ENTITY = re.compile(r"&(?:#[0-9]{2,7}|#[xX][0-9a-fA-F]{2,6}|[A-Za-z][A-Za-z0-9]{1,31});")


@dataclass(slots=True)
class RawArticle:
    """An article as its format has it. Texts may be HTML if `is_html`."""

    guid: str = ""
    link: str = ""
    title: str = ""
    text: str = ""
    author: str = ""
    dates: Sequence[str | float] = ()
    """When it was published, as text or in seconds since 1970; the first valid date counts."""
    tags: list[str] = field(default_factory=list)
    is_html: bool = True
    title_is_html: bool = True
    base: str = ""
    """URL that links are relative to; empty for that of the feed."""


def clean_articles(raw_articles: Iterable[RawArticle], base: str) -> tuple[Article, ...]:
    """Return the articles that have any content, without markup, with links resolved against `base`."""
    cleaned = (clean_article(raw, raw.base or base) for raw in islice(raw_articles, MAX_ARTICLES))
    return tuple([article for article in cleaned if article.guid or article.link or article.title or article.text])


def explain_no_posts(articles: Sequence[Article], reason: str, items: int) -> str:
    """Return why a feed gives no posts: it has no items (the reason), or none with content; else an empty string."""
    if any(article.text or article.title or article.link for article in articles):
        return ""
    if articles:
        return f"no posts: all {items:,} items have neither text nor title nor link"
    return f"no items: {f'all {items:,} items are empty' if items else reason}"


def clean_article(raw: RawArticle, base: str) -> Article:
    """Return one article without markup."""
    return Article(
        guid=" ".join(clean_text(raw.guid[:_MAX_RAW_ID].strip(), MAX_ID).split()),  # not repaired: it is a key
        link=web_link(repair_mojibake(raw.link), base),
        title=to_single_line(raw.title, MAX_TITLE, raw.title_is_html),
        text=to_plain_text(raw.text, MAX_TEXT, raw.is_html),
        author=_drop_mail(to_single_line(raw.author, MAX_NAME, True)),
        published_at=_first_date(raw.dates),
        tags=_clean_tags(raw.tags),
    )


def to_plain_text(text: str, longest: int, is_html: bool) -> str:
    """Return plain text of at most `longest` characters; HTML is converted to what a browser shows."""
    text = repair_mojibake(text[: longest * _RAW_CHARACTERS_PER_CHARACTER])
    if is_html and ("<" in text or "&" in text):
        return truncate(repair_mojibake(html_to_text(text)), longest)
    return clean_text(text.strip(), longest)


def looks_like_html(text: str) -> bool:
    """Return whether text of no declared type has tags or entities of HTML."""
    return bool(_CLOSING_TAG.search(text) or _EMPTY_TAG.search(text) or _ENTITY.search(text))


def to_single_line(text: str, longest: int, is_html: bool) -> str:
    """Return plain text on one line."""
    return " ".join(to_plain_text(text, longest, is_html).split())


def web_link(link: str, base: str) -> str:
    """Resolve a link in a document at `base`; return an empty string if it is not http(s)."""
    bare = link.strip()
    if not bare or len(bare) > MAX_LINK_CHARS:
        return ""
    try:
        return clean_link(bare if bare.startswith(WEB) else urljoin(base, bare)) or ""
    except ValueError:
        return ""


def _first_date(dates: Iterable[str | float]) -> float | None:
    for date in dates:
        at = parse_date(date) if isinstance(date, str) else date
        if at is not None and is_plausible(at):
            return at
    return None


def _drop_mail(author: str) -> str:
    """Return the name of an RSS author, who is written as `mail (name)`."""
    mail, parenthesis, name = author.partition(" (")
    return (
        name[:-1] if parenthesis and "@" in mail and " " not in mail and len(name) > 1 and name[-1] == ")" else author
    )


def _clean_tags(tags: list[str]) -> tuple[str, ...]:
    cleaned = dict.fromkeys([to_single_line(tag, MAX_TAG, True) for tag in tags[:MAX_TAGS]])
    return tuple(tag for tag in cleaned if tag)


def parse_ttl(minutes: str) -> float:
    """Return the `ttl` of RSS in seconds, 0 if it is not a plausible number of minutes."""
    return float(minutes) * 60 if minutes.isascii() and minutes.isdigit() and len(minutes) < 9 else 0.0
