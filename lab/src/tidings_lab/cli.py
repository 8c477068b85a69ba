"""The command `tidings-lab`: list, run and report experiments; benchmarks, soak test and calibration.

Exit codes: 0 done; 1 the machine failed, or contenders disagree; 2 the caller can correct it; 130 interrupted.
"""

from __future__ import annotations

import json
import shlex
import signal
import sys
import time
import tomllib
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.table import Table

from tidings.cli.console import print_error, print_sentence, screen
from tidings.errors import InputError, MissingExtraError, OutputError, TidingsError
from tidings.extras import explain_missing
from tidings_lab import REPOSITORY
from tidings_lab.progress import StepProgress, print_line
from tidings_lab.results import RESULTS

_DEBUG = "--debug"
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM

app = typer.Typer(
    name="tidings-lab",
    help="Experiments and benchmarks of Tidings: repeat the experiments of the papers and measure the code.",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)

RUN_HELP = (
    "Run an experiment, or all of them, and store every measured row as JSON.\n\n"
    "Uses the real tweets if present (TIDINGS_DATA, default ../shared/data next to the repository), otherwise "
    "generated posts. --quick takes less than two minutes per experiment, --medium about half an hour for all of "
    "one paper and reaches both ends of every axis; a full run takes minutes to hours.\n\n"
    "Every finished step is stored. A repeated command continues, and skips what is complete and measured the code of "
    "today. With --minutes the experiments share the time; the report says which steps are missing."
)
RUN_EXAMPLES = """[bold]Examples[/]

tidings-lab run scalability --quick

tidings-lab run scalability --set folds_run=2 --set matchers=[16,256]

tidings-lab run --all --minutes 240 && tidings-lab report --out docs/lab"""
REPORT_HELP = (
    "Write a page with every claim, its verdict and the figures, from the newest stored results.\n\n"
    "Full results are preferred to quick ones. Nothing is measured."
)
BENCH_HELP = "Run the benchmarks, store their results and write docs/benchmarks.md with its figures."
CALIBRATE_HELP = (
    "Measure the costs of the provisioner on this machine (some minutes) and write them to a file.\n\n"
    "`tidings provision --costs FILE` uses the file."
)

ResultsOption = Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the results.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
QuickOption = Annotated[bool, typer.Option("--quick", help="Small samples, to check that it works.")]
PostsOption = Annotated[int | None, typer.Option(min=1, help="Number of posts (default: all).", show_default=False)]
SubscriptionsOption = Annotated[
    int | None, typer.Option(min=1, help="Number of subscriptions (default: 100,000).", show_default=False)
]
OutOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the results.")]
DocsOption = Annotated[
    Path | None, typer.Option("--docs", metavar="DIR", help="Folder of the page and figures.", show_default=False)
]
NoFiguresOption = Annotated[bool, typer.Option("--no-figures", help="Do not write the page and figures.")]


@app.command("list", help="List the experiments with their last run and its verdict.")
def list_experiments(results: ResultsOption = RESULTS, as_json: JsonOption = False) -> None:
    from tidings_lab.claims import STALE, summarize
    from tidings_lab.experiment import load_experiments
    from tidings_lab.runner import changed_code, find_result

    rows = []
    for experiment in load_experiments():
        newest = find_result(experiment, results)
        last = None if newest is None else newest[1]
        is_stale = last is not None and bool(changed_code(experiment, last))
        rows.append(
            {
                "name": experiment.name,
                "title": experiment.title,
                "claims": [claim.text for claim in experiment.claims],
                "last_run": last and last["started"],
                "size": last and last["size"],
                "verdict": STALE if is_stale else last and summarize(experiment, last["rows"]),
            }
        )
    if as_json:
        print(json.dumps({"experiments": rows}))
        return
    table = Table("name", "title", "first claim", "last run", "verdict", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        last_run = f"{row['last_run'][:10]}, {row['size']}" if row["last_run"] else "never"
        claims: Any = row["claims"]
        table.add_row(f"[bold]{row['name']}[/]", str(row["title"]), claims[0], last_run, str(row["verdict"] or ""))
    screen().print(table)


@app.command("run", help=RUN_HELP, epilog=RUN_EXAMPLES)
def run_experiments(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A name from `tidings-lab list`.", show_default=False)
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Run all experiments.")] = False,
    quick: QuickOption = False,
    medium: Annotated[
        bool, typer.Option("--medium", help="Both ends of every axis, with fewer points and repetitions.")
    ] = False,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True)] = False,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a parameter; may be repeated.", show_default=False),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0, help="Begin no step after this time (default: no limit).", show_default=False),
    ] = None,
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    from tidings_lab.experiment import find_experiment, load_experiments
    from tidings_lab.runner import find_complete, run_experiment

    if (name is None) != is_all:
        raise InputError("NAME or --all: give exactly one of them. `tidings-lab list` shows the names.")
    changes = _parse_changes(change or [])
    if quick and medium:
        raise InputError("--quick and --medium: give at most one of them.")
    size = "tiny" if tiny else "quick" if quick else "medium" if medium else "full"
    pending = list(load_experiments()) if name is None else [find_experiment(name)]
    end = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    verdicts = {}
    while pending:
        experiment = pending.pop(0)
        now = time.monotonic()
        found = find_complete(experiment, size, results, changes)
        if found is None:
            share = now + max(0.0, end - now) / (len(pending) + 1)  # of the time that is left
            with StepProgress(experiment.title) as progress:
                found = run_experiment(experiment, size, results, progress.update, changes, share)
        verdicts[experiment.name] = _describe_run(experiment, *found)
        if not as_json:
            _print_run(experiment.title, verdicts[experiment.name])
    if as_json:
        print(json.dumps(verdicts))


@app.command("report", help=REPORT_HELP)
def report(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the page.")] = Path("lab/report"),
    results: ResultsOption = RESULTS,
    as_json: JsonOption = False,
) -> None:
    from tidings_lab.report import write_report

    page, verdicts = write_report(results, out)
    if as_json:
        print(json.dumps({"page": str(page), "verdicts": verdicts}))
        return
    for name, verdict in verdicts.items():
        screen().print(f"{name}: {verdict}", markup=False)
    screen().print(f"Written: {page}", markup=False)


@app.command("bench", help=BENCH_HELP)
def run_bench(
    quick: QuickOption = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A benchmark or a contender; may be repeated.", show_default=False),
    ] = None,
    posts: PostsOption = None,
    subscriptions: SubscriptionsOption = None,
    located: Annotated[
        int | None, typer.Option(min=1, help="Subscriptions of `space` (default: 1,000,000).", show_default=False)
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="Repetitions of every measurement (default: 5).", show_default=False)
    ] = None,
    minutes: Annotated[float | None, typer.Option(help="Duration of `soak` (default: 60).", show_default=False)] = None,
    rate: Annotated[int, typer.Option(min=1, help="Posts per second of `soak`.")] = 1_000,
    out: OutOption = RESULTS,
    docs: DocsOption = None,
    no_figures: NoFiguresOption = False,
) -> int:
    from tidings_lab.bench import BenchOptions, run_benchmarks

    options = BenchOptions(
        only=only or (),
        is_quick=quick,
        posts=posts,
        subscriptions=subscriptions,
        located_subscriptions=located,
        repetitions=repetitions,
        minutes=minutes,
        posts_per_second=rate,
        out=out,
        docs=docs or REPOSITORY / "docs",
        has_figures=not no_figures,
        command=shlex.join(["tidings-lab", *_arguments]),
    )
    return run_benchmarks(options)


@app.command("soak", help="Run the stream for an hour while subscriptions change; store and draw what it used.")
def run_soak(
    minutes: Annotated[float, typer.Option(help="Duration.")] = 60.0,
    rate: Annotated[int, typer.Option(min=1, help="Posts per second.")] = 1_000,
    posts: PostsOption = None,
    subscriptions: SubscriptionsOption = None,
    out: OutOption = RESULTS,
    docs: DocsOption = None,
    no_figures: NoFiguresOption = False,
) -> int:
    return run_bench(
        only=["soak"],
        posts=posts,
        subscriptions=subscriptions,
        minutes=minutes,
        rate=rate,
        out=out,
        docs=docs,
        no_figures=no_figures,
    )


@app.command("calibrate", help=CALIBRATE_HELP)
def calibrate(
    costs: Annotated[Path, typer.Option("--costs", metavar="FILE", help="File to write.")] = Path("costs.json"),
    quick: QuickOption = False,
) -> None:
    from tidings_lab import calibrate_costs

    sizes = calibrate_costs.QUICK if quick else calibrate_costs.CalibrationSizes()
    calibration = calibrate_costs.calibrate(print_line, sizes)
    try:
        costs.write_text(calibration.to_json(), "utf-8")
    except OSError as error:
        raise OutputError(f"{costs}: cannot write the costs ({error.strerror or error}).") from error
    screen().print(f"Written: {costs}", markup=False)


def _parse_changes(assignments: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE with the value syntax of the experiment files (TOML)."""
    try:
        return tomllib.loads("\n".join(assignments))
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"--set {', '.join(assignments)}: expected NAME=VALUE, for example --set folds_run=2."
        ) from error


def _describe_run(experiment: Any, path: Path, result: dict[str, Any]) -> dict[str, Any]:
    from tidings_lab.claims import check_claim, summarize

    verdicts = [(claim, check_claim(claim, result["rows"])) for claim in experiment.claims]
    return {
        "results": str(path),
        "seconds": result["seconds"],
        "steps": [result["steps_done"], result["steps"]],
        "verdict": summarize(experiment, result["rows"]),
        "claims": [
            {"claim": claim.text, "source": claim.source, "verdict": verdict.outcome, "reason": verdict.reason}
            for claim, verdict in verdicts
        ],
    }


def _print_run(title: str, run: dict[str, Any]) -> None:
    console = screen()
    done, total = run["steps"]
    left = "" if done == total else f", {done:,} of {total:,} steps: run it again to continue"
    console.print(f"[bold]{title}[/]: {run['verdict']}, {run['seconds']:,.0f} s{left}, {run['results']}")
    for claim in run["claims"]:
        console.print(f"  {claim['verdict']}: {claim['claim']}", markup=False)
        console.print(f"    {claim['reason']}", markup=False, style="dim")


_arguments: tuple[str, ...] = ()  # of the command that runs; results store the command line


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code. Every error is printed as one sentence; --debug adds a traceback."""
    global _arguments
    is_debug = _DEBUG in arguments
    _arguments = tuple(argument for argument in arguments if argument != _DEBUG)
    try:
        return int(app(args=list(_arguments), prog_name="tidings-lab", standalone_mode=False) or 0)
    except Exception as error:
        if is_debug:
            traceback.print_exception(error)
        return _report_error(error, is_debug)


def _report_error(error: Exception, is_debug: bool) -> int:
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("tidings"):
        error = explain_missing(error) or MissingExtraError(str(error.name), "tidings-lab")
    if isinstance(error, TidingsError):
        print_error(error)
        return error.exit_code
    if hasattr(error, "format_message"):  # an invalid command line
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "tidings-lab"
        message = " ".join(error.format_message().split())
        print_sentence(f"{message}{'' if message.endswith(('.', '?')) else '.'} Try: {command} --help")
        return 2
    first_line = (str(error).strip().splitlines() or [""])[0][:300]
    hint = "" if is_debug else " Add --debug for the traceback."
    print_sentence(f"unexpected error: {type(error).__name__}: {first_line}{hint}")
    return 1


def _exit_on_sigterm(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_TERMINATED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `tidings-lab`."""
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        print_sentence("interrupted.")
        code = _INTERRUPTED
    sys.exit(code)


if __name__ == "__main__":
    main()
