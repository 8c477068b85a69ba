"""`tidings provision`: how many machines a number of subscriptions and feeds takes, and why."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.duration import seconds
from tidings.cli.quantity import bits_a_second, byte_count, count
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.provision.costs import Calibration

HELP = """Say how many machines a number of subscriptions and feeds takes.

It begins with one crawler, one filter and one reflector, looks for a machine that would have to bear more than it can
(bandwidth in or out, processor, memory), gives that service one more, and goes on until all is well. What an article, a
subscription and a feed cost was measured on this code: --calibrate measures it on this machine, --costs and --cost
replace it. The answer: the topology, what is left of everything on every machine, the node table of the talk this comes
from beside ours, and what to start where."""

EXAMPLES = """[bold]Examples[/]

tidings provision --subscriptions 10M --feeds 1M

tidings provision --subscriptions 200K --feeds 5,000 --bandwidth 1Gbps --memory 16GB --cores 8 --poll 5min

tidings provision --subscriptions 10M --feeds 1M --cost match_share=1e-5 --svg topology.svg

tidings provision --calibrate --costs here.json"""

ARTICLES_PER_FEED_DAY = 0.31  # of the 21 feeds of the history that ships with the lab's data: 1,118 in 3,576 feed-days


class Plan(StrEnum):
    """How the work of filters is shared out."""

    auto = "auto"
    replicated = "replicated"
    partitioned = "partitioned"
    broadcast = "broadcast"


def provision(
    subscriptions: Annotated[
        str | None, typer.Option("--subscriptions", "-s", metavar="N", help="How many, as in 10M.", show_default=False)
    ] = None,
    feeds: Annotated[
        str | None, typer.Option("--feeds", "-f", metavar="N", help="How many are crawled.", show_default=False)
    ] = None,
    bandwidth: Annotated[str, typer.Option(help="Of a machine, each way.")] = "25Mbps",
    memory: Annotated[str, typer.Option(help="Of a machine.")] = "1GB",
    cores: Annotated[float, typer.Option(min=0.01, help="Of a machine, as fast as those of the calibration.")] = 4,
    articles_per_feed_day: Annotated[
        float, typer.Option(min=0, metavar="R", help="New articles a day of an average feed.")
    ] = ARTICLES_PER_FEED_DAY,
    poll: Annotated[str, typer.Option(metavar="TIME", help="A reader asks for each subscription so often.")] = "15min",
    crawl: Annotated[str, typer.Option(metavar="TIME", help="Each feed is crawled so often.")] = "15min",
    queue: Annotated[int, typer.Option(min=1, help="The most hits a feed shows a reader.")] = 100,
    keep: Annotated[str, typer.Option(metavar="TIME", help="The longest a hit is shown.")] = "7 days",
    headroom: Annotated[float, typer.Option(min=0, max=0.95, help="Share of everything that must stay free.")] = 0.0,
    plan: Annotated[
        Plan,
        typer.Option(
            help="Every filter with all subscriptions; or these shared out by words; or every filter with some of them "
            "and all articles, as in the talk; or what takes the fewest machines."
        ),
    ] = Plan.auto,
    costs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Costs made by --calibrate; with it: where to write them.", show_default=False
        ),
    ] = None,
    cost: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Replace a cost; may repeat.", show_default=False),
    ] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Measure the costs here; minutes.")] = False,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the topology into this file.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    from tidings.provision.demand import Demand, Node

    changes = _changes(cost or [])
    if (subscriptions is None) != (feeds is None) or (subscriptions is None and not calibrate):
        raise InputError("Say how many --subscriptions and how many --feeds there are, as in 10M and 1M.")
    node = Node(bits_a_second(bandwidth, "--bandwidth"), byte_count(memory, "--memory"), cores, headroom)
    demand = Demand(
        subscriptions=count(subscriptions or "0", "--subscriptions"),
        feeds=count(feeds or "0", "--feeds"),
        articles_per_feed_day=articles_per_feed_day,
        poll_s=seconds(poll, "--poll"),
        crawl_s=seconds(crawl, "--crawl"),
        queue_hits=queue,
        keep_s=seconds(keep, "--keep"),
    )
    known = _calibrated(costs, as_json) if calibrate else _loaded(costs)
    if subscriptions is None:
        _print_costs(known, as_json)
        return
    from tidings.cli.provision_tables import print_answer
    from tidings.provision.answer import answer
    from tidings.provision.model import PLANS

    chosen = next((one for one in PLANS if one == plan), None)
    told = answer(demand, node, known.costs.changed(changes), chosen)
    if svg is not None:
        _write(svg, told.picture())
    if as_json:
        print(json.dumps({**told.described(), "calibration": {**known.origin}}))
    else:
        print_answer(told, known, changes)


def _loaded(path: Path | None) -> Calibration:
    from tidings.provision.costs import load_calibration

    return load_calibration(path)


def _calibrated(path: Path | None, quiet: bool) -> Calibration:
    from tidings.cli.progress import Progress

    try:
        from tidings_lab.calibrate_costs import calibrate
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tidings"):
            raise
        raise InputError(f"--calibrate needs {error.name}; install it with: pip install 'tidings[bench]'") from error
    with Progress(quiet=quiet) as progress:
        found = calibrate(lambda what: progress.note(what, None))
    if path is not None:
        _write(path, found.to_json())
    return found


def _print_costs(known: Calibration, as_json: bool) -> None:
    if as_json:
        print(known.to_json(), end="")
        return
    from tidings.cli.provision_tables import print_costs

    print_costs(known, {})


def _changes(told: list[str]) -> dict[str, float]:
    changes = {}
    for one in told:
        name, _, value = one.partition("=")
        try:
            changes[name.strip()] = float(value)
        except ValueError as error:
            raise InputError(f"--cost takes NAME=VALUE, as in --cost match_share=1e-5; {one!r} is none.") from error
    return changes


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise OutputError(f"{path}: it could not be written ({error.strerror or error}).") from error
