"""What is being done and how far it is, on standard error: a moving line on a terminal, else a line now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from tidings.cli.console import error_screen

if TYPE_CHECKING:
    from tidings.spark.progress import Tasks

Asker = Callable[[], "Tasks | None"]
_LOOK_SECONDS = 0.25
_SPEAK_SECONDS = 5.0


class Progress:
    """Use it as a context; `note` says what begins. A thread asks Spark how far it is."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = error_screen()
        self._is_live = self._console.is_terminal
        self._is_quiet = quiet and not self._is_live
        self._phase, self._ask = "", None  # type: tuple[str, Asker | None]
        self._done = threading.Event()
        self._spoken = 0.0
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Progress:
        if self._is_live:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(30),
                TextColumn("{task.fields[tasks]}"),
            )
            self._bar = Bar(*columns, TimeElapsedColumn(), console=self._console, transient=True)
            self._task = self._bar.add_task("", total=None, tasks="")
            self._bar.start()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="tidings-progress")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join(_SPEAK_SECONDS)
        if self._bar is not None:
            self._bar.stop()

    def note(self, phase: str, ask: Asker | None) -> None:
        """Something new begins; `ask` tells how far it is, if that can be asked."""
        self._phase, self._ask = phase, ask
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=phase, total=None, completed=0, tasks="")
        self._speak(phase)

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            ask = self._ask
            tasks = ask() if ask is not None else None
            if tasks is None:
                continue
            if self._bar is not None and self._task is not None:
                told = f"{tasks.done:,} of {tasks.total:,} tasks"
                self._bar.update(self._task, total=tasks.total, completed=tasks.done, tasks=told)
            elif time.monotonic() - self._spoken > _SPEAK_SECONDS:
                self._speak(f"{self._phase}: {tasks.done:,} of {tasks.total:,} tasks done")

    def _speak(self, line: str) -> None:
        if not self._is_live and not self._is_quiet:
            self._console.print(f"tidings: {line}", markup=False)
        self._spoken = time.monotonic()
