"""Decide which articles of a document are new, changed or known, by several keys, the strongest first.

A feed may change its guids at every visit, move all its links, or use one guid for all articles. So an article has
several keys: its guid; its link with its title or date; its title and date. A key that two articles of a document share
is ignored, and so is a link to the front page. An article without a key of a known article is new; a known article with
other content is an update.
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

MAX_KNOWN = 1_000  # remembered articles that left the document; some feeds bring old ones back
MAX_KEYS = 12  # per article
_TRACKING = ("utm_", "fbclid", "gclid", "mc_cid", "mc_eid", "cmpid")
_STRENGTH = {kind: position for position, kind in enumerate("glndtx")}  # of keys: see `_keys_of`
_PLAIN_LINK = re.compile(r"https?://([A-Za-z0-9.-]+)((?:/[A-Za-z0-9%/:@!$&'()*+,;=~_.-]*)?)")


@dataclass(frozen=True, slots=True)
class KnownArticle:
    """A remembered article: hash of its content, when it was last in the document, its keys."""

    content_hash: str
    seen_at: int
    keys: tuple[str, ...]


class NewArticle(NamedTuple):
    """A new article, with a name that is stable for this document."""

    article: Article
    name: str


@dataclass(frozen=True, slots=True)
class ArticleDiff:
    """Changes in a document. `has_gap`: no article is known although others were, so some may be missed."""

    new: tuple[NewArticle, ...]
    updated: int
    known: tuple[KnownArticle, ...]
    has_gap: bool


def diff_articles(known: Sequence[KnownArticle], articles: Iterable[Article], site: str, now: float) -> ArticleDiff:
    """Compare a document with the known articles; the newest keys are remembered."""
    listed = list(dict.fromkeys(articles))
    keys = _distinct_keys(listed, site)
    known_of = _match_known(known, keys)
    owners = {owner: position for position, owner in known_of.items()}
    kept = [article for position, article in enumerate(known) if position not in owners][-MAX_KNOWN:]
    current = [
        _remember(known[known_of[position]] if position in known_of else None, article, keys[position], now)
        for position, article in enumerate(listed)
    ]
    updated = sum(known[owner].content_hash != current[position].content_hash for position, owner in known_of.items())
    new = tuple(NewArticle(article, _digest(*keys[n])) for n, article in enumerate(listed) if n not in known_of)
    return ArticleDiff(new, updated, (*kept, *current), bool(known and listed and not known_of))


def _remember(before: KnownArticle | None, article: Article, keys: tuple[str, ...], now: float) -> KnownArticle:
    old = before.keys if before is not None else ()
    return KnownArticle(_hash_content(article), int(now), tuple(dict.fromkeys(keys + old))[:MAX_KEYS])


def _distinct_keys(articles: Sequence[Article], site: str) -> list[tuple[str, ...]]:
    """Return for each article the keys that no other article of the document has; at least one."""
    all_keys = [_keys_of(article, site) for article in articles]
    counts = Counter(key for keys in all_keys for key in keys)
    distinct = [tuple(key for key in keys if counts[key] == 1) for keys in all_keys]
    return [keys or ("x" + _digest(repr(article)),) for keys, article in zip(distinct, articles, strict=True)]


def _match_known(known: Sequence[KnownArticle], keys: Sequence[tuple[str, ...]]) -> dict[int, int]:
    """Return the known article of each article, each at most once; stronger keys first."""
    where = {key: position for position, article in enumerate(known) for key in article.keys}
    candidates = [
        (_STRENGTH[key[0]], position, where[key])
        for position, own_keys in enumerate(keys)
        for key in own_keys
        if key in where
    ]
    known_of: dict[int, int] = {}
    used: set[int] = set()
    for _, position, owner in sorted(candidates):
        if position not in known_of and owner not in used:
            known_of[position] = owner
            used.add(owner)
    return known_of


def _keys_of(article: Article, site: str) -> tuple[str, ...]:
    """Return all keys: guid (g), link alone (l), with title (n) or date (d), title and date (t), or text (x)."""
    link = normalize_link(article.link)
    specific = link if link not in ("", normalize_link(site)) and "/" in link else ""
    title, date = article.title.casefold(), "" if article.published_at is None else f"{article.published_at:.0f}"
    guid = normalize_link(article.guid) if "://" in article.guid else article.guid
    candidates = (
        ("g", (guid,)),
        ("l", (specific,) if not article.guid else ("",)),
        ("n", (specific, title)),
        ("d", (specific, date)),
        ("t", (title, date)),
        ("x", (title, article.text) if not date else ("",)),
    )
    return tuple([kind + _digest(*parts) for kind, parts in candidates if all(parts)])


@lru_cache(maxsize=4_096)  # most guids are links
def normalize_link(link: str) -> str:
    """Return a link without scheme, www and tracking parameters."""
    if plain := _PLAIN_LINK.fullmatch(link):
        return plain[1].lower().removeprefix("www.") + plain[2].rstrip("/")
    return normalize_any_link(link)


def normalize_any_link(link: str) -> str:
    """Normalize a link that `_PLAIN_LINK` does not match."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return link
    host = parts.netloc.lower().removeprefix("www.")
    query = urlencode([pair for pair in parse_qsl(parts.query, True) if not pair[0].lower().startswith(_TRACKING)])
    return "".join((host, parts.path.rstrip("/"), query and f"?{query}", parts.fragment and f"#{parts.fragment}"))


def _hash_content(article: Article) -> str:
    """Hash the content without the date: some feeds change the dates of all articles at every visit."""
    return _digest(article.link, article.title, article.text, article.author, *article.tags)


def _digest(*parts: str) -> str:
    return blake2b("\x00".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def pack_known(known: Iterable[KnownArticle]) -> str:
    """Return the articles as the store keeps them."""
    return orjson.dumps([(article.content_hash, article.seen_at, *article.keys) for article in known]).decode()


def unpack_known(text: str) -> tuple[KnownArticle, ...]:
    """Return the articles from the store."""
    return tuple(
        KnownArticle(content_hash, seen_at, tuple(keys)) for content_hash, seen_at, *keys in orjson.loads(text or "[]")
    )
