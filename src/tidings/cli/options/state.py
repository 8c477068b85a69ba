"""The options `--state` and `--work-dir`: where a stream keeps its store, index, checkpoint and metrics."""

from __future__ import annotations

import logging
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidings.errors import InputError
from tidings.log import Event
from tidings.private_files import find_exposure, restrict_umask

if TYPE_CHECKING:
    from tidings.store import Store

LOG = logging.getLogger("tidings.cli")
DEFAULT_STATE = "./tidings-state"
_CHECKED = "TIDINGS_CHECKED_STATE"  # the work directory that the parent process has warned about
_POSTGRES = ("postgresql://", "postgres://")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PASSWORDS = (re.compile(r"(://[^:/@]*):.*(?=@)"), re.compile(r"([?&](?:ssl)?password=)[^&]*"))

StateOption = Annotated[
    str,
    typer.Option(
        "--state",
        metavar="DIR|URL",
        envvar="TIDINGS_STATE",
        help="State of the stream: a directory, or a postgresql:// URL.",
    ),
]
WorkDirOption = Annotated[
    Path | None,
    typer.Option(
        "--work-dir",
        metavar="DIR",
        envvar="TIDINGS_WORK",
        help="Index, checkpoint and metrics when --state is PostgreSQL.",
        show_default=DEFAULT_STATE,
    ),
]


@dataclass(frozen=True, slots=True)
class StateLocation:
    """`store` is what `open_store` takes; `work_dir` has index, checkpoint and metrics."""

    store: str
    work_dir: Path

    @property
    def is_database(self) -> bool:
        return self.store.startswith(_POSTGRES)

    @property
    def display_name(self) -> str:
        """The location without passwords."""
        name = self.store
        for password in _PASSWORDS if self.is_database else ():
            name = password.sub(r"\1", name)
        return name

    @property
    def option(self) -> str:
        """The option ` --state …` for another command; empty for the default state."""
        return "" if self.store == DEFAULT_STATE else f" --state {shlex.quote(self.display_name)}"

    def protect(self) -> None:
        """Let only this user read what this process, and its children, will write; warn as `warn_if_exposed` does."""
        restrict_umask(self.work_dir)
        self.warn_if_exposed()

    def warn_if_exposed(self) -> None:
        """Log how to restrict a state that others can read, unless the parent process has logged it."""
        exposure = find_exposure(self.work_dir)
        if exposure is not None and os.environ.get(_CHECKED) != str(self.work_dir):
            LOG.warning(Event("state readable by other users", path=self.work_dir, **exposure._asdict()))

    @property
    def child_environment(self) -> dict[str, str]:
        """The environment variables that give child processes the same state; they do not warn about it again."""
        environment = {"TIDINGS_STATE": self.store, _CHECKED: str(self.work_dir)}
        return environment | ({"TIDINGS_WORK": str(self.work_dir)} if self.is_database else {})

    def open_or_create(self) -> Store:
        from tidings.store import open_store  # imported late: an invalid query is rejected without it

        return open_store(self.store)

    def open_existing(self) -> Store:
        """Open the store. Raises InputError, which explains how to begin, if it does not exist."""
        if not self.exists:
            raise InputError(
                f"{self.store}: no state found. Begin with `tidings subscribe QUERY{self.option}`, or give its "
                "location with --state."
            )
        return self.open_or_create()

    @property
    def exists(self) -> bool:
        """Whether the store exists; True for a database."""
        if self.is_database:
            return True
        from tidings.store.sqlite import FILE

        try:
            return (self.work_dir / FILE).exists()
        except PermissionError as error:
            raise InputError(
                f"{self.store}: this user may not read the state. Run the command as the user that owns it."
            ) from error


def locate_state(state: str, work_dir: Path | None = None) -> StateLocation:
    """Return the location that the two options give. Raises InputError if they are invalid."""
    if state.startswith(_POSTGRES):
        return StateLocation(state, _check_directory(work_dir or Path(DEFAULT_STATE), "--work-dir"))
    if not state or _URL.match(state):
        scheme = state.partition("//")[0]
        raise InputError(f"--state {scheme}: not supported. Give a directory or a postgresql:// URL.")
    if work_dir is not None and work_dir.resolve() != Path(state).resolve():
        raise InputError(
            "--work-dir (TIDINGS_WORK) is only for a state in PostgreSQL. A state in a directory has it all there."
        )
    return StateLocation(state, _check_directory(Path(state), "--state"))


def locate_written_state(state: str, work_dir: Path | None = None) -> StateLocation:
    """Return the location for a command that writes to the state; warn if others can read it."""
    location = locate_state(state, work_dir)
    location.warn_if_exposed()
    return location


def _check_directory(path: Path, option: str) -> Path:
    if path.exists() and not path.is_dir():
        raise InputError(f"{option} {path}: a file, not a directory. Give a directory.")
    return path
