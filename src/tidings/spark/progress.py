"""Progress of batch jobs: phases that commands display, and the tasks that Spark has finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """Tasks of the running stages."""

    done: int
    total: int


class ProgressCallback(Protocol):
    """Called at the start of a phase; `tasks` reports the Spark tasks of that phase, if it has any."""

    def __call__(self, phase: str, tasks: Callable[[], TaskProgress | None] | None = None, /) -> None: ...


def task_progress(spark: SparkSession) -> TaskProgress | None:
    """Return the tasks of the running stages, or None if nothing runs or the session is stopping."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # the session is stopping
        return None
    running = [stage for stage in stages if stage is not None]
    if not running:
        return None
    return TaskProgress(sum(stage.numCompletedTasks for stage in running), sum(stage.numTasks for stage in running))
