"""Show the progress of a job on standard error: a bar on a terminal, otherwise a line every few seconds."""

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
    from tidings.spark.progress import TaskProgress

AskTasks = Callable[[], "TaskProgress | None"]
_POLL_S = 0.25
_PRINT_INTERVAL_S = 5.0


class Progress:
    """A context manager; `note` starts a phase. A thread polls Spark for the tasks done."""

    def __init__(self, quiet: bool = False) -> None:
        self._console = error_screen()
        self._is_live = self._console.is_terminal
        self._is_quiet = quiet and not self._is_live
        self._phase, self._ask = "", None  # type: tuple[str, AskTasks | None]
        self._done = threading.Event()
        self._printed_at = 0.0
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
        self._thread = threading.Thread(target=self._poll_tasks, daemon=True, name="tidings-progress")
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        self._thread.join(_PRINT_INTERVAL_S)
        if self._bar is not None:
            self._bar.stop()

    def note(self, phase: str, ask: AskTasks | None = None) -> None:
        """Start a phase; `ask`, if given, returns how many of its tasks are done."""
        self._phase, self._ask = phase, ask
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=phase, total=None, completed=0, tasks="")
        self._print(phase)

    def _poll_tasks(self) -> None:
        while not self._done.wait(_POLL_S):
            ask = self._ask
            tasks = ask() if ask is not None else None
            if tasks is None:
                continue
            if self._bar is not None and self._task is not None:
                text = f"{tasks.done:,} of {tasks.total:,} tasks"
                self._bar.update(self._task, total=tasks.total, completed=tasks.done, tasks=text)
            elif time.monotonic() - self._printed_at > _PRINT_INTERVAL_S:
                self._print(f"{self._phase}: {tasks.done:,} of {tasks.total:,} tasks done")

    def _print(self, line: str) -> None:
        if not self._is_live and not self._is_quiet:
            self._console.print(f"tidings: {line}", markup=False)
        self._printed_at = time.monotonic()
