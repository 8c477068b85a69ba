"""`tidings provision`: compute how many machines a number of subscriptions and feeds needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.options.common import JsonOption
from tidings.cli.options.groups import expand_groups
from tidings.cli.values import parse_bits_per_second, parse_bytes, parse_count
from tidings.durations import parse_seconds
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.provision.demand import Demand, NodeSize

HELP = """Compute how many machines a number of subscriptions and feeds needs.

It starts with one crawler, one filter and one reflector. While a machine exceeds a limit (bandwidth in or out, cores,
memory), it adds a machine to that service. The costs of an article, a subscription and a feed were measured on this
code; `tidings-lab calibrate` measures them on your machine, --costs and --cost replace them. The output has the
topology, the load of every machine, the node table of the Cobra talk next to ours, and the commands to start."""

EXAMPLES = """[bold]Examples[/]

tidings provision --subscriptions 10M --feeds 1M

tidings provision --subscriptions 200K --feeds 5,000 --bandwidth 1Gbps --memory 16GB --cores 8 --poll 5min

tidings provision --subscriptions 10M --feeds 1M --cost match_share=1e-5 --svg topology.svg"""

ARTICLES_PER_FEED_DAY = 0.31  # of the 21 feeds in the lab's history: 1,118 articles in 3,576 feed-days
_CALIBRATION_MOVED = "Calibration moved to `tidings-lab calibrate` (pip install tidings-lab)."


class FilterPlan(StrEnum):
    """How subscriptions are distributed over filters."""

    auto = "auto"
    replicated = "replicated"
    partitioned = "partitioned"
    broadcast = "broadcast"


@dataclass(frozen=True, slots=True)
class DemandOptions:
    """What the deployment must handle."""

    PANEL = "Demand"

    subscriptions: Annotated[
        str | None,
        typer.Option(
            "--subscriptions", "-s", metavar="N", help="Number of subscriptions, such as 10M.", show_default=False
        ),
    ] = None
    feeds: Annotated[
        str | None, typer.Option("--feeds", "-f", metavar="N", help="Number of feeds, such as 1M.", show_default=False)
    ] = None
    articles_per_feed_day: Annotated[float, typer.Option(min=0, metavar="R", help="New articles per feed and day.")] = (
        ARTICLES_PER_FEED_DAY
    )
    poll: Annotated[str, typer.Option(metavar="DURATION", help="Interval at which readers poll a feed.")] = "15min"
    crawl: Annotated[str, typer.Option(metavar="DURATION", help="Interval at which feeds are visited.")] = "15min"
    queue: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum matches served per subscription.")] = 100
    keep: Annotated[str, typer.Option(metavar="DURATION", help="How long matches are served.")] = "7 days"

    def demand(self) -> Demand:
        from tidings.provision.demand import Demand

        if self.subscriptions is None or self.feeds is None:
            raise InputError("--subscriptions and --feeds are required, such as 10M and 1M.")
        return Demand(
            subscriptions=parse_count(self.subscriptions, "--subscriptions"),
            feeds=parse_count(self.feeds, "--feeds"),
            articles_per_feed_day=self.articles_per_feed_day,
            poll_s=parse_seconds(self.poll, "--poll"),
            crawl_s=parse_seconds(self.crawl, "--crawl"),
            queue_hits=self.queue,
            keep_s=parse_seconds(self.keep, "--keep"),
        )


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """The machines it may use."""

    PANEL = "Machine"

    bandwidth: Annotated[str, typer.Option(metavar="RATE", help="Bandwidth of a machine, each way.")] = "25Mbps"
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory of a machine.")] = "1GB"
    cores: Annotated[
        float, typer.Option(metavar="N", min=0.01, help="Cores of a machine, as fast as those calibrated.")
    ] = 4
    headroom: Annotated[
        float, typer.Option(metavar="SHARE", min=0, max=0.95, help="Share of every resource that stays free.")
    ] = 0.0

    def node(self) -> NodeSize:
        from tidings.provision.demand import NodeSize

        bandwidth = parse_bits_per_second(self.bandwidth, "--bandwidth")
        return NodeSize(bandwidth, parse_bytes(self.memory, "--memory"), self.cores, self.headroom)


@expand_groups
def provision(
    demand: DemandOptions,
    machine: MachineOptions,
    plan: Annotated[
        FilterPlan,
        typer.Option(
            metavar="auto|replicated|partitioned|broadcast",
            help="Distribution of subscriptions; broadcast: all filters see all articles.",
        ),
    ] = FilterPlan.auto,
    costs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Costs measured by `tidings-lab calibrate`.", show_default=False),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Replace one cost. Repeatable.", show_default=False),
    ] = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the topology to this file.", show_default=False)
    ] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", hidden=True, help=_CALIBRATION_MOVED)] = False,
    as_json: JsonOption = False,
) -> None:
    if calibrate:
        raise InputError(_CALIBRATION_MOVED)
    from tidings.cli.provision_tables import print_report
    from tidings.provision.answer import build_report
    from tidings.provision.costs import load_calibration
    from tidings.provision.model import FILTER_MODES

    changes = _parse_changes(cost or [])
    required, node = demand.demand(), machine.node()
    calibration = load_calibration(costs)
    mode = next((mode for mode in FILTER_MODES if mode == plan), None)
    report = build_report(required, node, calibration.costs.with_changes(changes), mode)
    if svg is not None:
        _write(svg, report.to_svg())
    if as_json:
        print(json.dumps({**report.to_dict(), "calibration": {**calibration.origin}}))
    else:
        print_report(report, calibration, changes)


def _parse_changes(changes: list[str]) -> dict[str, float]:
    parsed = {}
    for change in changes:
        name, _, value = change.partition("=")
        try:
            parsed[name.strip()] = float(value)
        except ValueError as error:
            raise InputError(f"--cost {change!r}: give NAME=VALUE, such as --cost match_share=1e-5.") from error
    return parsed


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror or error}).") from error
