"""`tidings run`: posts in as they come, matches out, until it is told to stop."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidings.cli.console import screen
from tidings.cli.duration import seconds
from tidings.cli.match import Plan
from tidings.cli.options.master import check_master
from tidings.cli.options.state import DEFAULT_STATE, StateOption, WorkOption, state_at
from tidings.config import MAX_POSTS_A_BATCH
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.correlate.settings import Settings

HELP = """Match posts as they come, for as long as you let it.

Posts are files put into a directory (JSON Lines, Parquet or CSV; put them there whole, by renaming), or the messages
of a Kafka topic. Subscriptions are those of the state: `tidings subscribe` and `tidings unsubscribe` take effect in the
next batch. Every match is stored exactly once, whatever happens in between; `tidings matches ID` reads them. Ctrl-C
finishes the batch and stops; the next run goes on from there."""

EXAMPLES = """Examples:

tidings subscribe "storm OR flood" --state news

tidings run --posts incoming --state news

tidings run --posts kafka://localhost:9092/posts --state news --deliver kafka://localhost:9092/matches

tidings run --posts incoming --state news --plan partitioned --matchers 16 --relearn "24 h"

tidings run --posts incoming --state news --shed subscription --latency "5 s"

tidings run --posts incoming --state news --correlate --window "1 h" --slide "5 min"

tidings matches 1 --follow --state news"""

_TAGS: Any = {"rich_help_panel": "Correlations (with --correlate)"}
_BATCH_A_SECOND = 2_000  # of the latency accepted: short batches, so that what is shed can follow the load


class Shed(StrEnum):
    """What is withheld when more posts come than can be worked off in time."""

    off = "off"
    consensus = "consensus"
    subscription = "subscription"
    random = "random"


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
        int | None,
        typer.Option(
            min=1,
            help="About how many posts a batch takes; files are taken whole.",
            show_default=f"{MAX_POSTS_A_BATCH:,}; with --shed {_BATCH_A_SECOND:,} for each second of --latency",
        ),
    ] = None,
    plan: Annotated[
        Plan, typer.Option(help="Every worker with the whole index, or the index shared out over matchers.")
    ] = Plan.auto,
    matchers: Annotated[
        int | None,
        typer.Option(min=1, max=1024, metavar="N", help="Matchers of the partitioned plan.", show_default="8"),
    ] = None,
    partitioner: Annotated[
        str,
        typer.Option(
            metavar="NAME|PLAN",
            help="How words are shared out over matchers: salb+, salb, hash, gc, gfc, gfcl, gnfcl; or places and "
            "words: hybrid, kdt, grid, kdtree, rtree, frequency, hypergraph, metric; "
            "or a file made by tidings plan learn.",
        ),
    ] = "salb+",
    placement: Annotated[
        str, typer.Option(help="Which of the matchers of its words gets a subscription: rarest, lasp or random.")
    ] = "rarest",
    relearn: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Learn the plan anew so often, as in '24 h'.", show_default="never"),
    ] = None,
    relearn_factor: Annotated[
        float,
        typer.Option(
            metavar="X",
            help="Learn it anew when imbalance times spread is X times what it was right after learning; 0: never.",
        ),
    ] = 1.5,
    adjust_factor: Annotated[
        float,
        typer.Option(
            metavar="X",
            help="With a plan of places: move cells from one matcher to another when the busiest has X times the load "
            "of the idlest; 0: never.",
        ),
    ] = 1.5,
    shed: Annotated[
        Shed,
        typer.Option(
            help="What to withhold from matchers when more posts come than can be matched in time: nothing; all but "
            "where most words of a post lead; all but where it is in reach of most subscriptions; any posts at random."
        ),
    ] = Shed.off,
    latency: Annotated[
        str, typer.Option(metavar="TIME", help="How late a match may be before anything is shed, as in '5 s'.")
    ] = "5 s",
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
    correlate: Annotated[
        bool, typer.Option("--correlate", help="Track which tags move together, beside the matching.", **_TAGS)
    ] = False,
    window: Annotated[str, typer.Option(metavar="TIME", help="How much of the past counts.", **_TAGS)] = "1 h",
    slide: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How often to report.", show_default="the window", **_TAGS),
    ] = None,
    lateness: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="How late posts may come to count.", show_default="the slide", **_TAGS),
    ] = None,
    partitions: Annotated[int, typer.Option(metavar="K", help="The most calculators tags go to.", **_TAGS)] = 8,
    partitioners: Annotated[int, typer.Option(metavar="P", help="How many make the partitions.", **_TAGS)] = 5,
    algorithm: Annotated[str, typer.Option(help="ds+scl, ds, scc, scl or sci.", **_TAGS)] = "ds+scl",
    sightings: Annotated[
        int, typer.Option("--sn", metavar="N", help="Sightings before a tag set is given to a calculator.", **_TAGS)
    ] = 3,
    checked_every: Annotated[
        int, typer.Option("--z", metavar="N", help="Notified posts between two looks at the partitions.", **_TAGS)
    ] = 1000,
    threshold: Annotated[
        float, typer.Option(metavar="SHARE", help="By how much they may become worse.", **_TAGS)
    ] = 0.5,
    min_support: Annotated[int, typer.Option(metavar="N", help="Posts that must have all of the tags.", **_TAGS)] = 2,
    posts_a_partition: Annotated[
        int | None,
        typer.Option(metavar="N", help="Use only as many partitions as the posts need.", show_default="all", **_TAGS),
    ] = None,
    track: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Let this word count as a tag; may repeat.", **_TAGS)
    ] = None,
    keep_windows: Annotated[int, typer.Option(min=1, help="How many reported windows are kept.", **_TAGS)] = 500,
) -> None:
    check_master(master)
    at = state_at(state, work)
    _check_source(posts)
    _check_delivery(deliver, posts)
    every, latency_s = seconds(trigger, "--trigger"), seconds(latency, "--latency")
    every_s = None if relearn is None else seconds(relearn, "--relearn")
    _check_plan(plan, partitioner, matchers, placement, shed, every_s)
    for option, factor in (("--relearn-factor", relearn_factor), ("--adjust-factor", adjust_factor)):
        if not (factor == 0 or factor > 1):
            raise InputError(f"{option} {factor:g}: give more than 1, or 0 for never.")
    from tidings.balance.rebalance.options import AdjustRules
    from tidings.balance.refresh_policy import Rules
    from tidings.correlate.settings import LiveSettings, Settings
    from tidings.store import Retention
    from tidings.stream.app import run_stream
    from tidings.stream.options import StreamRequest  # here: it brings Spark

    live = None
    if correlate:
        settings = Settings.checked(
            window,
            slide,
            partitions=partitions,
            partitioners=partitioners,
            algorithm=algorithm,
            sightings=sightings,
            checked_every=checked_every,
            threshold=threshold,
            min_support=min_support,
            posts_a_partition=posts_a_partition,
        )
        live = LiveSettings(settings, _lateness_us(lateness, settings), _tracked(track), keep_windows)
    request = StreamRequest(
        posts=posts,
        where=at.where,
        folder=at.folder,
        deliver=deliver,
        trigger=f"{round(every * 1000)} milliseconds",
        max_posts_per_batch=max_posts_per_batch or _batch(shed, latency_s),
        master=master,
        plan=Plan.partitioned.value if shed != Shed.off else plan.value,
        matchers=matchers,
        partitioner=partitioner,
        placement=placement,
        relearn=Rules(every_s, relearn_factor or None),
        adjust=AdjustRules(adjust_factor or None, every_s or AdjustRules().every_s),
        shed=shed.value,
        latency_s=latency_s,
        metrics_port=metrics_port,
        retention=Retention(max_matches_per_subscription=keep_matches, max_age_s=keep_days * 86_400),
        processed=processed.value,
        pin_anew=pin_anew,
        once=once,
        correlate=live,
    )
    run_stream(request, screen().print)


def _lateness_us(lateness: str | None, settings: Settings) -> int:
    from tidings.correlate.settings import microseconds

    return settings.slide_us if lateness is None else microseconds(lateness, "The lateness")


def _tracked(words: list[str] | None) -> tuple[str, ...]:
    from tidings.correlate.tag_parser import TagNumbers

    TagNumbers(words or ())  # refuses what cannot be tracked
    return tuple(words or ())


def _batch(shed: Shed, latency_s: float) -> int:
    return MAX_POSTS_A_BATCH if shed == Shed.off else max(1, min(MAX_POSTS_A_BATCH, round(_BATCH_A_SECOND * latency_s)))


def _check_plan(
    plan: Plan, partitioner: str, matchers: int | None, placement: str, shed: Shed, every_s: float | None
) -> None:
    from tidings.balance.spec import WantedPlan

    wanted = WantedPlan.checked(partitioner, matchers, placement)
    if wanted.by_space and shed != Shed.off:
        raise InputError(f"--shed withholds posts by words, and {partitioner!r} is a plan of places; leave one out.")
    if plan == Plan.replicated and shed != Shed.off:
        raise InputError(
            "--shed withholds posts from matchers, and the replicated plan has none; leave --plan out, or make it "
            "partitioned."
        )
    if every_s is not None and plan == Plan.replicated:
        raise InputError("--relearn is for the partitioned plan; leave --plan out, or make it partitioned.")
    if every_s is not None and not wanted.learns:
        raise InputError(f"--relearn: there is nothing to learn for {partitioner!r}; choose another --partitioner.")


def _check_source(posts: str) -> None:
    if posts.startswith("kafka://"):
        from tidings.spark.kafka import parse_kafka_url

        parse_kafka_url(posts)
    elif not Path(posts).is_dir():
        raise InputError(f"--posts {posts}: there is no such directory; make it, then put files of posts into it.")


def _check_delivery(deliver: str, posts: str) -> None:
    """Nor may matches go where posts come from: each of them would be matched again, and again."""
    if deliver.startswith("kafka://"):
        from tidings.spark.kafka import parse_kafka_url

        out = parse_kafka_url(deliver)
        back = posts.startswith("kafka://") and out.is_same(parse_kafka_url(posts))
    elif "://" in deliver:
        raise InputError(f"--deliver {deliver}: matches go to the store, to a directory, or to kafka://SERVERS/TOPIC.")
    elif deliver != "store" and Path(deliver).is_file():
        raise InputError(f"--deliver {deliver}: this is a file; give a directory.")
    else:
        back = deliver != "store" and Path(deliver).resolve().is_relative_to(Path(posts).resolve())
    if back:
        raise InputError(f"--deliver {deliver}: posts are taken from there; let matches go elsewhere.")
