"""Articles as the crawler makes posts of them: those of the real feed documents where they are, else made-up ones."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tidings.crawl.article import Document, NotAFeed
from tidings.crawl.decide import Asked, Memory, posts
from tidings.crawl.identity import NewArticle
from tidings.crawl.parse import parse
from tidings_lab import datasets
from tidings_lab.history import load_history

FEEDS = "feeds.zip"


@dataclass(frozen=True, slots=True)
class Articles:
    """Posts of articles, each once, and where they come from."""

    posts: list[dict[str, object]]
    source: str

    def texts(self, count: int) -> pa.Array:
        """What so many of them say, title and text; from the first again where there are fewer."""
        said = [f"{post.get('title', '')} {post['text']}" for post in self.posts]
        return pa.array([said[number % len(said)] for number in range(count)], pa.large_string())

    def mean_bytes(self) -> float:
        """Of an article as a line of the inbox."""
        lines = [json.dumps(post, ensure_ascii=False).encode() for post in self.posts]
        return sum(map(len, lines)) / len(lines)


def load_articles(seed: int) -> Articles:
    """Of the newest documents of the history, and of the single feed documents where these are."""
    history = load_history(seed)
    documents = [feed.snapshots[-1].document for feed in history.feeds]
    folder, source = datasets.data_folder(), history.source
    if folder is not None and (folder / FEEDS).is_file():
        documents += list(_zipped(folder / FEEDS))
        source += f", {FEEDS}"
    found = [post for number, document in enumerate(documents) for post in _posts(document, number)]
    return Articles(list({(post.get("title"), post["text"]): post for post in found}.values()), source)


def _zipped(path: object) -> Iterator[bytes]:
    with zipfile.ZipFile(str(path)) as archive:
        for name in archive.namelist():
            if not name.endswith("/"):
                yield archive.read(name)


def _posts(body: bytes, number: int) -> Iterator[dict[str, object]]:
    """Those of a document, if it can be read at all."""
    url = f"https://feed{number}.example/"
    try:
        document: Document = parse(body, "", url)
    except (NotAFeed, RecursionError):
        return
    new = [NewArticle(article, f"{place:016}") for place, article in enumerate(document.articles)]
    yield from posts(Asked(number, url, Memory()), document, new, 0.0)
