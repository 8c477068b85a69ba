"""`tidings correlate`: correlate the tags of files of posts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tidings.cli.console import screen
from tidings.cli.options.common import MasterOption, OverwriteOption
from tidings.cli.options.correlation import PartitionsOption, SlideOption, TrackingOptions
from tidings.cli.options.groups import expand_groups
from tidings.cli.options.master import check_master
from tidings.cli.progress import Progress
from tidings.cli.values import format_time
from tidings.durations import parse_microseconds

if TYPE_CHECKING:
    from tidings.batch.correlate_files import CorrelateResult

HELP = """Compute the Jaccard coefficient of every set of tags of POSTS in every window.

POSTS is a Parquet, JSON Lines (.jsonl) or CSV file, a directory of such files or a glob, with a column [bold]time[/]
and [bold]text[/] (its hashtags are used) or [bold]tags[/].

OUT gets window_start, window_end, tags, jaccard, support (posts with all of the tags), union (posts with any of them)
and calculator: a Parquet directory, or one file if its name ends in .jsonl or .csv. [bold]tidings trends[/] and
[bold]tidings related[/] evaluate it."""
EXAMPLES = """[bold]Examples[/]

tidings correlate posts.parquet --window "1 h" --slide "10 min" --out correlations

tidings correlate 'posts/*.jsonl' --window "1 day" --partitions 8 --algorithm scl --out pairs.csv --audit

tidings correlate posts.parquet --window "7 days" --track flood --track fire --out weekly --json"""


@expand_groups
def correlate(
    posts: Annotated[str, typer.Argument(metavar="POSTS", help="File, directory or glob.", show_default=False)],
    window: Annotated[
        str,
        typer.Option("--window", metavar="DURATION", help="Length of a window, such as '5 min'.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="File or directory for the coefficients.", show_default=False),
    ],
    tracking: TrackingOptions,
    slide: SlideOption = None,
    partitions: PartitionsOption = 10,
    catch_up: Annotated[
        bool,
        typer.Option("--catch-up/--no-catch-up", help="Send past posts to new owners of a tag (not in the paper)."),
    ] = True,
    lateness: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Drop posts older than the newest by this.", show_default="none; posts are sorted"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the algorithm sci.")] = 0,
    audit: Annotated[bool, typer.Option("--audit", help="Compare with the exact coefficients.")] = False,
    master: MasterOption = None,
    json_summary: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    overwrite: OverwriteOption = False,
) -> None:
    from tidings.batch.staging import Output
    from tidings.ingest.post_files import find_post_files
    from tidings.schemas import COEFFICIENT_FIELDS

    check_master(master)
    settings = tracking.settings(window, slide, partitions=partitions, catch_up=catch_up, seed=seed)
    lateness_us = parse_microseconds(lateness, "--lateness") if lateness else None
    tracking.tracked_words()  # rejects words before Spark starts
    output = Output(out, overwrite, COEFFICIENT_FIELDS)
    post_files = find_post_files(posts, any_of_columns=("text", "tags"))
    output.check(*post_files.files)
    with Progress(quiet=json_summary) as progress:
        progress.note("starting Spark", None)
        from tidings.batch.correlate_files import CorrelateOptions, correlate_files  # loads Spark

        request = CorrelateOptions(post_files, output, settings, tracking.tracked_words(), lateness_us, audit, master)
        outcome = correlate_files(request, progress.note)
    if json_summary:
        print(json.dumps(correlate_summary(outcome), ensure_ascii=False))
    else:
        screen().print(correlate_table(outcome))


def correlate_summary(outcome: CorrelateResult) -> dict[str, Any]:
    """Return the summary as plain values. The keys are part of the interface."""
    from tidings.correlate.partition.plan import compute_gini
    from tidings.ingest.validation import UNREADABLE_LINE, UNREADABLE_TIME

    tagged, pipeline = outcome.tagged, outcome.pipeline
    router = pipeline.router
    sent = router.sent[: outcome.settings.partitions]
    reasons = {UNREADABLE_TIME: tagged.untimed, UNREADABLE_LINE: tagged.unreadable}
    summary = {
        "posts": tagged.rows,
        "tagged_posts": len(tagged.posts),
        "rejected_posts": tagged.untimed + tagged.unreadable,
        "reasons": {reason: count for reason, count in reasons.items() if count},
        "late_posts": tagged.late,
        "posts_with_too_many_tags": tagged.capped,
        "tags": len(tagged.vocabulary),
        "tag_sets": len(tagged.posts.distinct_tag_sets(0, len(tagged.posts))),
        "coefficients": outcome.coefficients,
        "algorithm": outcome.settings.algorithm,
        "partitions": outcome.settings.partitions,
        "communication": round(int(sent.sum()) / max(1, router.notified), 4),
        "gini": round(compute_gini(sent), 4),
        "max_load": round(int(sent.max(initial=0)) / max(1, int(sent.sum())), 4),
        "loads": sent.tolist(),
        "caught_up_notifications": router.notifications - int(sent.sum()),
        "single_additions": router.additions,
        "repartitions": [
            {"at": format_time(event.at_us), "reason": event.reason, "partitions": event.partitions}
            for event in pipeline.repartitions
        ],
        "seconds": round(outcome.seconds, 3),
        "posts_per_second": round(len(tagged.posts) / outcome.seconds) if outcome.seconds else 0,
        "out": str(outcome.out),
        "rejected_file": None if outcome.rejected_file is None else str(outcome.rejected_file),
    }
    if outcome.audit is not None:
        summary |= {
            "coverage": round(outcome.audit.coverage, 5),
            "mean_error": round(outcome.audit.mean_error, 6),
            "audited_tag_sets": outcome.audit.expected,
        }
    return summary


def correlate_table(outcome: CorrelateResult) -> Table:
    """Return the summary for a screen."""
    summary = correlate_summary(outcome)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("posts", f"{summary['posts']:,}, of which {summary['tagged_posts']:,} have a time and tags")
    for reason, count in summary["reasons"].items():
        table.add_row("", Text(f"{count:,} × {reason}", "yellow"))
    if summary["late_posts"]:
        table.add_row("", Text(f"{summary['late_posts']:,} too late", "yellow"))
    if summary["posts_with_too_many_tags"]:
        table.add_row("", Text(f"{summary['posts_with_too_many_tags']:,} have too many tags", "yellow"))
    table.add_row("tag sets", f"{summary['tag_sets']:,} of {summary['tags']:,} tags")
    table.add_row("coefficients", Text(f"{summary['coefficients']:,}", "bold green"))
    table.add_row("communication", f"{summary['communication']:.3f} calculators per post")
    table.add_row("loads", f"Gini {summary['gini']:.3f}, the largest {summary['max_load']:.1%} of all")
    table.add_row("single additions", f"{summary['single_additions']:,}")
    table.add_row("repartitions", _format_repartitions(summary["repartitions"]))
    if "coverage" in summary:
        audited = f"{summary['coverage']:.2%} of {summary['audited_tag_sets']:,} tag sets seen more than 3 times"
        table.add_row("audit", f"{audited}; mean error {summary['mean_error']:.4f}")
    table.add_row("time", f"{summary['seconds']:,.1f} s, {summary['posts_per_second']:,} tagged posts/s")
    table.add_row("coefficients in", Text(summary["out"]))
    if summary["rejected_file"]:
        table.add_row("rejected in", Text(summary["rejected_file"]))
    return table


def _format_repartitions(repartitions: list[dict[str, Any]]) -> str:
    """Format the number of repartitions with their reasons."""
    counts: dict[str, int] = {}
    for repartition in repartitions:
        reason = "scaling" if "posts in the window" in repartition["reason"] else repartition["reason"]
        counts[reason] = counts.get(reason, 0) + 1
    reasons = ", ".join(f"{count} for {reason}" for reason, count in sorted(counts.items()))
    return f"{len(repartitions):,}" + (f" ({reasons})" if reasons else "")
