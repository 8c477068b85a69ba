"""`tidings lab list`, `run` and `report`: the experiments of the papers, run again and judged."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from tidings.cli.console import error_screen, screen
from tidings.errors import InputError

app = typer.Typer(help="Run the experiments of the papers again: list them, run them, write the report.")

RUN_HELP = (
    "Run an experiment, or all of them, and keep every row it measures as JSON.\n\n"
    "Uses the real tweets where they are (TIDINGS_DATA, or ../shared/data beside the repository), else posts that are "
    "made up, and says so. --quick takes less than two minutes an experiment; a full run takes from minutes to hours."
)
RUN_EXAMPLES = """[bold]Examples[/]

tidings lab run scalability --quick

tidings lab run scalability --set folds_run=2 --set matchers=[16,256]

tidings lab run --all && tidings lab report --out docs/lab"""
REPORT_HELP = (
    "Write one page with every claim, the verdict on it and the figures, from the newest raw results.\n\n"
    "Full results are preferred to quick ones. Nothing is measured."
)

Results = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where raw results are kept.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_RESULTS = Path("lab/results")


@app.command("list", help="List the experiments: what they are about, when they ran last, and the verdict then.")
def list_experiments(results: Results = _RESULTS, as_json: AsJson = False) -> None:
    from tidings_lab.claims import summary
    from tidings_lab.experiment import experiments
    from tidings_lab.runner import newest

    told = []
    for one in experiments():
        found = newest(results, one.name)
        last = None if found is None else found[1]
        told.append(
            {
                "name": one.name,
                "title": one.title,
                "claims": [claim.says for claim in one.claims],
                "last_run": None if last is None else last["started"],
                "size": None if last is None else last["size"],
                "verdict": None if last is None else summary(one, last["rows"]),
            }
        )
    if as_json:
        print(json.dumps({"experiments": told}))
        return
    table = Table("name", "title", "first claim", "last run", "verdict", box=None, padding=(0, 2, 0, 0))
    for row in told:
        when = f"{row['last_run'][:10]}, {row['size']}" if row["last_run"] else "never"
        claims: Any = row["claims"]
        table.add_row(f"[bold]{row['name']}[/]", str(row["title"]), claims[0], when, str(row["verdict"] or ""))
    screen().print(table)


@app.command("run", help=RUN_HELP, epilog=RUN_EXAMPLES)
def run(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One of `tidings lab list`.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run all experiments.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Small samples: under two minutes each.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True)] = False,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a parameter; may repeat.", show_default=False),
    ] = None,
    results: Results = _RESULTS,
    as_json: AsJson = False,
) -> None:
    from tidings_lab.claims import judge, summary
    from tidings_lab.experiment import experiment, experiments
    from tidings_lab.runner import conduct

    if (name is None) != everything:
        raise InputError("Say which experiment to run, or --all; `tidings lab list` shows them.")
    changes = _changes(change or [])
    size = "tiny" if tiny else "quick" if quick else "full"
    told = {}
    for one in experiments() if name is None else [experiment(name)]:
        with _Steps(one.title) as steps:
            path, made = conduct(one, size, results, steps.tell, changes)
        findings = [(claim, judge(claim, made["rows"])) for claim in one.claims]
        told[one.name] = {
            "results": str(path),
            "seconds": made["seconds"],
            "verdict": summary(one, made["rows"]),
            "claims": [{"says": c.says, "by": c.source, "verdict": f.verdict, "reason": f.reason} for c, f in findings],
        }
        if not as_json:
            _print(one.title, told[one.name])
    if as_json:
        print(json.dumps(told))


@app.command("report", help=REPORT_HELP)
def report(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder of the page.")] = Path("lab/report"),
    results: Results = _RESULTS,
    as_json: AsJson = False,
) -> None:
    from tidings_lab.report import write_report

    page, verdicts = write_report(results, out)
    if as_json:
        print(json.dumps({"page": str(page), "verdicts": verdicts}))
        return
    for name, verdict in verdicts.items():
        screen().print(f"{name}: {verdict}", markup=False)
    screen().print(f"Written: {page}", markup=False)


def _changes(told: list[str]) -> dict[str, Any]:
    """Parameters with values as the experiments' files write them."""
    try:
        return tomllib.loads("\n".join(told))
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"--set takes NAME=VALUE, as in --set folds_run=2; this is none: {', '.join(told)}."
        ) from error


def _print(title: str, told: dict[str, Any]) -> None:
    console = screen()
    console.print(f"[bold]{title}[/]: {told['verdict']}, {told['seconds']:,.0f} s, {told['results']}")
    for claim in told["claims"]:
        console.print(f"  {claim['verdict']}: {claim['says']}", markup=False)
        console.print(f"    {claim['reason']}", markup=False, style="dim")


class _Steps:
    """How far an experiment is: a bar on a terminal, else a line for every tenth of it."""

    def __init__(self, title: str) -> None:
        self._title, self._tenth = title, -1
        console = error_screen()
        self._console, self._is_live = console, console.is_terminal
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn())
        self._bar = Bar(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not self._is_live)
        self._task = self._bar.add_task(title, total=None)

    def __enter__(self) -> _Steps:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def tell(self, what: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=f"{self._title}: {what}", completed=done, total=total)
        tenth = 10 * done // max(1, total)
        if not self._is_live and tenth > self._tenth:
            self._console.print(f"tidings: {self._title}: {done} of {total} steps, {what}", markup=False)
            self._tenth = tenth
