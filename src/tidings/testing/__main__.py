"""`python -m tidings.testing`: run the fault harness and the noisy neighbour on this machine, as long as you like."""

from __future__ import annotations

import json
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Kill or attack a real service and report what happens.", no_args_is_help=True, add_completion=False
)
_ONLY_SERVER = ("--no-stream", "--no-crawl", "--no-webhooks")


@app.command("faults")
def run_fault_harness(
    kills: Annotated[int, typer.Option(min=0, help="Number of kills.")] = 50,
    posts: Annotated[int, typer.Option(min=0, help="Posts that must be acknowledged at least.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of kinds, waits, posts and queries.")] = 1,
    postgres: Annotated[bool, typer.Option(help="Store in PostgreSQL, and kill it, too.")] = False,
    kind: Annotated[list[str] | None, typer.Option(help="Kill only these kinds (repeatable).")] = None,
) -> None:
    """Kill processes of a service under load; exit with 1 if anything is lost, repeated or wrong."""
    from tidings.testing.faults import FaultPlan, run_faults
    from tidings.testing.postgres import running_server

    plan = FaultPlan(seed, kills, posts, tuple(kind or ()))
    database = running_server(survives_crash=True) if postgres else nullcontext()
    with tempfile.TemporaryDirectory(prefix="tidings-faults-") as folder, database as server:
        report = run_faults(Path(folder), plan, server, typer.echo)
    typer.echo(report)
    for problem in report.problems:
        typer.echo(problem)
    raise typer.Exit(1 if report.problems else 0)


@app.command("neighbours")
def run_noisy_neighbours(
    seconds: Annotated[float, typer.Option(min=1, help="Duration of each measurement.")] = 20.0,
    stream: Annotated[bool, typer.Option(help="Also attack the stream and the crawler, and await matches.")] = True,
    file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the results here.")] = None,
) -> None:
    """Measure what another owner notices of each attack."""
    from tidings.testing.attacks import HTTP_CASES
    from tidings.testing.noisy_neighbour import HISTORY, all_cases, fill_history, format_table, measure_cases
    from tidings.testing.service import running_service

    options, attacks = ((), all_cases()) if stream else (_ONLY_SERVER, nullcontext(HTTP_CASES))
    folder = tempfile.TemporaryDirectory(prefix="tidings-neighbours-")
    with folder as name:
        fill_history(Path(name) / HISTORY)
        with running_service(Path(name), options=options) as service, attacks as cases:
            results = measure_cases(service, cases, seconds, has_stream=stream)
    typer.echo(format_table(results))
    if file is not None:
        file.write_text(json.dumps([result.to_dict() for result in results], indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    app()
