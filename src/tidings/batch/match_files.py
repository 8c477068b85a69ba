"""The command `match`, from files to files: profile posts, match them, publish the result atomically."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from tidings.balance.spatial_fit import PostSample
from tidings.batch.input_profile import (
    InputProfile,
    estimate_text_bytes,
    format_rejected,
    profile_posts,
    write_rejected,
)
from tidings.batch.staging import Output, Staging
from tidings.batch.write import write_parts
from tidings.errors import InputError, TidingsError
from tidings.ingest.post_files import PostFiles
from tidings.schemas import RejectedSubscription, SubscriptionFile
from tidings.spark.api import PreparedMatch, prepare_match
from tidings.spark.error_translation import translate
from tidings.spark.post_columns import select_rejected
from tidings.spark.post_reader import READER_SETTINGS, posts_with_origin, read_posts
from tidings.spark.process_end import describe_jvm_end, named_jvm_end
from tidings.spark.progress import ProgressCallback, task_progress
from tidings.spark.run_files import current_run_files
from tidings.spark.sample import sample_random_posts
from tidings.spark.session import session
from tidings.spark.signals import owned_session


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """Validated options of the command."""

    posts: PostFiles
    subscriptions: SubscriptionFile
    output: Output
    plan: str = "auto"
    matchers: int | None = None
    partitioner: str | None = None
    placement: str = "anchor"
    master: str | None = None
    matcher: str = "kernel"
    subscriptions_file: Path = Path()  # to report rejected subscriptions


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The result; `seconds` is the time of matching, from the files of posts to the files of matches."""

    profile: InputProfile
    subscriptions: int
    rejected: list[RejectedSubscription]
    matches: int
    mode: str
    mode_reason: str
    matchers: int | None
    index_version: int
    seconds: float
    out: Path
    rejected_file: Path | None


def match_files(options: MatchOptions, progress: ProgressCallback) -> MatchResult:
    """Run the command. After a TidingsError, OUT is unchanged."""
    with (
        translated_errors(options.output.out),
        options.output.staging() as staging,
        batch_session(options.master) as spark,
    ):
        return _match(options, staging, spark, progress)


def sample_posts(posts: PostFiles, count: int, seed: int, out: Path, progress: ProgressCallback) -> PostSample:
    """Draw posts at random from files, to learn a plan that will be written to `out`."""
    with translated_errors(out), batch_session(None) as spark:
        progress("reading the posts", lambda: task_progress(spark))
        return sample_random_posts(read_posts(spark, posts), count, seed)


@contextmanager
def translated_errors(out: Path) -> Iterator[None]:
    """Raise errors of Spark as TidingsError where a translation exists."""
    try:
        yield
    except TidingsError:
        raise
    except Exception as error:
        if (translated := translate(error, out)) is not None:
            raise translated from error
        raise


def _match(options: MatchOptions, staging: Staging, spark: SparkSession, progress: ProgressCallback) -> MatchResult:
    progress("profiling the posts", lambda: task_progress(spark))
    posts = read_posts(spark, options.posts)
    profile = profile_posts(posts, estimate_text_bytes(options.posts.files))
    if profile.rejected:
        rejected_posts = select_rejected(posts_with_origin(spark, options.posts, posts))
        write_rejected(rejected_posts, options.posts.format, staging.rejected)
    progress("building the index")
    prepared = _prepare(options, posts, profile)
    rejected = _collect_rejected(options.subscriptions, prepared)
    _write_rejected_subscriptions(options, rejected, staging.rejected)
    progress("matching", lambda: task_progress(spark))
    start = time.perf_counter()
    write_parts(prepared.matches, staging.parts, options.output.format, options.output.raw_csv)
    seconds = time.perf_counter() - start
    progress("publishing the result")
    matches, rejected_file = staging.publish()
    return MatchResult(
        profile,
        prepared.subscriptions,
        rejected,
        matches,
        prepared.mode,
        prepared.mode_reason,
        prepared.matchers,
        prepared.index_version,
        seconds,
        options.output.out,
        rejected_file,
    )


def _prepare(options: MatchOptions, posts: DataFrame, profile: InputProfile) -> PreparedMatch:
    return prepare_match(
        posts,
        options.subscriptions.table,
        plan=options.plan,
        matchers=options.matchers,
        partitioner=options.partitioner,
        placement=options.placement,
        unique=profile.duplicates > 0,
        sample=profile.sample,
        matcher=options.matcher,
    )


def _collect_rejected(subscriptions: SubscriptionFile, prepared: PreparedMatch) -> list[RejectedSubscription]:
    """Return the subscriptions that the reader or the query parser rejected, by their line in the file."""
    lines = subscriptions.lines
    invalid = [replace(row, line=int(lines[row.line - 1])) for row in prepared.rejected]
    return sorted([*subscriptions.rejected, *invalid], key=lambda row: row.line)


def _write_rejected_subscriptions(options: MatchOptions, rejected: list[RejectedSubscription], file: Path) -> None:
    if not rejected:
        return
    with file.open("a", encoding="utf-8") as lines:
        for row in rejected:
            query = _query_in_line(options.subscriptions, row.line)
            source = os.path.abspath(options.subscriptions_file)
            lines.write(format_rejected("subscription", row.id, source, row.line, row.reason, query))


def _query_in_line(subscriptions: SubscriptionFile, line: int) -> str | None:
    """Return the query in a line of the file, or None if the reader rejected the line."""
    row = int(np.searchsorted(subscriptions.lines, line))
    if row == len(subscriptions.lines) or subscriptions.lines[row] != line:
        return None
    query: str | None = subscriptions.table.column("query")[row].as_py()
    return query


@contextmanager
def batch_session(master: str | None) -> Iterator[SparkSession]:
    """Start a session, and stop it before the staging folder is deleted."""
    try:
        spark = session(master, READER_SETTINGS)
    except TidingsError:
        raise
    except Exception as error:
        if (ended := describe_jvm_end(error, "while it started")) is not None and "killed" in ended:
            raise TidingsError(ended) from error
        place = f" on {master}" if master else ""
        raise InputError(f"Spark did not start{place}. See its log: {current_run_files().log}") from error
    with owned_session(spark), named_jvm_end():
        yield spark
