"""Some posts of each story, so that people see what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.batch.match_files import Note, started, told_in_words
from tidings.correlate.story_samples import telling
from tidings.correlate.tag_parser import Parser
from tidings.correlate.trends import Story
from tidings.ingest.post_files import PostFiles
from tidings.spark.arrow_blobs import Batches, Stage
from tidings.spark.correlate import with_times
from tidings.spark.post_reader import read_posts

_FOUND = "story int, time bigint, id string, text string"


@dataclass(frozen=True, slots=True)
class StoryPost:
    """A post with all tags of a story's lead, written in its window."""

    time_us: int
    id: str | None
    text: str | None


def story_posts(posts: PostFiles, stories: Sequence[Story], count: int, note: Note) -> list[list[StoryPost]]:
    """For each story its first posts."""
    with told_in_words(posts.files[0] if posts.files else Path()), started(None) as spark:
        note("looking for posts of the stories", None)
        rows = _found(read_posts(spark, posts), stories, count).collect()
    found: list[list[StoryPost]] = [[] for _ in stories]
    for row in sorted(rows, key=lambda row: (row["story"], row["time"], str(row["id"]))):
        if len(found[row["story"]]) < count:
            found[row["story"]].append(StoryPost(row["time"], row["id"], row["text"]))
    return found


def _found(posts: DataFrame, stories: Sequence[Story], count: int) -> DataFrame:
    identity = [
        (F.col(name).cast("string") if name in posts.columns else F.lit(None).cast("string")).alias(f"_{name}")
        for name in ("id", "text")
    ]
    first = min(story.lead.window_start_us for story in stories)
    last = max(story.lead.window_end_us for story in stories)
    rows = with_times(posts.select("*", *identity), "_id", "_text")
    return rows.where(F.col("time").between(first, last)).mapInArrow(_look(list(stories), count), _FOUND)


def _look(stories: list[Story], count: int) -> Stage:
    def stage(batches: Batches) -> Batches:
        parser = Parser()
        for batch in batches:
            parsed = parser.parse(batch)
            for number, story in enumerate(stories):
                rows = telling(parsed, story)[:count]
                if len(rows):
                    some = batch.take(pa.array(rows))
                    story_number = pa.array([number] * len(rows), pa.int32())
                    columns = [story_number, some.column("time"), some.column("_id"), some.column("_text")]
                    yield pa.record_batch(columns, ["story", "time", "id", "text"])

    return stage
