"""The source of a stream, a directory or a Kafka topic: its posts, its backlog, and a sample of what is there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidings.balance.spatial_fit import PostSample
from tidings.balance.spec import QUICK_SAMPLE_POSTS, SampleSource
from tidings.errors import TidingsError
from tidings.ingest.post_files import PostFiles, find_post_files
from tidings.log import Event
from tidings.spark.error_translation import translate
from tidings.spark.kafka import KAFKA_SCHEME, parse_kafka_url, read_kafka, translate_kafka_error
from tidings.spark.post_reader import read_posts
from tidings.spark.sample import sample_random_posts
from tidings.spark.signals import cancel_jobs_on
from tidings.stream.backlog import Backlog, FileBacklog, KafkaBacklog, LatestOffsets, PendingFiles
from tidings.stream.file_source import (
    PostDirectory,
    check_headers,
    estimate_post_bytes,
    infer_or_load_schema,
    stream_files,
)
from tidings.stream.options import StreamOptions
from tidings.stream.rejected_origin import LocateRejected, locate_rejected

LOG = logging.getLogger("tidings.stream")
_SAMPLED_FILES = 4  # times as many posts as the sample are read to draw it
DAMAGED_FILE_HINT = "Put a complete file in its place, or an empty one to continue without it"


@dataclass(frozen=True, slots=True)
class StreamSource:
    """An open source."""

    posts: DataFrame
    reopen: Callable[[SparkSession], DataFrame]  # the same posts in another session
    backlog: Backlog
    sample: SampleSource  # posts that exist before the first batch
    pending_files: Callable[[], int | None] = lambda: None
    check_files: Callable[[Sequence[Path]], None] = lambda files: None  # raises InputError
    locate_rejected: LocateRejected | None = None  # None: the posts have their source
    latest_offsets: LatestOffsets = field(default_factory=LatestOffsets)


def open_source(
    options: StreamOptions, spark: SparkSession, stop: threading.Event, on_wait: Callable[[], None] = lambda: None
) -> StreamSource | None:
    """Open the source; wait for a first file unless `once`. Returns None without a file, or when stopped."""
    if options.posts.startswith(KAFKA_SCHEME):
        return _open_topic(options, spark)
    directory = None
    with cancel_jobs_on(stop, spark):
        directory = infer_schema(options, spark, stop, on_wait)
    if directory is None:
        if not stop.is_set():
            LOG.warning(Event("no posts", posts=options.posts))
        return None
    return _open_directory(options, spark, directory, stop)


def infer_schema(
    options: StreamOptions, spark: SparkSession, stop: threading.Event, on_wait: Callable[[], None] = lambda: None
) -> PostDirectory | None:
    """Return how to read the files of the directory; None when stopped before there is one."""
    schema_file = options.work_dir / "source.json"
    LOG.info(Event("reading schema", posts=options.posts))
    try:
        return infer_or_load_schema(spark, options.posts, schema_file, stop.is_set, not options.once, on_wait)
    except TidingsError:
        raise
    except Exception as error:
        raise translate(error, options.work_dir, DAMAGED_FILE_HINT) or error from error


def _open_topic(options: StreamOptions, spark: SparkSession) -> StreamSource:
    offsets = LatestOffsets()
    backlog = KafkaBacklog(options.checkpoint, offsets.get)
    posts = _read_topic(options, spark)
    return StreamSource(posts, partial(_read_topic, options), backlog, _empty_sample, latest_offsets=offsets)


def _read_topic(options: StreamOptions, spark: SparkSession) -> DataFrame:
    topic = parse_kafka_url(options.posts)
    try:
        return read_kafka(spark, topic, options.max_posts_per_batch)
    except Exception as error:
        raise translate_kafka_error(error, topic) or error from error


def _open_directory(
    options: StreamOptions, spark: SparkSession, directory: PostDirectory, stop: threading.Event
) -> StreamSource:
    pending = PendingFiles(directory.path, directory.format, options.checkpoint / "sources" / "0")
    post_bytes, max_posts = estimate_post_bytes(directory), options.max_posts_per_batch
    clean_source = options.clean_source if options.correlate is None else "off"  # `source_cleanup` deletes the files
    return StreamSource(
        posts=stream_files(spark, directory, max_posts, clean_source),
        reopen=partial(stream_files, directory=directory, max_posts=max_posts),
        backlog=FileBacklog(pending, post_bytes),
        sample=partial(_sample_pending, spark, pending, _SAMPLED_FILES * QUICK_SAMPLE_POSTS * post_bytes, stop),
        pending_files=pending.count,
        check_files=partial(check_headers, directory),
        locate_rejected=partial(locate_rejected, directory),
    )


def _empty_sample() -> PostSample:
    return pa.array([], pa.large_string()), np.zeros((0, 2))


def _sample_pending(spark: SparkSession, pending: PendingFiles, size_bytes: float, stop: threading.Event) -> PostSample:
    """Return posts drawn from pending files, which are drawn first if they are large: reading all takes too long.

    The sample is empty if they cannot be read, which the first batch reports.
    """
    sample = _empty_sample()
    with cancel_jobs_on(stop, spark), suppress(Exception):
        posts = [find_post_files(str(file)) for file in pending.draw(size_bytes)]
        if posts:
            files = tuple(chain.from_iterable(post_files.files for post_files in posts))
            headers = tuple(chain.from_iterable(post_files.headers for post_files in posts))
            drawn = PostFiles(posts[0].format, files, None, headers)
            sample = sample_random_posts(read_posts(spark, drawn), QUICK_SAMPLE_POSTS)
    return sample
