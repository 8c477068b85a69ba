"""`tidings run`: posts in as they come, matches out, until it is told to stop."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tidings.cli.master import check_master
from tidings.cli.screen import screen
from tidings.cli.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.config import MAX_POSTS_A_BATCH
from tidings.errors import InputError

HELP = """Match posts as they come, for as long as you let it.

Posts are files put into a directory (JSON Lines, Parquet or CSV; put them there whole, by renaming), or the messages
of a Kafka topic. Subscriptions are those of the state: `tidings subscribe` and `tidings unsubscribe` take effect in the
next batch. Every match is stored exactly once, whatever happens in between; `tidings matches ID` reads them. Ctrl-C
finishes the batch and stops; the next run goes on from there."""

EXAMPLES = """Examples:

tidings subscribe "storm OR flood" --state news

tidings run --posts incoming --state news

tidings run --posts kafka://localhost:9092/posts --state news --deliver kafka://localhost:9092/matches

tidings matches 1 --follow --state news"""

_TRIGGER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|minutes?)\s*")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes"}


class Plan(StrEnum):
    replicated = "replicated"
    partitioned = "partitioned"


class Processed(StrEnum):
    keep = "keep"
    delete = "delete"


def run(
    posts: Annotated[str, typer.Option("--posts", metavar="SOURCE", help="A directory, or kafka://SERVERS/TOPIC.")],
    state: StateOption = DEFAULT_STATE,
    work: WorkOption = None,
    deliver: Annotated[
        str, typer.Option(metavar="store|DIR|URL", help="Where matches go: store, a directory (Parquet), kafka://….")
    ] = "store",
    trigger: Annotated[str, typer.Option(help="How often to look for posts, as in '500 ms' or '2 s'.")] = "500 ms",
    max_posts_per_batch: Annotated[
        int, typer.Option(min=1, help="About how many posts a batch takes; files are taken whole.")
    ] = MAX_POSTS_A_BATCH,
    plan: Annotated[Plan, typer.Option(help="Every worker with the whole index, or shared out.")] = Plan.replicated,
    matchers: Annotated[int, typer.Option(min=1, max=1024, help="How many share a partitioned index.")] = 8,
    master: Annotated[str | None, typer.Option(metavar="URL", help="The Spark master; default: this machine.")] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve the figures for Prometheus on this port of loopback.")
    ] = None,
    keep_matches: Annotated[int, typer.Option(min=1, help="The most matches kept a subscription.")] = 10_000,
    keep_days: Annotated[float, typer.Option(min=0.01, help="How long matches are kept.")] = 30.0,
    processed: Annotated[Processed, typer.Option(help="What to do with files that were taken.")] = Processed.keep,
    pin_anew: Annotated[
        bool, typer.Option("--pin-anew", help="Let a batch whose index version is lost use today's subscriptions.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Take what is there, then end.")] = False,
) -> None:
    check_master(master)
    at = state_at(state, work)
    _check_source(posts)
    _check_delivery(deliver)
    every = _interval(trigger)
    from tidings.spark.run_stream import StreamRequest, run_stream  # here: it brings Spark
    from tidings.store import Retention

    request = StreamRequest(
        posts=posts,
        where=at.where,
        folder=at.folder,
        deliver=deliver,
        trigger=every,
        max_posts_per_batch=max_posts_per_batch,
        master=master,
        plan=plan.value,
        matchers=matchers,
        metrics_port=metrics_port,
        retention=Retention(max_matches_per_subscription=keep_matches, max_age_s=keep_days * 86_400),
        processed=processed.value,
        pin_anew=pin_anew,
        once=once,
    )
    run_stream(request, screen().print)


def _interval(trigger: str) -> str:
    found = _TRIGGER.fullmatch(trigger)
    if found is None:
        raise InputError(f"--trigger {trigger!r}: write a number and ms, s or m, for example '500 ms'.")
    unit = next(name for short, name in _UNITS.items() if found[2] in (short, name, name[:-1]))
    return f"{found[1]} {unit}"


def _check_source(posts: str) -> None:
    if posts.startswith("kafka://"):
        from tidings.spark.kafka import parse_kafka_url

        parse_kafka_url(posts)
    elif not Path(posts).is_dir():
        raise InputError(f"--posts {posts}: there is no such directory; make it, then put files of posts into it.")


def _check_delivery(deliver: str) -> None:
    if deliver.startswith("kafka://"):
        from tidings.spark.kafka import parse_kafka_url

        parse_kafka_url(deliver)
    elif "://" in deliver:
        raise InputError(f"--deliver {deliver}: matches go to the store, to a directory, or to kafka://SERVERS/TOPIC.")
    elif deliver != "store" and Path(deliver).is_file():
        raise InputError(f"--deliver {deliver}: this is a file; give a directory.")
