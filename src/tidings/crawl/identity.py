"""Which articles of a document are new, which changed, which are known: by evidence, the strongest first.

A feed may give its articles new guids every time, move all its links, or write one guid under all of them. So an
article is known by several keys: its guid; its link with its title or date; its title and date. A key that two articles
of one document share identifies nothing in it, and neither does a link to the front page. An article that no key
connects with a known one is new; one that is known and says something else is an update.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson

from tidings.crawl.article import Article

MAX_KNOWN = 1_000  # articles remembered that are no longer in the document; some feeds bring old ones back
MAX_KEYS = 12  # of one article
_TRACKING = ("utm_", "fbclid", "gclid", "mc_cid", "mc_eid", "cmpid")
_STRENGTH = {kind: place for place, kind in enumerate("glndtx")}  # of evidence: see `_evidence`
_PLAIN_LINK = re.compile(r"https?://([A-Za-z0-9.-]+)((?:/[A-Za-z0-9%/:@!$&'()*+,;=~_.-]*)?)")


@dataclass(frozen=True, slots=True)
class KnownArticle:
    """What is remembered of an article: a hash of what it says, when it was last in the document, its keys."""

    said: str
    seen_at: int
    keys: tuple[str, ...]


class NewArticle(NamedTuple):
    """An article to go on, and a name for it that is the same whenever it is found in this document."""

    article: Article
    name: str


@dataclass(frozen=True, slots=True)
class News:
    """What a document brought. ``is_torn``: none of its articles was known though others were: some may be missed."""

    new: tuple[NewArticle, ...]
    updated: int
    known: tuple[KnownArticle, ...]
    is_torn: bool


def news(known: Sequence[KnownArticle], articles: Iterable[Article], site: str, now: float) -> News:
    """Hold a document against what is known; the newest evidence is remembered."""
    listed = list(dict.fromkeys(articles))
    keys = _usable(listed, site)
    claimed = _claims(known, keys)
    owners = {owner: place for place, owner in claimed.items()}
    kept = [one for place, one in enumerate(known) if place not in owners][-MAX_KNOWN:]
    current = [
        _remembered(known[claimed[place]] if place in claimed else None, article, keys[place], now)
        for place, article in enumerate(listed)
    ]
    updated = sum(known[owner].said != current[place].said for place, owner in claimed.items())
    new = tuple(NewArticle(one, _digest(*keys[n])) for n, one in enumerate(listed) if n not in claimed)
    return News(new, updated, (*kept, *current), bool(known and listed and not claimed))


def _remembered(before: KnownArticle | None, article: Article, keys: tuple[str, ...], now: float) -> KnownArticle:
    old = before.keys if before is not None else ()
    return KnownArticle(_said(article), int(now), tuple(dict.fromkeys(keys + old))[:MAX_KEYS])


def _usable(articles: Sequence[Article], site: str) -> list[tuple[str, ...]]:
    """The keys of each article that no other of the document has, the strongest first; never none."""
    evidence = [_evidence(one, site) for one in articles]
    counts = Counter(key for keys in evidence for key in keys)
    own = [tuple(key for key in keys if counts[key] == 1) for keys in evidence]
    return [keys or ("x" + _digest(repr(article)),) for keys, article in zip(own, articles, strict=True)]


def _claims(known: Sequence[KnownArticle], keys: Sequence[tuple[str, ...]]) -> dict[int, int]:
    """Which known article each article is; no two are the same one. Stronger evidence goes first."""
    where = {key: place for place, one in enumerate(known) for key in one.keys}
    found = [(_STRENGTH[key[0]], place, where[key]) for place, mine in enumerate(keys) for key in mine if key in where]
    claimed: dict[int, int] = {}
    taken: set[int] = set()
    for _, place, owner in sorted(found):
        if place not in claimed and owner not in taken:
            claimed[place] = owner
            taken.add(owner)
    return claimed


def _evidence(article: Article, site: str) -> tuple[str, ...]:
    """All that may identify it: guid, link alone (l), with title (n) or date (d), title and date, or (x) the text."""
    link = same_link(article.link)
    specific = link if link not in ("", same_link(site)) and "/" in link else ""
    title, date = article.title.casefold(), "" if article.published_at is None else f"{article.published_at:.0f}"
    guid = same_link(article.guid) if "://" in article.guid else article.guid
    told = (
        ("g", (guid,)),
        ("l", (specific,) if not article.guid else ("",)),
        ("n", (specific, title)),
        ("d", (specific, date)),
        ("t", (title, date)),
        ("x", (title, article.text) if not date else ("",)),
    )
    return tuple([kind + _digest(*parts) for kind, parts in told if all(parts)])


@lru_cache(maxsize=4_096)  # guids are links more often than not
def same_link(link: str) -> str:
    """A link as it survives a move to https, from or to www, and the marks of who counts readers."""
    if plain := _PLAIN_LINK.fullmatch(link):
        return plain[1].lower().removeprefix("www.") + plain[2].rstrip("/")
    return any_same_link(link)


def any_same_link(link: str) -> str:
    """`same_link` of a link that may be anything."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return link
    host = parts.netloc.lower().removeprefix("www.")
    asked = urlencode([pair for pair in parse_qsl(parts.query, True) if not pair[0].lower().startswith(_TRACKING)])
    return "".join((host, parts.path.rstrip("/"), asked and f"?{asked}", parts.fragment and f"#{parts.fragment}"))


def _said(article: Article) -> str:
    """A hash of what an article says. Some feeds date all articles anew each time, so its date is no part of it."""
    return _digest(article.link, article.title, article.text, article.author, *article.tags)


def _digest(*parts: str) -> str:
    return blake2b("\x00".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def packed(known: Iterable[KnownArticle]) -> str:
    """As the store keeps them."""
    return orjson.dumps([(one.said, one.seen_at, *one.keys) for one in known]).decode()


def unpacked(text: str) -> tuple[KnownArticle, ...]:
    """As they were packed."""
    return tuple(KnownArticle(said, seen_at, tuple(keys)) for said, seen_at, *keys in orjson.loads(text or "[]"))
