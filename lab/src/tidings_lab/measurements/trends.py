"""Emerging topics: the rank of known events among the stories of their week, and the counts behind it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidings.correlate import wire
from tidings.correlate.coefficients import Coefficients, parse_coefficients
from tidings.correlate.reference_topology import correlate
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.story_samples import find_story_posts
from tidings.correlate.tag_parser import TagParser
from tidings.correlate.trends import PAST_WINDOWS, EmergingTagSet, Story, find_trends
from tidings_lab import datasets
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row
from tidings_lab.tagged_posts import STAMP, TaggedTable, generate_tagged, load_tagged

_TWEETS = "tweets.parquet"
_SAMPLES, _TEXT = 3, 200
_NO_RANK = 10**6  # of an event that is not found
_PLANTED_TAGS = ("planted", "event")


class Week(NamedTuple):
    """An event, its tags, the posts until the end of its week, the start of the week and its length."""

    name: str
    event: str
    tags: set[str]
    posts: TaggedTable
    start_us: int
    length_us: int


def steps(parameters: Parameters) -> int:
    return len(parameters["weeks"])


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    posts = load_tagged(None, seed, parameters["generated"])
    return {"posts": len(posts), "source": posts.source, "note": ""}


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield per week: the rank of its event, weekly counts of its lead, the other stories, and sample posts."""
    for week in _weeks(parameters, seed):
        found = _correlate(week, parameters["partitions"])
        stories = find_trends(found, None, None, parameters["top"])
        yield week.event, list(_rows(week, found, stories, parameters["shown"]))


def _weeks(parameters: Parameters, seed: int) -> Iterator[Week]:
    """Yield weeks of the real posts, or of generated posts with an event planted at the end."""
    whole = load_tagged(None, seed, parameters["generated"])
    is_real = not whole.source.startswith("generated")
    day = 86_400 * 10**6
    for number, given in enumerate(parameters["weeks"]):
        if is_real:
            start = int(dt.datetime.fromisoformat(f"{given['week']}T00:00:00+00:00").timestamp() * 10**6)
            posts = _between(whole, start - PAST_WINDOWS * 7 * day, start + 7 * day)
            yield Week(given["week"], given["event"], set(given["tags"]), posts, start, 7 * day)
        else:
            length = len(whole) // (PAST_WINDOWS + 1) * 10**6
            table = _plant_event(generate_tagged(len(whole), seed + number), PAST_WINDOWS * length)
            planted = TaggedTable(table, whole.source)
            yield Week(given["week"], f"planted, {number}", set(_PLANTED_TAGS), planted, PAST_WINDOWS * length, length)


def _between(posts: TaggedTable, first_us: int, last_us: int) -> TaggedTable:
    times = posts.table["time"].cast(STAMP)
    bounds = (pa.scalar(at, STAMP) for at in (first_us, last_us))
    inside = pc.and_(pc.greater_equal(times, next(bounds)), pc.less(times, next(bounds)))
    return TaggedTable(posts.table.filter(inside).combine_chunks(), posts.source)


def _plant_event(table: pa.Table, since_us: int) -> pa.Table:
    """Add two tags to every tenth post from a time on."""
    late = table["time"].cast(pa.int64()).to_numpy() >= since_us
    lists = table["tags"].to_pylist()
    for row in np.flatnonzero(late)[::10].tolist():
        lists[row] = [*lists[row], *_PLANTED_TAGS]
    return table.set_column(1, "tags", pa.array(lists))


def _correlate(week: Week, partitions: int) -> Coefficients:
    chosen = CorrelationSettings(week.length_us, week.length_us, partitions)
    posts, names = week.posts.parse_with_names()
    reports = correlate(posts, chosen).reports
    return parse_coefficients(
        pa.Table.from_batches([wire.to_record_batch(reports, names, chosen.slide_us, chosen.panes)])
    )


def _rows(week: Week, found: Coefficients, stories: list[Story], shown: int) -> Iterator[Row]:
    about: Row = {"week": week.name, "event": week.event}
    place = next((at for at, story in enumerate(stories) if week.tags <= set(story.tags)), None)
    for rank, story in enumerate(stories[:shown], 1):
        yield {"kind": "story", **about, "rank": rank, **_counts(story.strongest)}
    if place is None:
        yield {"kind": "event", **about, "rank": _NO_RANK}
        return
    story = stories[place]
    yield {"kind": "event", **about, "rank": place + 1, "tags": " ".join(story.tags[:6]), **_counts(story.strongest)}
    came = {"came": story.strongest.support, "expected": story.strongest.predicted * story.strongest.union}
    yield from ({"kind": "why", **about, "series": name, "posts": max(1.0, count)} for name, count in came.items())
    yield from ({"kind": "past", **about, **row} for row in _past(found, story.strongest, week.length_us))
    yield from ({"kind": "post", **about, "post": post} for post in _samples(story))


def _counts(lead: EmergingTagSet) -> Mapping[str, Any]:
    expected = lead.predicted * lead.union
    counts = {"support": lead.support, "union": lead.union, "expected": round(expected, 1)}
    return {"lead": " + ".join(lead.tags), **counts, "score": round(lead.score, 1)}


def _past(found: Coefficients, lead: EmergingTagSet, length_us: int) -> Iterator[Row]:
    """Yield the counts of the lead's tags per window; 0 where there were too few to be reported."""
    rows = np.flatnonzero(found.ends_us == lead.window_end_us).tolist()
    (now,) = [row for row in rows if found.tags_of(row) == lead.tags]
    for back in range(PAST_WINDOWS + 1):
        same = (found.ends_us == lead.window_end_us - back * length_us) & (found.sets == found.sets[now])
        support, jaccard = (float(values[same].sum()) for values in (found.support, found.jaccard))
        yield {"weeks_from_event": -back, "support": support, "jaccard": jaccard}


def _samples(story: Story) -> list[str]:
    """Return the beginning of some real posts with all tags of the lead."""
    folder = datasets.data_folder()
    if folder is None or not (folder / _TWEETS).is_file():
        return []
    table = pq.read_table(folder / _TWEETS, columns=["time", "text"])
    written = table["time"].cast(STAMP).cast(pa.int64()).to_numpy()
    inside = np.flatnonzero((written >= story.strongest.window_start_us) & (written < story.strongest.window_end_us))
    texts_inside = table["text"].take(pa.array(inside)).combine_chunks()
    parsed = TagParser().parse(pa.record_batch([pa.array(written[inside]), texts_inside], ["time", "text"]))
    texts = texts_inside.take(pa.array(find_story_posts(parsed, story)[:_SAMPLES])).to_pylist()
    return [" ".join(text[:_TEXT].split()) for text in texts]
