"""Emerging topics: weeks of which it is known what happened; where that stands among the stories, and why."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.correlate import wire
from tidings.correlate.coefficients import Coefficients, coefficients_of
from tidings.correlate.reference_topology import correlate
from tidings.correlate.settings import Settings
from tidings.correlate.story_samples import telling
from tidings.correlate.tag_parser import Parser
from tidings.correlate.trends import PAST, Emerging, Story, trends
from tidings_lab import datasets
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.tagged_posts import STAMP, TaggedTable, generated, load_tagged

_TWEETS = "tweets.parquet"
_SAMPLES, _TEXT = 3, 200
_NOWHERE = 10**6  # the rank of an event that is not found
_MADE = ("planted", "event")


class Week(NamedTuple):
    """An event, its tags, the tagged posts until the end of its week, when that is, and how long weeks are."""

    name: str
    event: str
    tags: set[str]
    posts: TaggedTable
    start_us: int
    length_us: int


def steps(parameters: Parameters) -> int:
    return len(parameters["weeks"])


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    posts = load_tagged(None, seed, parameters["made"])
    return {"posts": len(posts), "source": posts.source, "note": ""}


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """For each week: where its event stands, the counts of its lead week by week, the other stories, some posts."""
    for week in _weeks(parameters, seed):
        found = _correlated(week, parameters["partitions"])
        stories = trends(found, None, None, parameters["top"])
        yield week.event, list(_rows(week, found, stories, parameters["shown"]))


def _weeks(parameters: Parameters, seed: int) -> Iterator[Week]:
    """Of the real posts; where there are none, as many made-up ones with an event planted at their end."""
    whole = load_tagged(None, seed, parameters["made"])
    is_real = not whole.source.startswith("generated")
    day = 86_400 * 10**6
    for number, told in enumerate(parameters["weeks"]):
        if is_real:
            start = int(dt.datetime.fromisoformat(f"{told['week']}T00:00:00+00:00").timestamp() * 10**6)
            some = _between(whole, start - PAST * 7 * day, start + 7 * day)
            yield Week(told["week"], told["event"], set(told["tags"]), some, start, 7 * day)
        else:
            length = len(whole) // (PAST + 1) * 10**6
            table = _planted(generated(len(whole), seed + number), PAST * length)
            made = TaggedTable(table, whole.source)
            yield Week(told["week"], f"made up, {number}", set(_MADE), made, PAST * length, length)


def _between(posts: TaggedTable, first_us: int, last_us: int) -> TaggedTable:
    times = posts.table["time"].cast(STAMP)
    bounds = (pa.scalar(at, STAMP) for at in (first_us, last_us))
    inside = pc.and_(pc.greater_equal(times, next(bounds)), pc.less(times, next(bounds)))
    return TaggedTable(posts.table.filter(inside).combine_chunks(), posts.source)


def _planted(table: pa.Table, since_us: int) -> pa.Table:
    """Every tenth post from then on has two tags more."""
    late = table["time"].cast(pa.int64()).to_numpy() >= since_us
    lists = table["tags"].to_pylist()
    for row in np.flatnonzero(late)[::10].tolist():
        lists[row] = [*lists[row], *_MADE]
    return table.set_column(1, "tags", pa.array(lists))


def _correlated(week: Week, partitions: int) -> Coefficients:
    chosen = Settings(week.length_us, week.length_us, partitions)
    posts, names = week.posts.parsed_with_names()
    reports = correlate(posts, chosen).reports
    return coefficients_of(pa.Table.from_batches([wire.spelt(reports, names, chosen.slide_us, chosen.panes)]))


def _rows(week: Week, found: Coefficients, stories: list[Story], shown: int) -> Iterator[Row]:
    about: Row = {"week": week.name, "event": week.event}
    place = next((at for at, story in enumerate(stories) if week.tags <= set(story.tags)), None)
    for rank, story in enumerate(stories[:shown], 1):
        yield {"kind": "story", **about, "rank": rank, **_why(story.lead)}
    if place is None:
        yield {"kind": "event", **about, "rank": _NOWHERE}
        return
    story = stories[place]
    yield {"kind": "event", **about, "rank": place + 1, "tags": " ".join(story.tags[:6]), **_why(story.lead)}
    came = {"came": story.lead.support, "expected": story.lead.predicted * story.lead.union}
    yield from ({"kind": "why", **about, "series": name, "posts": max(1.0, count)} for name, count in came.items())
    yield from ({"kind": "past", **about, **row} for row in _past(found, story.lead, week.length_us))
    yield from ({"kind": "post", **about, "post": post} for post in _samples(story))


def _why(lead: Emerging) -> Mapping[str, Any]:
    expected = lead.predicted * lead.union
    counts = {"support": lead.support, "union": lead.union, "expected": round(expected, 1)}
    return {"lead": " + ".join(lead.tags), **counts, "score": round(lead.score, 1)}


def _past(found: Coefficients, lead: Emerging, length_us: int) -> Iterator[Row]:
    """The counts of the lead's tags in its window and those before; none were reported where there were too few."""
    rows = np.flatnonzero(found.ends_us == lead.window_end_us).tolist()
    (now,) = [row for row in rows if found.tags_of(row) == lead.tags]
    for back in range(PAST + 1):
        same = (found.ends_us == lead.window_end_us - back * length_us) & (found.sets == found.sets[now])
        support, jaccard = (float(one[same].sum()) for one in (found.support, found.jaccard))
        yield {"weeks from it": -back, "support": support, "jaccard": jaccard}


def _samples(story: Story) -> list[str]:
    """The beginning of some posts with all tags of the lead; none where there are no real ones."""
    folder = datasets.data_folder()
    if folder is None or not (folder / _TWEETS).is_file():
        return []
    table = pq.read_table(folder / _TWEETS, columns=["time", "text"])
    written = table["time"].cast(STAMP).cast(pa.int64()).to_numpy()
    inside = np.flatnonzero((written >= story.lead.window_start_us) & (written < story.lead.window_end_us))
    some = table["text"].take(pa.array(inside)).combine_chunks()
    parsed = Parser().parse(pa.record_batch([pa.array(written[inside]), some], ["time", "text"]))
    texts = some.take(pa.array(telling(parsed, story)[:_SAMPLES])).to_pylist()
    return [" ".join(text[:_TEXT].split()) for text in texts]
