"""The option `--allow NETWORK`: networks that may be reached besides the public Internet."""

from __future__ import annotations

from typing import Annotated

import typer

AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="NETWORK",
        envvar="TIDINGS_ALLOW",
        help="Also reach this private network: CIDR or loopback. Repeatable.",
        show_default=False,
    ),
]
