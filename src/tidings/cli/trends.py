"""`tidings trends`: show emerging stories in the correlations of tags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from tidings.cli.console import printable, screen
from tidings.cli.options.common import JsonOption
from tidings.cli.options.state import WorkDirOption, locate_state
from tidings.cli.values import format_time, parse_time
from tidings.errors import InputError
from tidings.stream.metrics.correlations import FOLDER

if TYPE_CHECKING:
    from tidings.batch.trend_samples import StoryPost
    from tidings.correlate.trends import EmergingTagSet, Story

HELP = """Show emerging stories: sets of tags that occur together more often than predicted from earlier windows.

The coefficient of every set of tags is predicted from earlier windows. A story is a set of tags far above its
prediction, together with other sets of that window that share tags with it. The score is the difference in standard
deviations."""
EXAMPLES = """[bold]Examples[/]

tidings correlate posts.parquet --window "1 day" --out correlations

tidings trends --from correlations [dim]# stories of the last window[/]

tidings trends --from correlations --since 2020-03-12 --until 2020-03-20 --top 5 --posts posts.parquet

tidings trends --state news [dim]# stream with --correlate[/]

tidings trends --from correlations --json | jq '.[0].tags'"""
_MAX_TAG_SETS, _MAX_TEXT_CHARACTERS = 5, 160

FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from", "-f", metavar="DIR|FILE", help="Output of `tidings correlate`.", show_default="./correlations"
    ),
]
CorrelatedStateOption = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar="DIR|URL",
        help="Instead of --from: state of a stream with --correlate.",
        show_default=False,
    ),
]


def find_correlations(path: Path | None, state: str | None, work_dir: Path | None) -> Path:
    """Return where the coefficients are. Raises InputError if there are none in the state."""
    if state is None:
        return path or Path("correlations")
    if path is not None:
        raise InputError("Give --from or --state, not both.")
    windows = locate_state(state, work_dir).work_dir / FOLDER / "windows"
    if not windows.is_dir():
        raise InputError(f"{state}: no window reported yet. Start `tidings run --correlate`.")
    return windows


def trends(
    correlations: FromOption = None,
    since_time: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Windows that end after this time.", show_default="the last window"
        ),
    ] = None,
    until_time: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Windows that end by this time.", show_default="all")
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of stories.")] = 20,
    posts: Annotated[
        str | None, typer.Option(metavar="POSTS", help="Posts, to show some of each story.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    state: CorrelatedStateOption = None,
    work_dir: WorkDirOption = None,
) -> None:
    from tidings.correlate.coefficients import read_coefficients
    from tidings.correlate.trends import find_trends

    begin, end = parse_time(since_time, "--since"), parse_time(until_time, "--until")
    stories = find_trends(read_coefficients(find_correlations(correlations, state, work_dir)), begin, end, top)
    shown = _sample_posts(posts, stories, quiet=as_json) if posts and stories else [[] for _ in stories]
    if as_json:
        print(json.dumps([_story_to_dict(*pair) for pair in zip(stories, shown, strict=True)], ensure_ascii=False))
        return
    console = screen()
    if not stories:
        console.print("No stories: no window in that time has earlier windows, or nothing in it is new.")
    for number, (story, samples) in enumerate(zip(stories, shown, strict=True), 1):
        _print_story(console, number, story, samples)


def _sample_posts(posts: str, stories: list[Story], quiet: bool) -> list[list[StoryPost]]:
    from tidings.cli.progress import Progress
    from tidings.ingest.post_files import find_post_files

    found = find_post_files(posts, any_of_columns=("text", "tags"))
    with Progress(quiet=quiet) as progress:
        from tidings.batch.trend_samples import collect_story_posts  # loads Spark

        return collect_story_posts(found, stories, 3, progress.note)


def _print_story(console: Console, number: int, story: Story, posts: list[StoryPost]) -> None:
    strongest = story.strongest
    begin, end = format_time(strongest.window_start_us), format_time(strongest.window_end_us)
    name = printable(" ".join(f"#{tag}" for tag in story.tags[:8]))
    console.print(Text.assemble(f"{number:>3}  ", (name, "bold"), f"  score {strongest.score:,.1f}"))
    console.print(Text(f"     {begin} to {end}"))
    for tag_set in (strongest, *story.others[:_MAX_TAG_SETS]):
        console.print(Text("     " + printable(_format_counts(tag_set))))
    for post in posts:
        text = printable(post.text or f"post {post.id}")[:_MAX_TEXT_CHARACTERS]
        console.print(Text(f"     › {format_time(post.time_us)}  {text}", "dim"))


def _format_counts(tag_set: EmergingTagSet) -> str:
    """Format the counts behind a tag set of a story."""
    expected = tag_set.predicted * tag_set.union
    return (
        f"{' + '.join(tag_set.tags)}: {tag_set.support:,} of {tag_set.union:,} posts have all of them "
        f"(jaccard {tag_set.jaccard:.3f}), {expected:,.1f} were expected ({tag_set.predicted:.3f})"
    )


def _story_to_dict(story: Story, posts: list[StoryPost]) -> dict[str, Any]:
    return {
        "tags": story.tags,
        "score": round(story.strongest.score, 3),
        "window_start": format_time(story.strongest.window_start_us),
        "window_end": format_time(story.strongest.window_end_us),
        "tag_sets": [_tag_set_to_dict(tag_set) for tag_set in (story.strongest, *story.others)],
        "posts": [{"time": format_time(post.time_us), "id": post.id, "text": post.text} for post in posts],
    }


def _tag_set_to_dict(tag_set: EmergingTagSet) -> dict[str, Any]:
    return {
        "tags": tag_set.tags,
        "jaccard": round(tag_set.jaccard, 6),
        "predicted": round(tag_set.predicted, 6),
        "support": tag_set.support,
        "union": tag_set.union,
        "score": round(tag_set.score, 3),
    }
