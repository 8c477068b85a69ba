"""`tidings match`: match files of posts with files of subscriptions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.cli.console import screen
from tidings.cli.options.common import MasterOption, OverwriteOption
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
from tidings.cli.progress import Progress
from tidings.cli.summary import match_summary, match_table
from tidings.cli.values import require_file

if TYPE_CHECKING:
    from tidings.batch.staging import Output
    from tidings.ingest.post_files import PostFiles
    from tidings.schemas import SubscriptionFile

_POSTS = (
    "POSTS is a Parquet, JSON Lines (.jsonl) or CSV file, a directory of such files or a glob, with a column "
    "[bold]text[/]. The columns id, title, tags, lat, lon, time, author, link and lang are used if present."
)
_SUBS = (
    "SUBS is a text file with one query per line (its id is the line number), or JSON Lines, CSV or Parquet with "
    "[bold]id[/] and [bold]query[/], and optionally owner and region."
)
_OUT = (
    "OUT gets subscription_id, post_id and index_version: a Parquet directory, or one file if its name ends in .jsonl "
    "or .csv. In CSV, a text id that begins with =, +, - or @ gets an apostrophe in front: a spreadsheet would run it. "
    "Rejected rows do not stop the job; OUT.rejected.jsonl lists them with file, line and reason."
)
HELP = "\n\n".join(("Match POSTS with subscriptions and write every match to OUT.", _POSTS, _SUBS, _OUT, PARTITIONERS))
EXAMPLES = """[bold]Examples[/]

tidings demo --write sample [dim]# a small set of posts and subscriptions to try[/]

tidings match sample/posts.jsonl --subscriptions sample/subscriptions.txt --out matches.csv

tidings match 'posts/2026-*.parquet' --subscriptions subs.csv --out matches --plan partitioned --matchers 8

tidings match posts.csv.gz --subscriptions subs.jsonl --out m.jsonl --overwrite --json"""


def match(
    posts: Annotated[str, typer.Argument(metavar="POSTS", help="File, directory or glob.", show_default=False)],
    subscriptions: Annotated[
        Path, typer.Option("--subscriptions", "-s", metavar="SUBS", help="File of subscriptions.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="OUT", help="File or directory for the matches.", show_default=False)
    ],
    plan: PlanOption = ExecutionMode.auto,
    matchers: Annotated[int | None, matchers_option("one per core")] = None,
    partitioner: PartitionerOption = "salb+",
    placement: PlacementOption = "anchor",
    matcher: MatcherOption = MatcherName.kernel,
    master: MasterOption = None,
    json_summary: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    overwrite: OverwriteOption = False,
    raw_csv: Annotated[
        bool, typer.Option("--raw-csv", help="Write ids to CSV as they are, also those that a spreadsheet would run.")
    ] = False,
) -> None:
    from tidings.batch.staging import Output  # imported late: it loads pyarrow

    check_master(master)
    _check_plan(partitioner, matchers, placement)
    output = Output(out, overwrite, raw_csv=raw_csv)
    post_files, subscription_file = _open_inputs(posts, subscriptions, output)
    with Progress(quiet=json_summary) as progress:
        progress.note("starting Spark", None)
        from tidings.batch.match_files import (  # imported late: it loads Spark, and a wrong path needs none
            MatchOptions,
            match_files,
        )

        request = MatchOptions(
            posts=post_files,
            subscriptions=subscription_file,
            output=output,
            plan=plan.value,
            matchers=matchers,
            partitioner=partitioner,
            placement=placement,
            master=master,
            matcher=matcher.value,
            subscriptions_file=subscriptions,
        )
        outcome = match_files(request, progress.note)
    if json_summary:
        print(json.dumps(match_summary(outcome), ensure_ascii=False))
    else:
        screen().print(match_table(outcome))


def _open_inputs(posts: str, subscriptions: Path, output: Output) -> tuple[PostFiles, SubscriptionFile]:
    """Find the posts and read the subscriptions; the quickest checks come first."""
    from tidings.ingest.post_files import find_post_files
    from tidings.ingest.subscription_files import read_subscriptions

    require_file(subscriptions, "--subscriptions")
    post_files = find_post_files(posts)
    output.check(subscriptions, *post_files.files)
    return post_files, read_subscriptions(subscriptions)


def _check_plan(partitioner: str, matchers: int | None, placement: str) -> None:
    from tidings.balance.spec import PlanSpec

    PlanSpec.parse(partitioner, matchers, placement)
