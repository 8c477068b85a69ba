"""`tidings trends`: what is emerging in correlations that were tracked, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tidings.cli.console import printable, screen
from tidings.cli.options.state import WorkOption, state_at
from tidings.cli.times import moment, since
from tidings.errors import InputError
from tidings.stream.metrics.correlations import FOLDER

if TYPE_CHECKING:
    from tidings.batch.trend_samples import StoryPost
    from tidings.correlate.trends import Emerging, Story

HELP = """Show emerging stories: sets of tags that suddenly go together more than their past led to expect.

The correlation of every set of tags is predicted from the windows before; a story is a set of tags that came up far
more often than predicted, with others of its window that share tags with it. The score is by how much, in standard
deviations."""
EXAMPLES = """[bold]Examples[/]

tidings correlate posts.parquet --window "1 day" --out correlations

tidings trends --from correlations [dim]# what emerges in the last window[/]

tidings trends --from correlations --since 2020-03-12 --until 2020-03-20 --top 5 --posts posts.parquet

tidings trends --state news [dim]# of a stream that runs with --correlate[/]

tidings trends --from correlations --json | jq '.[0].tags'"""
_OTHERS_SHOWN, _TEXT_SHOWN = 5, 160

FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from", "-f", metavar="DIR|FILE", help="What `tidings correlate` wrote.", show_default="./correlations"
    ),
]
OfStateOption = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DIR|URL",
        help="Instead of --from: the state of a stream that runs with --correlate.",
        show_default=False,
    ),
]


def correlations_at(given: Path | None, state: str | None, work: Path | None) -> Path:
    """Where the coefficients lie that the options mean."""
    if state is None:
        return given or Path("correlations")
    if given is not None:
        raise InputError("Give --from or --state, not both.")
    windows = state_at(state, work).folder / FOLDER / "windows"
    if not windows.is_dir():
        raise InputError(f"{state}: no window has been reported here yet; `tidings run --correlate` does it.")
    return windows


def trends(
    correlations: FromOption = None,
    since_time: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Windows that end after it.", show_default="the last window"),
    ] = None,
    until_time: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Windows that end by then.", show_default="all")
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many stories.")] = 20,
    posts: Annotated[
        str | None, typer.Option(metavar="POSTS", help="The posts, to show some of each story.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the stories as one JSON list.")] = False,
    state: OfStateOption = None,
    work: WorkOption = None,
) -> None:
    from tidings.correlate.coefficients import read_coefficients
    from tidings.correlate.trends import trends as find

    begin, end = since(since_time), since(until_time, "--until")
    stories = find(read_coefficients(correlations_at(correlations, state, work)), begin, end, top)
    shown = _posts(posts, stories, quiet=as_json) if posts and stories else [[] for _ in stories]
    if as_json:
        print(json.dumps([_plain(*pair) for pair in zip(stories, shown, strict=True)], ensure_ascii=False))
        return
    console = screen()
    if not stories:
        console.print("Nothing emerges: there is no window with a past in that time, or nothing in it is new.")
    for number, (story, some) in enumerate(zip(stories, shown, strict=True), 1):
        _show(console, number, story, some)


def _posts(posts: str, stories: list[Story], quiet: bool) -> list[list[StoryPost]]:
    from tidings.cli.progress import Progress
    from tidings.ingest.post_files import find_posts

    found = find_posts(posts, needs=("text", "tags"))
    with Progress(quiet=quiet) as progress:
        from tidings.batch.trend_samples import story_posts  # here: it brings Spark

        return story_posts(found, stories, 3, progress.note)


def _show(console: Console, number: int, story: Story, posts: list[StoryPost]) -> None:
    lead = story.lead
    begin, end = moment(lead.window_start_us), moment(lead.window_end_us)
    name = printable(" ".join(f"#{tag}" for tag in story.tags[:8]))
    console.print(Text.assemble(f"{number:>3}  ", (name, "bold"), f"  score {lead.score:,.1f}"))
    console.print(Text(f"     {begin} to {end}"))
    for one in (lead, *story.others[:_OTHERS_SHOWN]):
        console.print(Text("     " + printable(_why(one))))
    for post in posts:
        said = printable(post.text or f"post {post.id}")[:_TEXT_SHOWN]
        console.print(Text(f"     › {moment(post.time_us)}  {said}", "dim"))


def _why(one: Emerging) -> str:
    """The counts that explain it."""
    expected = one.predicted * one.union
    return (
        f"{' + '.join(one.tags)}: {one.support:,} of {one.union:,} posts have all of them "
        f"(jaccard {one.jaccard:.3f}), {expected:,.1f} were expected ({one.predicted:.3f})"
    )


def _plain(story: Story, posts: list[StoryPost]) -> dict[str, Any]:
    return {
        "tags": story.tags,
        "score": round(story.lead.score, 3),
        "window_start": moment(story.lead.window_start_us),
        "window_end": moment(story.lead.window_end_us),
        "tag_sets": [_set(one) for one in (story.lead, *story.others)],
        "posts": [{"time": moment(post.time_us), "id": post.id, "text": post.text} for post in posts],
    }


def _set(one: Emerging) -> dict[str, Any]:
    return {
        "tags": one.tags,
        "jaccard": round(one.jaccard, 6),
        "predicted": round(one.predicted, 6),
        "support": one.support,
        "union": one.union,
        "score": round(one.score, 3),
    }
