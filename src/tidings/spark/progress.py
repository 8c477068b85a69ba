"""How far Spark is with what it is doing right now."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of the stages that are running."""

    done: int
    total: int


def running_tasks(spark: SparkSession) -> Tasks | None:
    """None when Spark has nothing to do, or is no longer there to be asked."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # it is stopping: whatever it answers is of no interest any more
        return None
    found = [stage for stage in stages if stage is not None]
    if not found:
        return None
    return Tasks(sum(stage.numCompletedTasks for stage in found), sum(stage.numTasks for stage in found))
