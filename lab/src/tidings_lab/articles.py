"""Articles as posts of the crawler: from the real feed documents if present, otherwise generated."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidings.crawl.article import NotAFeed, ParsedFeed
from tidings.crawl.decide import FeedVisit, VisitMemory, to_posts
from tidings.crawl.identity import NewArticle
from tidings.crawl.parse import parse
from tidings_lab import datasets
from tidings_lab.history import load_history

FEEDS = "feeds.zip"


@dataclass(frozen=True, slots=True)
class Articles:
    """Posts of distinct articles, and their source."""

    posts: list[dict[str, object]]
    source: str

    def texts(self, count: int) -> pa.Array:
        """Return `count` texts (title and text); articles repeat if there are fewer."""
        texts = [f"{post.get('title', '')} {post['text']}" for post in self.posts]
        return pa.array([texts[number % len(texts)] for number in range(count)], pa.large_string())

    def mean_bytes(self) -> float:
        """Return the mean size of an article as a line of the inbox."""
        lines = [json.dumps(post, ensure_ascii=False).encode() for post in self.posts]
        return sum(map(len, lines)) / len(lines)


def load_articles(seed: int) -> Articles:
    """Load the articles of the newest documents of the history, and of `feeds.zip` if present."""
    history = load_history(seed)
    documents = [feed.snapshots[-1].document for feed in history.feeds]
    folder, source = datasets.data_folder(), history.source
    if folder is not None and (folder / FEEDS).is_file():
        documents += list(_read_archive(folder / FEEDS))
        source += f", {FEEDS}"
    loaded = [post for number, document in enumerate(documents) for post in _posts(document, number)]
    return Articles(list({(post.get("title"), post["text"]): post for post in loaded}.values()), source)


def _read_archive(path: object) -> Iterator[bytes]:
    with zipfile.ZipFile(str(path)) as archive:
        for name in archive.namelist():
            if not name.endswith("/"):
                yield archive.read(name)


def _posts(body: bytes, number: int) -> Iterator[dict[str, object]]:
    """Yield the posts of a document; none if it cannot be parsed."""
    url = f"https://feed{number}.example/"
    try:
        document: ParsedFeed = parse(body, "", url)
    except (NotAFeed, RecursionError):
        return
    new = [NewArticle(article, f"{place:016}") for place, article in enumerate(document.articles)]
    yield from to_posts(FeedVisit(number, url, VisitMemory()), document, new, 0.0)
