"""The option `--allow`: which networks may be reached besides the public Internet, the same in every command."""

from __future__ import annotations

from typing import Annotated

import typer

AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="NETWORK",
        envvar="TIDINGS_ALLOW",
        help="Reach this network too, though it is not public: 10.1.0.0/16, or loopback. May be given more than once.",
        show_default=False,
    ),
]
