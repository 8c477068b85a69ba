"""`tidings run`: match a stream of posts until it is stopped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.options.common import KeepDaysOption, KeepMatchesOption, MasterOption
from tidings.cli.options.config import ConfigOption
from tidings.cli.options.correlation import PartitionsOption, SlideOption, TrackingOptions
from tidings.cli.options.groups import expand_groups
from tidings.cli.options.master import check_master
from tidings.cli.options.plan import (
    PARTITIONERS,
    ExecutionMode,
    MatcherName,
    MatcherOption,
    PartitionerOption,
    PlacementOption,
    PlanOption,
    matchers_option,
)
from tidings.cli.options.state import DEFAULT_STATE, StateLocation, StateOption, WorkDirOption, locate_state
from tidings.config import MAX_POSTS_PER_BATCH
from tidings.durations import parse_microseconds, parse_seconds
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.balance.rebalance.options import RebalanceOptions
    from tidings.balance.refresh_policy import RefreshPolicy
    from tidings.correlate.settings import StreamCorrelationSettings

HELP = f"""Match a stream of posts until it is stopped.

Posts are files in a directory (JSON Lines, Parquet or CSV; write them elsewhere and rename them into it) or messages of
a Kafka topic. `tidings subscribe` and `tidings unsubscribe` take effect in the next batch. Every match is stored
exactly once, also after a crash; `tidings matches ID` prints them. Ctrl-C finishes the batch and stops; the next run
continues there.

{PARTITIONERS}

Kafka needs the connector of Spark, which is downloaded from Maven Central. Without access to it, list its four jars in
TIDINGS_KAFKA_JARS, separated by commas: spark-sql-kafka-0-10, spark-token-provider-kafka-0-10 (both for Scala 2.13 and
the version of Spark), kafka-clients and commons-pool2.

Policies of --shed: consensus keeps the matchers that most terms of a post route to, subscription those with most
candidate subscriptions, random a random part of the posts."""

EXAMPLES = """[bold]Examples[/]

tidings subscribe "storm OR flood" --state news

tidings run --posts incoming --state news

tidings run --config tidings.toml

tidings run --posts kafka://localhost:9092/posts --state news --sink kafka://localhost:9092/matches

tidings run --posts incoming --state news --plan partitioned --matchers 16 --refresh-plan-every "24 h"

tidings run --posts incoming --state news --shed subscription --max-latency "5 s"

tidings run --posts incoming --state news --correlate --window "1 h" --slide "5 min"

tidings matches 1 --follow --state news"""

_POSTS_PER_LATENCY_SECOND = 2_000  # with shedding: short batches, so that shedding follows the load


class ShedPolicy(StrEnum):
    off = "off"
    consensus = "consensus"
    subscription = "subscription"
    random = "random"


class CellSelection(StrEnum):
    gr_plus = "gr+"
    gr = "gr"
    dp = "dp"
    si = "si"
    ra = "ra"


class CleanSource(StrEnum):
    off = "off"
    delete = "delete"


@dataclass(frozen=True, slots=True)
class InputOptions:
    """Where posts come from and where matches go."""

    PANEL = "Input and output"

    posts: Annotated[
        str, typer.Option(metavar="SOURCE", help="Directory of files, or kafka://SERVERS/TOPIC.", show_default=False)
    ]
    sink: Annotated[
        str, typer.Option(metavar="store|DIR|URL", help="Store, directory (Parquet) or kafka://SERVERS/TOPIC.")
    ] = "store"
    trigger: Annotated[str, typer.Option(metavar="DURATION", help="Interval between batches.")] = "500 ms"
    max_posts_per_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Approximate maximum posts per batch; files are never split.",
            show_default=f"{MAX_POSTS_PER_BATCH:,}; with --shed {_POSTS_PER_LATENCY_SECOND:,} per s of --max-latency",
        ),
    ] = None
    clean_source: Annotated[
        CleanSource, typer.Option(metavar="off|delete", help="Keep or delete input files after their batch.")
    ] = CleanSource.off
    repin_lost_versions: Annotated[
        bool,
        typer.Option("--repin-lost-versions", help="Re-pin a batch whose index version is lost to the current one."),
    ] = False
    once: Annotated[bool, typer.Option("--once", help="Process the posts that are there, then exit.")] = False

    def check(self) -> None:
        """Raise InputError if the source does not exist, or matches would be read as posts."""
        source, sink = self.posts, self.sink
        if source.startswith("kafka://"):
            from tidings.spark.kafka import parse_kafka_url

            parse_kafka_url(source)
        elif not Path(source).is_dir():
            raise InputError(f"--posts {source}: no such directory. Create it, then put files of posts into it.")
        if _is_same_place(sink, source):
            raise InputError(f"--sink {sink}: same as --posts. Choose another directory or topic.")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How the index is distributed over matchers, and when that changes."""

    PANEL = "Execution mode"

    plan: PlanOption = ExecutionMode.auto
    matchers: Annotated[int | None, matchers_option("8")] = None
    partitioner: PartitionerOption = "salb+"
    placement: PlacementOption = "anchor"
    matcher: MatcherOption = MatcherName.kernel
    refresh_plan_every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Interval to learn a new plan.", show_default="never")
    ] = None
    refresh_plan_factor: Annotated[
        float, typer.Option(metavar="X", help="Learn a plan if imbalance × spread grows X times; 0: never.")
    ] = 1.5
    rebalance_factor: Annotated[
        float, typer.Option(metavar="X", help="Move cells if the loads differ X times (spatial plan); 0: never.")
    ] = 1.5
    cell_selection: Annotated[
        CellSelection, typer.Option(metavar="gr+|gr|dp|si|ra", help="Algorithm that chooses the cells to move.")
    ] = CellSelection.gr_plus

    @property
    def refresh_every_s(self) -> float | None:
        every = self.refresh_plan_every
        return None if every is None else parse_seconds(every, "--refresh-plan-every")

    def check(self, shed: ShedPolicy) -> None:
        for option, factor in (
            ("--refresh-plan-factor", self.refresh_plan_factor),
            ("--rebalance-factor", self.rebalance_factor),
        ):
            if not (factor == 0 or factor > 1):
                raise InputError(f"{option} {factor:g}: must be greater than 1, or 0 for never.")
        if self == PlanOptions() and shed == ShedPolicy.off:
            return  # what follows imports numba, which would delay the JVM by a second
        from tidings.balance.spec import PlanSpec

        spec = PlanSpec.parse(self.partitioner, self.matchers, self.placement)
        is_replicated, refreshes = self.plan == ExecutionMode.replicated, self.refresh_every_s is not None
        if spec.is_spatial and shed != ShedPolicy.off:
            raise InputError(f"--shed {shed} needs a word plan, but {self.partitioner!r} makes a spatial plan.")
        if is_replicated and shed != ShedPolicy.off:
            raise InputError(f"--shed {shed} needs the partitioned mode. Remove --plan replicated.")
        if is_replicated and refreshes:
            raise InputError("--refresh-plan-every needs the partitioned mode. Remove --plan replicated.")

    def refresh_policy(self) -> RefreshPolicy:
        from tidings.balance.refresh_policy import RefreshPolicy

        return RefreshPolicy(self.refresh_every_s, self.refresh_plan_factor or None)

    def rebalance_options(self) -> RebalanceOptions:
        from tidings.balance.rebalance.options import RebalanceOptions

        every_s = self.refresh_every_s or RebalanceOptions().interval_s
        return RebalanceOptions(self.rebalance_factor or None, self.cell_selection.value, interval_s=every_s)


@dataclass(frozen=True, slots=True)
class OverloadOptions:
    """What to do when posts arrive faster than they can be matched."""

    PANEL = "Overload"

    shed: Annotated[
        ShedPolicy,
        typer.Option(
            metavar="off|consensus|subscription|random",
            help="Policy that sheds posts if matches are too late.",
        ),
    ] = ShedPolicy.off
    max_latency: Annotated[
        str, typer.Option(metavar="DURATION", help="Latency of matches above which --shed applies.")
    ] = "5 s"

    @property
    def max_latency_s(self) -> float:
        return parse_seconds(self.max_latency, "--max-latency")

    def max_posts_per_batch(self) -> int:
        if self.shed == ShedPolicy.off:
            return MAX_POSTS_PER_BATCH
        return max(1, min(MAX_POSTS_PER_BATCH, round(_POSTS_PER_LATENCY_SECOND * self.max_latency_s)))


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """Where the stream keeps its state, how long, and what it exposes."""

    PANEL = "State and operation"

    state: StateOption = DEFAULT_STATE
    work_dir: WorkDirOption = None
    keep_matches: KeepMatchesOption = 10_000
    keep_days: KeepDaysOption = 30.0
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT", min=0, max=65535, help="Loopback port of Prometheus metrics.", show_default="none"
        ),
    ] = None
    master: MasterOption = None
    config: ConfigOption = None

    def locate(self) -> StateLocation:
        return locate_state(self.state, self.work_dir)


@dataclass(frozen=True, slots=True)
class CorrelationOptions:
    """Whether and over which windows tags are correlated."""

    PANEL = TrackingOptions.PANEL

    correlate: Annotated[bool, typer.Option("--correlate", help="Track correlations of tags.")] = False
    window: Annotated[str, typer.Option(metavar="DURATION", help="Length of a window.")] = "1 h"
    slide: SlideOption = None
    lateness: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Allowed lateness; older posts are dropped.", show_default="the slide"),
    ] = None
    partitions: PartitionsOption = 8
    keep_windows: Annotated[int, typer.Option(metavar="N", min=1, help="Number of reported windows kept.")] = 500

    def live_settings(self, tracking: TrackingOptions) -> StreamCorrelationSettings | None:
        """Return the settings of the correlation query, or None without --correlate. Raises InputError."""
        if not self.correlate:
            return None
        from tidings.correlate.settings import StreamCorrelationSettings

        settings = tracking.settings(self.window, self.slide, partitions=self.partitions)
        late_us = settings.slide_us if self.lateness is None else parse_microseconds(self.lateness, "--lateness")
        return StreamCorrelationSettings(settings, late_us, tracking.tracked_words(), self.keep_windows)


@expand_groups
def run(
    source: InputOptions,
    storage: StorageOptions,
    plan: PlanOptions,
    overload: OverloadOptions,
    correlation: CorrelationOptions,
    tracking: TrackingOptions,
) -> None:
    check_master(storage.master)
    location = storage.locate()
    source.check()
    trigger_s, max_latency_s = parse_seconds(source.trigger, "--trigger"), overload.max_latency_s
    plan.check(overload.shed)
    live = correlation.live_settings(tracking)
    _start_jvm(source, storage, location)
    from tidings.store import Retention  # imported late: it loads the database drivers, and the next two load Spark
    from tidings.stream.app import run_stream
    from tidings.stream.options import StreamOptions

    is_shedding = overload.shed != ShedPolicy.off
    options = StreamOptions(
        posts=source.posts,
        store_url=location.store,
        work_dir=location.work_dir,
        sink=source.sink,
        trigger=f"{round(trigger_s * 1000)} milliseconds",
        max_posts_per_batch=source.max_posts_per_batch or overload.max_posts_per_batch(),
        master=storage.master,
        execution_mode=ExecutionMode.partitioned.value if is_shedding else plan.plan.value,
        matchers=plan.matchers,
        partitioner=plan.partitioner,
        placement=plan.placement,
        matcher=plan.matcher.value,
        refresh_policy=plan.refresh_policy(),
        rebalance=plan.rebalance_options(),
        shed=overload.shed.value,
        max_latency_s=max_latency_s,
        metrics_port=storage.metrics_port,
        retention=Retention(max_matches_per_subscription=storage.keep_matches, max_age_s=storage.keep_days * 86_400),
        clean_source=source.clean_source.value,
        repin_lost_versions=source.repin_lost_versions,
        once=source.once,
        correlate=live,
    )
    run_stream(options)


def _start_jvm(source: InputOptions, storage: StorageOptions, location: StateLocation) -> None:
    """Start the JVM first: it needs as long as everything else that has to be imported and opened."""
    location.protect()
    if any(place.startswith("kafka://") for place in (source.posts, source.sink)):
        return  # it starts with the connector
    from tidings.private_files import make_private_folder
    from tidings.spark.gateway import start_jvm
    from tidings.spark.run_files import place_run_files

    make_private_folder(location.work_dir)
    place_run_files(location.work_dir)
    start_jvm(storage.master)


def _is_same_place(sink: str, source: str) -> bool:
    """Return whether matches would arrive as posts again. Raises InputError if the sink is invalid."""
    if sink == "store":
        return False
    if sink.startswith("kafka://"):
        from tidings.spark.kafka import parse_kafka_url

        topic = parse_kafka_url(sink)
        return source.startswith("kafka://") and topic.is_same_topic(parse_kafka_url(source))
    if "://" in sink:
        raise InputError(f"--sink {sink}: not supported. Give store, a directory or kafka://SERVERS/TOPIC.")
    if Path(sink).is_file():
        raise InputError(f"--sink {sink}: a file, not a directory. Give a directory.")
    return Path(sink).resolve().is_relative_to(Path(source).resolve())
