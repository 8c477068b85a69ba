"""`tidings explain`: show how a query is parsed, and why a text matches it or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from tidings.cli.console import print_error, printable, screen
from tidings.cli.options.common import JsonOption
from tidings.cli.options.region import parse_region
from tidings.errors import InputError, QueryError

if TYPE_CHECKING:
    from tidings.matching.explain import Explanation

HELP = "Show how QUERY is parsed. With --text, also show whether that text matches, and why, term by term."
EXAMPLES = """[bold]Examples[/]

tidings explain 'storm OR "heavy rain" -umbrella'

tidings explain 'police within:-0.6,51.2,0.4,51.8' --text 'Police in Soho' --lat 51.51 --lon -0.13

tidings explain 'climate (summit OR #cop30)' --text 'Climate summits' --json"""


def explain(
    query: Annotated[str, typer.Argument(help="Query, in quotes.", metavar="QUERY", show_default=False)],
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Text of a post to match.", show_default=False)
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            "--region",
            metavar="W,S,E,N|FILE",
            help="Region: west, south, east, north in degrees, or GeoJSON file.",
            show_default=False,
        ),
    ] = None,
    lat: Annotated[
        float | None, typer.Option("--lat", metavar="DEGREES", help="Latitude of the post.", show_default=False)
    ] = None,
    lon: Annotated[
        float | None, typer.Option("--lon", metavar="DEGREES", help="Longitude of the post.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    from tidings.matching import explain as explanations  # imported late: the other commands do not need it

    _check_position(text, lat, lon)
    within = parse_region(region)
    try:
        explanation = explanations.explain(query, within, text, lat, lon)
    except QueryError as error:
        print_error(error, query)
        raise typer.Exit(error.exit_code) from error
    if as_json:
        print(json.dumps(explanation.to_dict(), ensure_ascii=False, indent=2))
    else:
        _print_explanation(explanation)


def _check_position(text: str | None, lat: float | None, lon: float | None) -> None:
    if (lat is None) != (lon is None):
        raise InputError("--lat and --lon: give both, or none.")
    if lat is None or lon is None:
        return
    if text is None:
        raise InputError("--lat and --lon are the position of a post. Give its text with --text.")
    if not (-90 <= lat <= 90 and -180 <= lon <= 180):
        raise InputError("--lat must be between -90 and 90, --lon between -180 and 180.")


def _print_explanation(explanation: Explanation) -> None:
    console = screen()
    for line in explanation.lines():
        console.print(_style_line(printable(line)))
    if explanation.text is not None:
        console.print()
        console.print(_highlight_text(explanation))


def _style_line(line: str) -> Text:
    """Style a line: headings bold, literals that hold green, that fail red, reasons dim."""
    text = Text(line)
    if not line.startswith(" "):
        text.stylize("bold")
    for mark, style in (("yes ", "green"), ("no  ", "red")):
        if line.startswith("     " + mark):
            text.stylize(style)
    text.highlight_regex(r" {3}\((anchor|character).*\)$", "dim")
    return text


def _highlight_text(explanation: Explanation) -> Text:
    """Return the text with the literals of all conjunctions highlighted."""
    from tidings.text.reference_analyzer import decode_entities

    text = Text(printable(decode_entities(explanation.text or "")))
    for literal in (literal for conjunction in explanation.conjunctions for literal in conjunction.literals):
        if literal.start is not None:
            text.stylize("bold red" if literal.is_forbidden else "bold green", literal.start, literal.end)
    return Text.assemble("  ", text)
