"""`tidings match` from files to files: look at the posts, match them, publish the result whole or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from tidings.balance.spatial_fit import Located
from tidings.batch.input_profile import Look, look_at, rejected_line, write_rejected
from tidings.batch.staging import Output, Staging
from tidings.batch.write import write_matches
from tidings.errors import InputError, TidingsError
from tidings.ingest.post_files import PostFiles
from tidings.schemas import RejectedSubscription, SubscriptionFile
from tidings.spark.api import Matching, prepare
from tidings.spark.error_translation import in_words
from tidings.spark.post_reader import SETTINGS, read_posts
from tidings.spark.progress import Tasks, running_tasks
from tidings.spark.sample import random_posts
from tidings.spark.session import LOG_FILE, session
from tidings.spark.signals import stopped_afterwards

Asker = Callable[[], Tasks | None]
Note = Callable[[str, Asker | None], None]  # told what begins, and how to ask how far it is


@dataclass(frozen=True, slots=True)
class Request:
    """What to match with what, and how; everything in it has been checked."""

    posts: PostFiles
    subscriptions: SubscriptionFile
    output: Output
    plan: str = "auto"
    matchers: int | None = None
    partitioner: str | None = None
    placement: str = "rarest"
    master: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it; `seconds` is the matching itself, from the files of posts to the files of matches."""

    look: Look
    subscriptions: int
    rejected: list[RejectedSubscription]
    matches: int
    plan: str
    why: str
    matchers: int | None
    index_version: int
    seconds: float
    out: Path
    rejected_file: Path | None


def match_files(request: Request, note: Note) -> Outcome:
    """Run it. A TidingsError says in one sentence what went wrong; OUT is then as it was before."""
    with told_in_words(request.output.out), request.output.staged() as staging, started(request.master) as spark:
        return _match(request, staging, spark, note)


def sample_files(posts: PostFiles, count: int, seed: int, out: Path, note: Note) -> Located:
    """Some posts drawn at random from files, to learn a plan from that will be written to `out`."""
    with told_in_words(out), started(None) as spark:
        note("reading the posts", lambda: running_tasks(spark))
        return random_posts(read_posts(spark, posts), count, seed)


@contextmanager
def told_in_words(out: Path) -> Iterator[None]:
    """What Spark fails with, as a sentence where we know one."""
    try:
        yield
    except TidingsError:
        raise
    except Exception as error:
        if (known := in_words(error, out)) is not None:
            raise known from error
        raise


def _match(request: Request, staging: Staging, spark: SparkSession, note: Note) -> Outcome:
    note("looking at the posts", lambda: running_tasks(spark))
    posts = read_posts(spark, request.posts)
    look = look_at(posts)
    if look.rejected:
        write_rejected(posts, staging.rejected)
    note("building the index", None)
    matching = _prepared(request, posts, look)
    rejected = _all_rejected(request.subscriptions, matching)
    _write_rejected_subscriptions(request.subscriptions, rejected, staging.rejected)
    note("matching", lambda: running_tasks(spark))
    start = time.perf_counter()
    write_matches(matching.matches, staging.parts, request.output.format)
    seconds = time.perf_counter() - start
    note("putting the result in place", None)
    matches, listed = staging.publish()
    return Outcome(
        look,
        matching.subscriptions,
        rejected,
        matches,
        matching.plan,
        matching.why,
        matching.matchers,
        matching.index_version,
        seconds,
        request.output.out,
        listed,
    )


def _prepared(request: Request, posts: DataFrame, look: Look) -> Matching:
    return prepare(
        posts,
        request.subscriptions.table,
        plan=request.plan,
        matchers=request.matchers,
        partitioner=request.partitioner,
        placement=request.placement,
        unique=look.duplicates > 0,
    )


def _all_rejected(subscriptions: SubscriptionFile, matching: Matching) -> list[RejectedSubscription]:
    """Those the file's reader set aside and those whose query was refused, all by their line in the file."""
    lines = subscriptions.lines
    refused = [replace(one, line=int(lines[one.line - 1])) for one in matching.rejected]
    return sorted([*subscriptions.rejected, *refused], key=lambda one: one.line)


def _write_rejected_subscriptions(
    subscriptions: SubscriptionFile, rejected: list[RejectedSubscription], file: Path
) -> None:
    if not rejected:
        return
    with file.open("a", encoding="utf-8") as lines:
        for one in rejected:
            lines.write(rejected_line("subscription", one.id, one.line, one.reason, _query(subscriptions, one.line)))


def _query(subscriptions: SubscriptionFile, line: int) -> str | None:
    """The query that stands in a line; None when the reader could not make one of it."""
    row = int(np.searchsorted(subscriptions.lines, line))
    if row == len(subscriptions.lines) or subscriptions.lines[row] != line:
        return None
    query: str | None = subscriptions.table.column("query")[row].as_py()
    return query


@contextmanager
def started(master: str | None) -> Iterator[SparkSession]:
    """A session for this run, stopped in any case before what it wrote is cleaned away."""
    try:
        spark = session(master, SETTINGS)
    except TidingsError:
        raise
    except Exception as error:
        where = f" on {master}" if master else ""
        raise InputError(f"Spark could not be started{where}; its log says why: {LOG_FILE}") from error
    with stopped_afterwards(spark):
        yield spark
