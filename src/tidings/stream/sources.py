"""Where the posts of a stream come from: the stream itself, what waits of it, and a sample of what is there already."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidings.balance.spatial_fit import Located
from tidings.balance.spec import QUICK_SAMPLE, Sample
from tidings.errors import TidingsError
from tidings.ingest.post_files import PostFiles, find_posts
from tidings.spark.error_translation import in_words
from tidings.spark.kafka import SCHEME, kafka_failure, parse_kafka_url, read_kafka
from tidings.spark.post_reader import read_posts
from tidings.spark.sample import first_posts
from tidings.spark.signals import cancelled_when
from tidings.stream.backlog import Unread, UnreadFiles, UnreadMessages
from tidings.stream.file_source import Folder, bytes_a_post, check_headers, first_look, read_folder
from tidings.stream.options import Say, StreamRequest
from tidings.stream.pending_files import WaitingFiles
from tidings.stream.progress_listener import Newest
from tidings.stream.shutdown import INSTEAD


@dataclass(frozen=True, slots=True)
class Incoming:
    """The posts as they come; how many files wait; what is unread; and some posts of what is there now, if any."""

    posts: DataFrame
    again: Callable[[SparkSession], DataFrame]  # the same posts, read once more in another session
    waiting_files: Callable[[], int | None]
    unread: Unread
    sample: Sample
    check: Callable[[list[Path]], None] = lambda files: None  # InputError if files of a batch cannot be read as these


def incoming(
    request: StreamRequest, spark: SparkSession, newest: Newest, stop: threading.Event, say: Say
) -> Incoming | None:
    """None when stopped before there is anything."""
    if request.posts.startswith(SCHEME):
        messages = UnreadMessages(request.checkpoint, newest.offsets)
        posts = _topic(request, spark)
        return Incoming(posts, partial(_topic, request), lambda: None, messages, _nothing)
    say(f"looking at the files in {request.posts}")
    folder = None
    with cancelled_when(stop, spark):
        folder = look(request, spark, stop)
    if folder is None:
        if request.once and not stop.is_set():
            say(f"there are no posts in {request.posts}.")
        return None
    waiting = WaitingFiles(folder.path, folder.format, request.checkpoint / "sources" / "0")
    size = bytes_a_post(folder)
    processed = request.processed if request.correlate is None else "keep"  # two read them: `twice_taken` deletes
    posts = read_folder(spark, folder, request.max_posts_per_batch, processed)
    again = partial(read_folder, folder=folder, max_posts=request.max_posts_per_batch)
    sample = partial(_newest_posts, spark, waiting, QUICK_SAMPLE * size, stop)
    unread = UnreadFiles(request.checkpoint, waiting, size)
    return Incoming(posts, again, waiting.count, unread, sample, partial(check_headers, folder))


def look(request: StreamRequest, spark: SparkSession, stop: threading.Event) -> Folder | None:
    """How the files are read; None when stopped before there is one."""
    try:
        return first_look(spark, request.posts, request.folder / "source.json", stop.is_set, waits=not request.once)
    except TidingsError:
        raise
    except Exception as error:
        raise in_words(error, request.folder, INSTEAD) or error from error


def _topic(request: StreamRequest, spark: SparkSession) -> DataFrame:
    topic = parse_kafka_url(request.posts)
    try:
        return read_kafka(spark, topic, request.max_posts_per_batch)
    except Exception as error:
        raise kafka_failure(error, topic) or error from error


def _nothing() -> Located:
    return pa.array([], pa.large_string()), np.zeros((0, 2))


def _newest_posts(spark: SparkSession, waiting: WaitingFiles, size_bytes: float, stop: threading.Event) -> Located:
    """Of the newest files; none where these cannot be read: the stream will stop at them and say why."""
    some = _nothing()
    with cancelled_when(stop, spark), suppress(Exception):
        found = [find_posts(str(file)) for file in waiting.newest(size_bytes)]
        if found:
            files = tuple(chain.from_iterable(one.files for one in found))
            headers = tuple(chain.from_iterable(one.headers for one in found))
            some = first_posts(read_posts(spark, PostFiles(found[0].format, files, None, headers)), QUICK_SAMPLE)
    return some
