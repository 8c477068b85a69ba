"""Where the state of a stream lies: the options `--state` and `--work`, the same in every command that needs them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.errors import InputError

if TYPE_CHECKING:
    from tidings.store import Store

DEFAULT_STATE = "./tidings-state"
_POSTGRES = ("postgresql://", "postgres://")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PASSWORDS = (re.compile(r"(://[^:/@]*):.*(?=@)"), re.compile(r"([?&](?:ssl)?password=)[^&]*"))

StateOption = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="DIR|URL",
        envvar="TIDINGS_STATE",
        help="Where the state lies: a directory, or postgresql://… for a database.",
    ),
]
WorkOption = Annotated[
    Path | None,
    typer.Option(
        "--work",
        metavar="DIR",
        envvar="TIDINGS_WORK",
        help="Where the stream keeps index, checkpoint and figures when the state is a database.",
        show_default=DEFAULT_STATE,
    ),
]


@dataclass(frozen=True, slots=True)
class State:
    """`where` the store is, as `open_store` takes it, and the `folder` with figures, index and checkpoint."""

    where: str
    folder: Path

    @property
    def is_database(self) -> bool:
        return self.where.startswith(_POSTGRES)

    @property
    def shown(self) -> str:
        """Where it is, as it may be printed: without passwords."""
        shown = self.where
        for password in _PASSWORDS if self.is_database else ():
            shown = password.sub(r"\1", shown)
        return shown

    @property
    def option(self) -> str:
        """What to add to another command so that it means this state; empty for the default."""
        return "" if self.where == DEFAULT_STATE else f" --state {shlex.quote(self.shown)}"

    def make(self) -> Store:
        """The store, open; made where there is none."""
        from tidings.store import open_store  # here, so that a wrong query is told at once

        return open_store(self.where)

    def open(self) -> Store:
        """The store, open; InputError with how to begin where there is none."""
        from tidings.store.sqlite import FILE

        if not self.is_database and not (self.folder / FILE).exists():
            raise InputError(
                f"{self.where}: there is no state here; begin with `tidings subscribe QUERY{self.option}`, "
                "or say where it is with --state."
            )
        return self.make()


def state_at(state: str, work: Path | None = None) -> State:
    """What the two options mean; InputError when they cannot be meant."""
    if state.startswith(_POSTGRES):
        return State(state, _directory(work or Path(DEFAULT_STATE), "--work"))
    if not state or _URL.match(state):
        scheme = state.partition("//")[0]
        raise InputError(f"--state {scheme}: a state is a directory or a postgresql:// URL; give one of these.")
    if work is not None and work.resolve() != Path(state).resolve():
        raise InputError(
            "--work (TIDINGS_WORK) is for a state in PostgreSQL; a state in a directory has all of it there."
        )
    return State(state, _directory(Path(state), "--state"))


def _directory(path: Path, option: str) -> Path:
    if path.exists() and not path.is_dir():
        raise InputError(f"{option} {path}: this is a file; give a directory.")
    return path
