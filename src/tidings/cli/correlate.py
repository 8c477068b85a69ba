"""`tidings correlate`: files of posts in, a file with the correlations of their tags out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tidings.batch.staging import Output
from tidings.cli.console import screen
from tidings.cli.options.master import check_master
from tidings.cli.progress import Progress
from tidings.cli.times import moment
from tidings.schemas import COEFFICIENT_FIELDS

if TYPE_CHECKING:
    from tidings.batch.correlate_files import Correlated

HELP = """Track which tags of POSTS move together: the Jaccard coefficient of every set of tags in every window.

POSTS is a Parquet, JSON Lines (.jsonl) or CSV file, a directory of such files or a glob, with a column [bold]time[/]
and [bold]text[/] (its hashtags count) or [bold]tags[/].

OUT gets window_start, window_end, tags, jaccard, support (posts with all of the tags), union (posts with any of them)
and calculator: a Parquet directory, or one file if it is named .jsonl or .csv. Look at it with [bold]tidings trends[/]
and [bold]tidings related[/]."""
EXAMPLES = """[bold]Examples[/]

tidings correlate posts.parquet --window "1 h" --slide "10 min" --out correlations

tidings correlate 'posts/*.jsonl' --window "1 day" --partitions 8 --algorithm scl --out pairs.csv --audit

tidings correlate posts.parquet --window "7 days" --track flood --track fire --out weekly --json"""


def correlate(
    posts: Annotated[str, typer.Argument(metavar="POSTS", help="A file, a directory or a glob.", show_default=False)],
    window: Annotated[
        str, typer.Option(metavar="TIME", help="How much of the past counts, such as '5 min'.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="Where they go.", show_default=False)],
    slide: Annotated[
        str | None, typer.Option(metavar="TIME", help="How often there is a report.", show_default="the window")
    ] = None,
    partitions: Annotated[int, typer.Option(metavar="K", help="The most calculators tags are shared out over.")] = 10,
    partitioners: Annotated[int, typer.Option(metavar="P", help="How many make the partitions, side by side.")] = 5,
    algorithm: Annotated[str, typer.Option(help="ds+scl, ds, scc, scl or sci.")] = "ds+scl",
    sightings: Annotated[
        int, typer.Option("--sn", metavar="N", help="Sightings after which a new tag set is given to a calculator.")
    ] = 3,
    checked_every: Annotated[
        int, typer.Option("--z", metavar="N", help="Notified posts between two looks at the partitions.")
    ] = 1000,
    threshold: Annotated[
        float, typer.Option(metavar="SHARE", help="By how much they may become worse before they are made anew.")
    ] = 0.5,
    min_support: Annotated[
        int, typer.Option(metavar="N", help="Posts that must have all of the tags for them to be reported.")
    ] = 2,
    catch_up: Annotated[
        bool,
        typer.Option("--catch-up/--no-catch-up", help="Tell new owners of a tag what they missed; not in the paper."),
    ] = True,
    posts_a_partition: Annotated[
        int | None,
        typer.Option(metavar="N", help="Use only as many partitions as posts in a window need.", show_default="all"),
    ] = None,
    track: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="Let this word count as a tag; may repeat.")
    ] = None,
    lateness: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Drop posts that much older than the newest before them.",
            show_default="none: posts are put in order",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="What sci draws its order with.")] = 0,
    audit: Annotated[bool, typer.Option("--audit", help="Compare with the exact result.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark master: local[2], spark://…", show_default="all cores")
    ] = None,
    json_summary: Annotated[bool, typer.Option("--json", help="Print the summary as one JSON object.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")] = False,
) -> None:
    """Check everything that can be checked, then run it and print the summary."""
    from tidings.correlate.settings import Settings, microseconds
    from tidings.correlate.tag_parser import TagNumbers
    from tidings.ingest.post_files import find_posts

    check_master(master)
    settings = Settings.checked(
        window,
        slide,
        partitions=partitions,
        partitioners=partitioners,
        algorithm=algorithm,
        sightings=sightings,
        checked_every=checked_every,
        threshold=threshold,
        min_support=min_support,
        catch_up=catch_up,
        posts_a_partition=posts_a_partition,
        seed=seed,
    )
    lateness_us = microseconds(lateness, "The lateness") if lateness else None
    TagNumbers(track or ())  # refuses what cannot be tracked
    output = Output(out, overwrite, COEFFICIENT_FIELDS)
    found = find_posts(posts, needs=("text", "tags"))
    output.check(*found.files)
    with Progress(quiet=json_summary) as progress:
        progress.note("starting Spark", None)
        from tidings.batch.correlate_files import CorrelateRequest, correlate_files  # here: it brings Spark

        request = CorrelateRequest(found, output, settings, tuple(track or ()), lateness_us, audit, master)
        outcome = correlate_files(request, progress.note)
    if json_summary:
        print(json.dumps(as_json(outcome), ensure_ascii=False))
    else:
        screen().print(as_table(outcome))


def as_json(outcome: Correlated) -> dict[str, Any]:
    """The summary as plain values; the keys are a promise."""
    from tidings.correlate.partition.plan import gini

    tagged, how = outcome.tagged, outcome.dissemination
    told = how.disseminator
    sent = told.sent[: outcome.settings.partitions]
    reasons = {"no time that can be read": tagged.untimed, "the line cannot be read": tagged.unreadable}
    summary = {
        "posts": tagged.rows,
        "tagged_posts": len(tagged.posts),
        "rejected_posts": tagged.untimed + tagged.unreadable,
        "reasons": {reason: count for reason, count in reasons.items() if count},
        "late_posts": tagged.late,
        "posts_with_too_many_tags": tagged.capped,
        "tags": len(tagged.vocabulary),
        "tag_sets": len(tagged.posts.sets(0, len(tagged.posts))),
        "coefficients": outcome.coefficients,
        "algorithm": outcome.settings.algorithm,
        "partitions": outcome.settings.partitions,
        "communication": round(int(sent.sum()) / max(1, told.notified), 4),
        "gini": round(gini(sent), 4),
        "max_load": round(int(sent.max(initial=0)) / max(1, int(sent.sum())), 4),
        "loads": sent.tolist(),
        "caught_up_notifications": told.told - int(sent.sum()),
        "single_additions": told.additions,
        "repartitions": [
            {"at": moment(one.at_us), "reason": one.reason, "partitions": one.partitions} for one in how.repartitions
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


def as_table(outcome: Correlated) -> Table:
    """The summary for a screen."""
    told = as_json(outcome)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("posts", f"{told['posts']:,}, of which {told['tagged_posts']:,} have a time and tags")
    for reason, count in told["reasons"].items():
        table.add_row("", Text(f"{count:,} × {reason}", "yellow"))
    if told["late_posts"]:
        table.add_row("", Text(f"{told['late_posts']:,} too late", "yellow"))
    if told["posts_with_too_many_tags"]:
        table.add_row("", Text(f"{told['posts_with_too_many_tags']:,} have more tags than count", "yellow"))
    table.add_row("tag sets", f"{told['tag_sets']:,} of {told['tags']:,} tags")
    table.add_row("coefficients", Text(f"{told['coefficients']:,}", "bold green"))
    table.add_row("communication", f"{told['communication']:.3f} calculators told of a post")
    table.add_row("loads", f"Gini {told['gini']:.3f}, the largest {told['max_load']:.1%} of all")
    table.add_row("single additions", f"{told['single_additions']:,}")
    table.add_row("repartitions", _repartitions(told["repartitions"]))
    if "coverage" in told:
        audited = f"{told['coverage']:.2%} of {told['audited_tag_sets']:,} tag sets seen more than 3 times"
        table.add_row("audit", f"{audited}; mean error {told['mean_error']:.4f}")
    table.add_row("time", f"{told['seconds']:,.1f} s, {told['posts_per_second']:,} tagged posts/s")
    table.add_row("in", Text(told["out"]))
    if told["rejected_file"]:
        table.add_row("rejected in", Text(told["rejected_file"]))
    return table


def _repartitions(made: list[dict[str, Any]]) -> str:
    """How many, and why."""
    why: dict[str, int] = {}
    for one in made:
        reason = "scaling" if "posts in the window" in one["reason"] else one["reason"]
        why[reason] = why.get(reason, 0) + 1
    told = ", ".join(f"{count} for {reason}" for reason, count in sorted(why.items()))
    return f"{len(made):,}" + (f" ({told})" if told else "")
