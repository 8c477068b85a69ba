"""Compare what a service stored during failures with what it acknowledged: nothing lost, duplicated or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidings.matching.brute_force import evaluate
from tidings.query.parse import parse
from tidings.store import Store
from tidings.testing.fault_load import ARTICLES_PER_FEED, CRAWL_MARKER, MARKER, Post
from tidings.text.reference_analyzer import analyze

_STORED = """SELECT m.subscription, p.id, coalesce(p.title, p.text), count(*)
    FROM match m JOIN post p ON p.number = m.post GROUP BY m.subscription, p.id, coalesce(p.title, p.text)"""
_SUBSCRIPTIONS = "SELECT id, query, removed_at FROM subscription"
_EXAMPLES = 3  # per problem

Pair = tuple[int, str]


@dataclass
class FaultOutcome:
    """What was published and acknowledged, and what receivers of webhooks got."""

    pool: Sequence[Post]
    texts: Mapping[str, int]  # post id → row of the pool; also of posts that were not acknowledged
    acknowledged: Collection[str]
    final: Collection[str]  # posts after the last change of subscriptions: every live subscription must see them
    stable: Mapping[int, str]  # subscriptions that exist all the time, with their queries
    feeds: Sequence[int]
    delivered: Sequence[str] = ()
    bodies: Mapping[str, set[bytes]] = field(default_factory=dict)
    matches: int = 0
    problems: list[str] = field(default_factory=list)

    def expected_articles(self) -> set[str]:
        """Return the titles of all articles of acknowledged feeds."""
        numbers = range(ARTICLES_PER_FEED)
        return {f"{CRAWL_MARKER} article {feed}-{number}" for feed in self.feeds for number in numbers}


def find_problems(store: Store, outcome: FaultOutcome) -> list[str]:
    """Return a sentence per problem in the store of a service that has stopped; set the number of matches."""
    stored, titles = _read_matches(store)
    subscriptions = store.database.fetch(_SUBSCRIPTIONS)
    unfinished = sum(batch.state != "done" for batch in store.batches.recent(limit=1_000_000))
    outcome.matches = sum(stored.values())
    hits = _Hits(outcome.pool, {id_: query for id_, query, _ in subscriptions})
    live = {id_ for id_, _, removed_at in subscriptions if removed_at is None}
    problems = [
        *_compare(stored, hits, outcome, live),
        *_compare_articles(outcome, titles),
        *_compare_webhooks(outcome),
    ]
    return [*problems, f"{unfinished} batches are unfinished"] if unfinished else problems


def _read_matches(store: Store) -> tuple[Counter[Pair], Counter[tuple[int, str]]]:
    """Return the number of matches by (subscription, post id), and of crawled articles by (subscription, title)."""
    posts, articles = Counter[Pair](), Counter[tuple[int, str]]()
    for subscription, id_, title, count in store.database.fetch(_STORED):
        if title.startswith(CRAWL_MARKER):
            articles[subscription, title] += count
        else:
            posts[subscription, id_] += count
    return posts, articles


class _Hits:
    """Which rows of the pool a subscription matches, by brute force."""

    def __init__(self, pool: Sequence[Post], queries: Mapping[int, str]) -> None:
        self._posts = [(analyze(f"{row['text']} {MARKER}"), row.get("lat"), row.get("lon")) for row in pool]
        self._queries = queries
        self._rows: dict[int, set[int]] = {}

    def rows(self, subscription: int) -> set[int]:
        if subscription not in self._rows:
            query = parse(self._queries[subscription])
            self._rows[subscription] = {
                row for row, (text, lat, lon) in enumerate(self._posts) if evaluate(query, text, lat, lon)
            }
        return self._rows[subscription]


def _compare(stored: Counter[Pair], hits: _Hits, outcome: FaultOutcome, live: set[int]) -> Iterator[str]:
    texts, known = outcome.texts, {pair: count for pair, count in stored.items() if pair[1] in outcome.texts}
    yield from _report("stored more than once", [pair for pair, count in stored.items() if count > 1])
    yield from _report("wrong", [pair for pair in known if texts[pair[1]] not in hits.rows(pair[0])])
    expected = (
        (subscription, post)
        for subscriptions, posts in ((outcome.stable, outcome.acknowledged), (live, outcome.final))
        for subscription in subscriptions
        for post in posts
        if texts[post] in hits.rows(subscription)
    )
    yield from _report("missing", sorted({pair for pair in expected if pair not in stored}))


def _compare_articles(outcome: FaultOutcome, titles: Counter[tuple[int, str]]) -> Iterator[str]:
    crawl = next(id_ for id_, query in outcome.stable.items() if query == CRAWL_MARKER)
    found = Counter({title: count for (subscription, title), count in titles.items() if subscription == crawl})
    yield from _report("articles are missing", sorted(outcome.expected_articles() - set(found)))
    yield from _report("articles are stored more than once", [title for title, count in found.items() if count > 1])


def _compare_webhooks(outcome: FaultOutcome) -> Iterator[str]:
    yield from _report("not delivered", sorted(set(outcome.acknowledged) - set(outcome.delivered)))
    counts = Counter(outcome.delivered)
    yield from _report("in two messages", [post for post, count in counts.items() if count > 1])
    yield from _report("messages with two bodies", [id_ for id_, bodies in outcome.bodies.items() if len(bodies) > 1])


def _report(what: str, cases: Sequence[object]) -> Iterator[str]:
    if cases:
        yield f"{len(cases)} {what}: {', '.join(map(str, cases[:_EXAMPLES]))}"
