"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it exists.")]
OwnerFilterOption = Annotated[
    str | None,
    typer.Option("--owner", metavar="NAME", help="Only what belongs to this owner.", show_default=False),
]
MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master", metavar="URL", help="Spark master: local[N], spark://HOST:PORT, yarn.", show_default="all cores"
    ),
]
KeepMatchesOption = Annotated[
    int, typer.Option("--keep-matches", metavar="N", min=1, help="Maximum matches kept per subscription.")
]
KeepDaysOption = Annotated[
    float, typer.Option("--keep-days", metavar="DAYS", min=0.01, help="Days that matches are kept.")
]
