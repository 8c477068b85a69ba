"""`tidings plan`: learn partition plans, show them, and have a stream refresh its plan."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tidings.cli.console import screen
from tidings.cli.options.plan import PARTITIONERS
from tidings.cli.options.state import DEFAULT_STATE, StateLocation, StateOption, WorkDirOption, locate_written_state
from tidings.cli.plan_space import (
    DeltaOption,
    EpsilonOption,
    SampleSpec,
    SigmaOption,
    ThetaOption,
    describe_spatial_plan,
    draw_map,
    learn_spatial_plan,
    measure_spatial_plan,
    parse_tree_settings,
)
from tidings.cli.plan_words import describe_word_plan, learn_word_plan, measure_word_plan_on
from tidings.cli.progress import Progress
from tidings.errors import InputError, OutputError

if TYPE_CHECKING:
    from tidings.plan.space import SpatialPlan
    from tidings.plan.words import LearnedPlan

_MAX_BARS = 32  # matchers shown on a screen

app = typer.Typer(help="Learn, show and refresh partition plans.")

LEARN_HELP = (
    "Learn from a sample of POSTS which matcher is responsible for which terms, or for which positions and terms.\n\n"
    "POSTS is a Parquet, JSON Lines or CSV file, a directory or a glob. A post is routed to the matchers of its terms, "
    "so a good plan keeps terms of the same posts together (few matchers per post) and balances the load. Terms too "
    "frequent for one matcher are split over several. Use the plan with [bold]tidings match --plan partitioned "
    f"--partitioner PLAN[/].\n\n{PARTITIONERS} The partitioner hash does not learn."
)
LEARN_EXAMPLES = """[bold]Examples[/]

tidings plan learn posts/ --matchers 16 --out words.plan

tidings plan learn posts.parquet --algorithm gfcl --matchers 64 --subscriptions subs.txt --out words.plan

tidings plan learn posts.parquet --algorithm hybrid --subscriptions subs.jsonl --out spatial.plan"""
SHOW_HELP = (
    "Show a plan; with --posts, also how it distributes them.\n\n"
    "spread: matchers per post. imbalance: largest load over mean load. cov, gini: inequality of the loads. "
    "throughput: posts that all matchers process while one matcher could process one. With --subscriptions, posts are "
    "routed and matched by an index of these, and the processor time of each matcher is predicted."
)
SHOW_EXAMPLES = """[bold]Examples[/]

tidings plan show words.plan

tidings plan show words.plan --posts posts/ --subscriptions subs.txt --json

tidings plan show spatial.plan --posts posts/ --subscriptions subs.jsonl --map spatial.svg"""

REFRESH_HELP = (
    "Have a stream learn a new plan from recent posts.\n\n"
    "The stream continues and switches plans between two batches; no match is lost or repeated. "
    "[bold]tidings run --refresh-plan-every[/] does this periodically."
)
REFRESH_EXAMPLES = """[bold]Examples[/]

tidings plan refresh --state news"""

RESIZE_HELP = (
    "Change the number of matchers of a stream.\n\n"
    "The stream continues, builds the index for the new number in the background, and switches between two batches; no "
    "match is lost or repeated. A later start with another [bold]--matchers[/] does the same."
)
RESIZE_EXAMPLES = """[bold]Examples[/]

tidings plan resize 16 --state news"""

SubscriptionsOption = Annotated[
    Path | None,
    typer.Option("--subscriptions", "-s", metavar="SUBS", help="Subscriptions to learn or to evaluate the plan for."),
]
SampleOption = Annotated[int, typer.Option(min=1, metavar="N", help="Maximum posts, sampled at random.")]


@app.command("learn", help=LEARN_HELP, epilog=LEARN_EXAMPLES)
def learn(
    posts: Annotated[str, typer.Argument(metavar="POSTS", help="File, directory or glob.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PLAN", help="File for the plan.", show_default=False)],
    algorithm: Annotated[
        str,
        typer.Option(metavar="NAME", help="Partitioner that learns."),
    ] = "salb+",
    matchers: Annotated[int, typer.Option(metavar="N", help="Number of matchers, 1 to 1,024.")] = 16,
    subscriptions: SubscriptionsOption = None,
    sample: SampleOption = 1_000_000,
    split: Annotated[bool, typer.Option("--split/--no-split", help="Split terms too frequent for one matcher.")] = True,
    sigma: SigmaOption = None,
    delta: DeltaOption = None,
    epsilon: EpsilonOption = None,
    theta: ThetaOption = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sample.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace PLAN if it exists.")] = False,
    json_summary: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
) -> None:
    from tidings.balance.requirements import check_installed
    from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS
    from tidings.balance.word_registry import WORD_ALGORITHMS
    from tidings.plan.words import check_matcher_count

    learners = (*WORD_ALGORITHMS, *SPATIAL_PARTITIONERS)
    if algorithm not in learners:
        raise InputError(f"--algorithm {algorithm}: not a partitioner that learns. Use {', '.join(learners)}.")
    check_installed(algorithm)
    check_matcher_count(matchers)
    settings = parse_tree_settings(algorithm, {"sigma": sigma, "delta": delta, "epsilon": epsilon, "theta": theta})
    _check_out(out, overwrite)
    sample_spec = SampleSpec(posts, subscriptions, sample, seed)
    plan: LearnedPlan | SpatialPlan
    with Progress(quiet=json_summary) as progress:
        if algorithm in SPATIAL_PARTITIONERS:
            plan, summary = learn_spatial_plan(algorithm, matchers, sample_spec, settings, progress)
        else:
            plan, summary = learn_word_plan(algorithm, matchers, split, sample_spec, progress)
        _save(plan, out)
    _print({**summary, "out": str(out)}, json_summary)


@app.command("show", help=SHOW_HELP, epilog=SHOW_EXAMPLES)
def show(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="File made by `tidings plan learn`.", show_default=False)
    ],
    posts: Annotated[
        str | None,
        typer.Option("--posts", metavar="POSTS", help="Posts to evaluate the plan with.", show_default=False),
    ] = None,
    subscriptions: SubscriptionsOption = None,
    sample: SampleOption = 1_000_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sample.")] = 0,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE.svg",
            help="Draw the cells of a spatial plan; with --posts their loads.",
            show_default=False,
        ),
    ] = None,
    json_summary: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    from tidings.plan.load import read_plan
    from tidings.plan.words import LearnedPlan

    loaded = read_plan(plan)
    if posts is None and subscriptions is not None:
        raise InputError("--subscriptions: they are matched with --posts. Give --posts too.")
    sample_spec = None if posts is None else SampleSpec(posts, subscriptions, sample, seed)
    if not isinstance(loaded, LearnedPlan):
        _show_spatial_plan(loaded, sample_spec, picture, json_summary)
        return
    if picture is not None:
        raise InputError(f"{plan}: a word plan has no map. Remove --map.")
    summary = describe_word_plan(loaded)
    if sample_spec is not None:
        with Progress(quiet=json_summary) as progress:
            summary |= measure_word_plan_on(loaded, sample_spec, progress)
    _print(summary, json_summary)


def _show_spatial_plan(plan: SpatialPlan, sample_spec: SampleSpec | None, picture: Path | None, as_json: bool) -> None:
    summary = describe_spatial_plan(plan)
    with Progress(quiet=as_json) as progress:
        workload = None if sample_spec is None else sample_spec.read_workload(progress)
    if workload is not None:
        summary |= measure_spatial_plan(plan, workload)
    if picture is not None:
        draw_map(plan, workload, picture)
        summary["map"] = str(picture)
    _print(summary, as_json)


@app.command("refresh", help=REFRESH_HELP, epilog=REFRESH_EXAMPLES)
def refresh(state: StateOption = DEFAULT_STATE, work_dir: WorkDirOption = None) -> None:
    location, is_running = _locate_partitioned(state, work_dir)
    with location.open_existing() as store:
        store.plan_refresh.request()
    when = "and switches to it between two batches if it is better" if is_running else "when it runs next"
    print(f"requested: the stream learns a new plan {when}. `tidings status{location.option}` shows its version.")


@app.command("resize", help=RESIZE_HELP, epilog=RESIZE_EXAMPLES)
def resize(
    matchers: Annotated[int, typer.Argument(metavar="N", help="Number of matchers, 1 to 1,024.", show_default=False)],
    state: StateOption = DEFAULT_STATE,
    work_dir: WorkDirOption = None,
) -> None:
    from tidings.plan.words import check_matcher_count

    check_matcher_count(matchers)
    location, is_running = _locate_partitioned(state, work_dir)
    with location.open_existing() as store:
        store.plan_refresh.request_matchers(matchers)
    when = "between two batches" if is_running else "when it runs next"
    print(f"requested: the stream changes to {matchers} matchers {when}. `tidings status{location.option}` shows it.")


def _locate_partitioned(state: str, work_dir: Path | None) -> tuple[StateLocation, bool]:
    """Return the state and whether its stream runs. Raises InputError if its index is known to be replicated."""
    from tidings.stream.metrics.health import Condition, health
    from tidings.stream.metrics.snapshot import load_snapshot

    location = locate_written_state(state, work_dir)
    metrics = load_snapshot(location.work_dir)
    if metrics is not None and metrics.execution_mode == "replicated":
        raise InputError(
            f"{location.display_name}: the index of this stream is replicated, so it has no plan. Run it with --plan "
            "partitioned."
        )
    return location, health(metrics, time.time()).condition in (Condition.running, Condition.stale)


def _check_out(out: Path, overwrite: bool) -> None:
    if out.is_dir() or not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise InputError(f"{out}: a file cannot be written there. Choose another --out.")
    if out.exists() and not overwrite:
        raise InputError(f"{out}: exists already. Choose another --out or add --overwrite.")


def _save(plan: LearnedPlan | SpatialPlan, out: Path) -> None:
    """Write the plan completely or not at all."""
    from tidings.plan.space import SpatialPlan, write_spatial_plan
    from tidings.plan.words import write_word_plan

    partial = out.with_name(f".{out.name}.partial-{os.getpid()}")
    try:
        write_spatial_plan(plan, partial) if isinstance(plan, SpatialPlan) else write_word_plan(plan, partial)
        partial.replace(out)
    except OSError as error:
        raise OutputError(f"{out}: cannot be written ({error.strerror or error}).") from error
    finally:
        partial.unlink(missing_ok=True)


def _print(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in summary.items():
        if not isinstance(value, list):
            table.add_row(name.replace("_", " "), f"{value:,}" if isinstance(value, int | float) else str(value))
    screen().print(table)
    if "loads" in summary:
        _print_loads(summary["loads"], summary.get("predicted_ms"))


def _print_loads(loads: list[int], times_ms: list[float] | None = None) -> None:
    """Print a bar per matcher, by posts or by predicted time if known; of many matchers only both ends."""
    ranked = sorted(enumerate(loads if times_ms is None else times_ms), key=lambda item: -item[1])
    shown = ranked if len(ranked) <= _MAX_BARS else [*ranked[: _MAX_BARS // 2], *ranked[-_MAX_BARS // 2 :]]
    longest = ranked[0][1] or 1
    for position, (matcher, load) in enumerate(shown):
        if len(shown) < len(ranked) and position == _MAX_BARS // 2:
            screen().print(f"  … {len(ranked) - len(shown)} more matchers")
        bar = "█" * max(1, round(40 * load / longest)) if load else ""
        time_text = "" if times_ms is None else f", {times_ms[matcher]:,.3g} ms predicted"
        screen().print(f"  {matcher:>4} {bar} {loads[matcher]:,} posts{time_text}")
