"""Routing as a stream wants it: what is shed, and what the workers tell of it, once for every part of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark import SparkContext, TaskContext
from pyspark.accumulators import AccumulatorParam

from tidings.routing.shed import Shed
from tidings.routing.stats import Noted, all_of

ByPart = dict[int, Noted]
_NOTHING = Shed()


@dataclass(frozen=True, slots=True)
class Routing:
    """What to shed; whom to tell what was noticed; how many texts of every Arrow batch to bring along."""

    shed: Shed = _NOTHING
    tell: Callable[[ByPart], None] | None = None
    texts: int = 0

    def told(self, noted: list[Noted]) -> None:
        """Called at the end of a task; one that Spark runs again tells the same again, and counts once."""
        context = TaskContext.get()
        if self.tell is not None:
            self.tell({context.partitionId() if context is not None else 0: all_of(noted)})


class RouteMeter:
    """What routing noticed in the batch that was begun last."""

    def __init__(self) -> None:
        context = SparkContext._active_spark_context
        if context is None:
            raise RuntimeError("routing is measured in a Spark session")
        self._parts = context.accumulator({}, _ByPart())  # one for ever: Spark forgets none
        self.tell: Callable[[ByPart], None] = self._parts.add

    def begin(self) -> None:
        self._parts.value = {}

    def end(self) -> Noted:
        return all_of(self._parts.value.values())


class _ByPart(AccumulatorParam[ByPart]):
    """A part that is told again replaces what was told of it."""

    def zero(self, value: ByPart) -> ByPart:
        return {}

    def addInPlace(self, value1: ByPart, value2: ByPart) -> ByPart:  # noqa: N802
        return {**value1, **value2}
