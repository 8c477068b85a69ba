"""`tidings related TAG`: list the tags that are correlated with a tag."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tidings.cli.console import printable, screen
from tidings.cli.options.common import JsonOption
from tidings.cli.options.state import WorkDirOption
from tidings.cli.trends import CorrelatedStateOption, FromOption, find_correlations
from tidings.cli.values import parse_time
from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.correlate.trends import RelatedTags

HELP = """List the tags that are correlated with TAG, by their Jaccard coefficient over all windows.

The # in front of the tag is optional; case is ignored."""
EXAMPLES = """[bold]Examples[/]

tidings related covid19 --from correlations

tidings related storm --state news

tidings related '#MeToo' --from correlations --since 2018-01-01 --top 5 --json"""


def related(
    tag: Annotated[str, typer.Argument(metavar="TAG", help="Tag.", show_default=False)],
    correlations: FromOption = None,
    since_time: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Windows that end after this time.", show_default="all"),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of tags.")] = 20,
    as_json: JsonOption = False,
    state: CorrelatedStateOption = None,
    work_dir: WorkDirOption = None,
) -> None:
    from tidings.correlate.coefficients import read_coefficients
    from tidings.correlate.trends import find_related
    from tidings.text.reference_analyzer import tag_term

    term = tag_term(tag.strip().lstrip("#＃"))
    if term is None or not any(character.isalnum() for character in term):
        raise InputError(f"{tag!r}: not a tag. A tag has a letter or a digit.")
    rows = find_related(
        read_coefficients(find_correlations(correlations, state, work_dir)),
        term[1:],
        parse_time(since_time, "--since"),
        top,
    )
    if as_json:
        listed = [{**asdict(row), "jaccard": round(row.jaccard, 6)} for row in rows]
        print(json.dumps(listed, ensure_ascii=False))
    elif rows:
        screen().print(_related_table(term, rows))
    else:
        screen().print(f"No tags are correlated with {printable(term)}.", markup=False)


def _related_table(term: str, rows: list[RelatedTags]) -> Table:
    table = Table(box=None, padding=(0, 2))
    for name in (f"with {term}", "jaccard", "posts with all", "posts with any", "windows"):
        table.add_column(name, justify="left" if name.startswith("with") else "right")
    for row in rows:
        tags = printable(" ".join(f"#{name}" for name in row.tags))
        table.add_row(tags, f"{row.jaccard:.3f}", f"{row.support:,}", f"{row.union:,}", f"{row.windows:,}")
    return table
