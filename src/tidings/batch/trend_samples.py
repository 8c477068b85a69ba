"""Collect sample posts of each story, to show what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidings.batch.match_files import batch_session, translated_errors
from tidings.correlate.story_samples import find_story_posts
from tidings.correlate.tag_parser import TagParser
from tidings.correlate.trends import Story
from tidings.ingest.post_files import PostFiles
from tidings.spark.arrow_blobs import ArrowBatches, Stage
from tidings.spark.correlate import select_parser_columns
from tidings.spark.post_reader import read_posts
from tidings.spark.progress import ProgressCallback

_SAMPLE_SCHEMA = "story int, time bigint, id string, text string"


@dataclass(frozen=True, slots=True)
class StoryPost:
    """A post with all tags of the main tag set of a story, written in its window."""

    time_us: int
    id: str | None
    text: str | None


def collect_story_posts(
    posts: PostFiles, stories: Sequence[Story], count: int, progress: ProgressCallback
) -> list[list[StoryPost]]:
    """Return the first `count` posts of each story."""
    with translated_errors(posts.files[0] if posts.files else Path()), batch_session(None) as spark:
        progress("collecting posts of the stories")
        rows = _select_samples(read_posts(spark, posts), stories, count).collect()
    samples: list[list[StoryPost]] = [[] for _ in stories]
    for row in sorted(rows, key=lambda row: (row["story"], row["time"], str(row["id"]))):
        if len(samples[row["story"]]) < count:
            samples[row["story"]].append(StoryPost(row["time"], row["id"], row["text"]))
    return samples


def _select_samples(posts: DataFrame, stories: Sequence[Story], count: int) -> DataFrame:
    identity = [
        (F.col(name).cast("string") if name in posts.columns else F.lit(None).cast("string")).alias(f"_{name}")
        for name in ("id", "text")
    ]
    first = min(story.strongest.window_start_us for story in stories)
    last = max(story.strongest.window_end_us for story in stories)
    rows = select_parser_columns(posts.select("*", *identity), "_id", "_text")
    in_time = rows.where(F.col("time").between(first, last))
    return in_time.mapInArrow(_sample_stage(list(stories), count), _SAMPLE_SCHEMA)


def _sample_stage(stories: list[Story], count: int) -> Stage:
    def stage(batches: ArrowBatches) -> ArrowBatches:
        parser = TagParser()
        for batch in batches:
            parsed = parser.parse(batch)
            for number, story in enumerate(stories):
                rows = find_story_posts(parsed, story)[:count]
                if len(rows):
                    sample = batch.take(pa.array(rows))
                    story_number = pa.array([number] * len(rows), pa.int32())
                    columns = [story_number, sample.column("time"), sample.column("_id"), sample.column("_text")]
                    yield pa.record_batch(columns, ["story", "time", "id", "text"])

    return stage
