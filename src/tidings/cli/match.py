"""`tidings match`: files of posts and subscriptions in, a file of matches out."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.batch.staging import Output
from tidings.cli.console import screen
from tidings.cli.options.master import check_master
from tidings.cli.progress import Progress
from tidings.cli.summary import as_json, as_table
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.ingest.post_files import PostFiles
    from tidings.schemas import SubscriptionFile

_POSTS = (
    "POSTS is a Parquet, JSON Lines (.jsonl) or CSV file, a directory of such files or a glob, with a column "
    "[bold]text[/]; id, title, tags, lat, lon, time, author, link and lang count where present."
)
_SUBS = (
    "SUBS is a text file with one query a line (its id is the line number), or JSON Lines, CSV or Parquet with "
    "[bold]id[/] and [bold]query[/], and optionally owner and region."
)
_OUT = (
    "OUT gets subscription_id, post_id and index_version: a Parquet directory, or one file if it is named .jsonl or "
    ".csv. Rows that cannot be used are listed with their reasons in OUT.rejected.jsonl and never stop the job."
)
HELP = "\n\n".join(("Match POSTS with subscriptions and write every match to OUT.", _POSTS, _SUBS, _OUT))
EXAMPLES = """[bold]Examples[/]

tidings demo --write sample [dim]# a small set of posts and subscriptions to try[/]

tidings match sample/posts.jsonl --subscriptions sample/subscriptions.txt --out matches.csv

tidings match 'posts/2026-*.parquet' --subscriptions subs.csv --out matches --plan partitioned --matchers 8

tidings match posts.csv.gz --subscriptions subs.jsonl --out m.jsonl --overwrite --json"""


class Plan(StrEnum):
    """How the work is shared out; both ways give the same matches."""

    auto = "auto"
    replicated = "replicated"
    partitioned = "partitioned"


def match(
    posts: Annotated[str, typer.Argument(metavar="POSTS", help="A file, a directory or a glob.", show_default=False)],
    subscriptions: Annotated[
        Path, typer.Option("--subscriptions", "-s", metavar="SUBS", help="The standing queries.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="Where the matches go.", show_default=False)],
    plan: Annotated[
        Plan, typer.Option(help="Every worker with the whole index, or the index shared out over matchers.")
    ] = Plan.auto,
    matchers: Annotated[
        int | None, typer.Option(metavar="N", help="Matchers of the partitioned plan.", show_default="one a core")
    ] = None,
    partitioner: Annotated[
        str,
        typer.Option(
            metavar="NAME|PLAN",
            help="How the index is shared out over matchers. By words: salb+, salb, hash, gc, gfc, gfcl, gnfcl, or a "
            "file made by [bold]tidings plan learn[/]. By places: grid, kdtree, rtree. By both: hybrid, and its "
            "contenders frequency, hypergraph, metric.",
        ),
    ] = "salb+",
    placement: Annotated[
        str,
        typer.Option(help="Which of the matchers of its words gets a subscription: rarest, lasp or random."),
    ] = "rarest",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark master: local[2], spark://host:7077, yarn …", show_default="all cores"),
    ] = None,
    json_summary: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
) -> None:
    """Check everything that can be checked, then run it and print the summary."""
    check_master(master)
    _check_plan(partitioner, matchers, placement)
    output = Output(out, overwrite)
    found, subscribed = _inputs(posts, subscriptions, output)
    with Progress(quiet=json_summary) as progress:
        progress.note("starting Spark", None)
        from tidings.batch.match_files import (  # only now: it takes a moment, and a wrong path should not
            Request,
            match_files,
        )

        request = Request(found, subscribed, output, plan.value, matchers, partitioner, placement, master)
        outcome = match_files(request, progress.note)
    if json_summary:
        print(json.dumps(as_json(outcome), ensure_ascii=False))
    else:
        screen().print(as_table(outcome))


def _inputs(posts: str, subscriptions: Path, output: Output) -> tuple[PostFiles, SubscriptionFile]:
    """The posts as files, the subscriptions read; what is quickest to find wrong is looked at first."""
    from tidings.ingest.post_files import find_posts
    from tidings.ingest.subscription_files import read_subscriptions

    if not subscriptions.exists():
        raise InputError(f"{subscriptions}: there is no such file.")
    found = find_posts(posts)
    output.check(subscriptions, *found.files)
    return found, read_subscriptions(subscriptions)


def _check_plan(partitioner: str, matchers: int | None, placement: str) -> None:
    from tidings.balance.spec import WantedPlan

    WantedPlan.checked(partitioner, matchers, placement)
