"""`tidings explain`: how a query is understood, and why a text matches it or does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tidings.cli.console import printable, screen, show_error
from tidings.cli.options.region import typed_region
from tidings.errors import InputError, QueryError

if TYPE_CHECKING:
    from tidings.matching.explain import Explanation

HELP = "Show how QUERY is understood; with --text also whether that text matches, and why, word by word."
EXAMPLES = """[bold]Examples[/]

tidings explain 'storm OR "heavy rain" -umbrella'

tidings explain 'police within:-0.6,51.2,0.4,51.8' --text 'Police in Soho' --lat 51.51 --lon -0.13

tidings explain 'climate (summit OR #cop30)' --text 'Climate summits' --json"""


def explain(
    query: Annotated[str, typer.Argument(help="The subscription, in quotes.", metavar="QUERY", show_default=False)],
    text: Annotated[str | None, typer.Option("--text", help="A post to try the query on.", show_default=False)] = None,
    region: Annotated[
        str | None,
        typer.Option(
            "--region",
            metavar="W,S,E,N",
            help="The subscription's region: west, south, east, north in degrees.",
            show_default=False,
        ),
    ] = None,
    lat: Annotated[float | None, typer.Option("--lat", help="Latitude of the post.", show_default=False)] = None,
    lon: Annotated[float | None, typer.Option("--lon", help="Longitude of the post.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Explain a query on the screen."""
    from tidings.matching import explain as query_room  # here, so that the other commands need not load it

    _check_position(text, lat, lon)
    within = typed_region(region)
    try:
        explanation = query_room.explain(query, within, text, lat, lon)
    except QueryError as error:
        show_error(error, query)
        raise typer.Exit(error.exit_code) from error
    if as_json:
        print(json.dumps(explanation.to_dict(), ensure_ascii=False, indent=2))
    else:
        _show(explanation)


def _check_position(text: str | None, lat: float | None, lon: float | None) -> None:
    if (lat is None) != (lon is None):
        raise InputError("A position has both --lat and --lon; give the other one too.")
    if lat is None or lon is None:
        return
    if text is None:
        raise InputError("--lat and --lon say where a post is; give the post too, with --text.")
    if not (-90 <= lat <= 90 and -180 <= lon <= 180):
        raise InputError("--lat lies between -90 and 90, --lon between -180 and 180.")


def _show(explanation: Explanation) -> None:
    console = screen()
    for line in explanation.lines():
        console.print(_coloured(printable(line)))
    if explanation.text is not None:
        console.print()
        console.print(_marked(explanation))


def _coloured(line: str) -> Text:
    """Headings stand out, what holds is green, what fails is red, the reasons are quiet."""
    text = Text(line)
    if not line.startswith(" "):
        text.stylize("bold")
    for mark, style in (("yes ", "green"), ("no  ", "red")):
        if line.startswith("     " + mark):
            text.stylize(style)
    text.highlight_regex(r" {3}\((found by|character).*\)$", "dim")
    return text


def _marked(explanation: Explanation) -> Text:
    """The text with the pieces that were found, each conjunction's own and all together."""
    from tidings.text.reference_analyzer import decode_entities

    text = Text(printable(decode_entities(explanation.text or "")))
    for literal in (literal for one in explanation.conjunctions for literal in one.literals):
        if literal.start is not None:
            text.stylize("bold red" if literal.is_forbidden else "bold green", literal.start, literal.end)
    return Text.assemble("  ", text)
