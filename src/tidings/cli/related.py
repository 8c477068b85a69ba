"""`tidings related TAG`: which tags go together with a tag."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from tidings.cli.console import printable, screen
from tidings.cli.options.state import WorkOption
from tidings.cli.times import since
from tidings.cli.trends import FromOption, OfStateOption, correlations_at
from tidings.errors import InputError

HELP = """Show which tags go together with TAG, by their Jaccard coefficient over all windows.

Write the tag with or without its #; capital letters do not matter."""
EXAMPLES = """[bold]Examples[/]

tidings related covid19 --from correlations

tidings related storm --state news

tidings related '#MeToo' --from correlations --since 2018-01-01 --top 5 --json"""


def related(
    tag: Annotated[str, typer.Argument(metavar="TAG", help="A tag.", show_default=False)],
    correlations: FromOption = None,
    since_time: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Windows that end after it.", show_default="all")
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="How many.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as one JSON list.")] = False,
    state: OfStateOption = None,
    work: WorkOption = None,
) -> None:
    from tidings.correlate.coefficients import read_coefficients
    from tidings.correlate.trends import related as find
    from tidings.text.reference_analyzer import tag_term

    term = tag_term(tag.strip().lstrip("#＃"))
    if term is None or not any(character.isalnum() for character in term):
        raise InputError(f"{tag!r} is no tag: it holds no letter and no digit.")
    found = find(read_coefficients(correlations_at(correlations, state, work)), term[1:], since(since_time), top)
    if as_json:
        rows = [{"tags": one.tags, "jaccard": round(one.jaccard, 6), "support": one.support, "union": one.union,
                 "windows": one.windows} for one in found]  # fmt: skip
        print(json.dumps(rows, ensure_ascii=False))
        return
    if not found:
        screen().print(f"Nothing goes together with {printable(term)} there.", markup=False)
        return
    table = Table(box=None, padding=(0, 2))
    for name in (f"with {term}", "jaccard", "posts with all", "posts with any", "windows"):
        table.add_column(name, justify="left" if name.startswith("with") else "right")
    for one in found:
        tags = printable(" ".join(f"#{name}" for name in one.tags))
        table.add_row(tags, f"{one.jaccard:.3f}", f"{one.support:,}", f"{one.union:,}", f"{one.windows:,}")
    screen().print(table)
