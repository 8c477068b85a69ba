"""Progress of long-running measurements: a bar on a terminal, otherwise a line per tenth of the work."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tidings.cli.console import error_screen

Report = Callable[[str], None]  # takes a line of progress


def print_line(line: str) -> None:
    print(line, flush=True)


class StepProgress:
    """Shows how many steps of an experiment are done."""

    def __init__(self, title: str) -> None:
        self._title, self._tenth = title, -1
        self._console = error_screen()
        self._is_live = self._console.is_terminal
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn())
        is_hidden = not self._is_live
        self._bar = Progress(*columns, TimeElapsedColumn(), console=self._console, transient=True, disable=is_hidden)
        self._task = self._bar.add_task(title, total=None)

    def __enter__(self) -> StepProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def update(self, step: str, done: int, total: int) -> None:
        self._bar.update(self._task, description=f"{self._title}: {step}", completed=done, total=total)
        tenth = 10 * done // max(1, total)
        if not self._is_live and tenth > self._tenth:
            self._console.print(f"tidings-lab: {self._title}: {done} of {total} steps, {step}", markup=False)
            self._tenth = tenth
