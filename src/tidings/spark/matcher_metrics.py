"""Measuring what matchers do: the workers note it, and Spark brings one small sum a task to the driver."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from pyspark import SparkContext
from pyspark.accumulators import AccumulatorParam

from tidings.matching.load import MatcherLoad, idle, together
from tidings.spark.arrow_blobs import Batches, Stage
from tidings.spark.worker_state import IndexRef, open_index

Loads = tuple[MatcherLoad, ...]
Tell = Callable[[Loads], None]
_LATE = 50  # so many batches may have ended before somebody asks for one


def measured(stage: Stage, ref: IndexRef, tell: Tell | None) -> Stage:
    """The same stage, which in the end tells what its matchers did. Without anybody to tell, the stage as it is."""
    if tell is None:
        return stage

    def telling(batches: Batches) -> Batches:
        noted = open_index(ref).noted
        noted.clear()  # what a task left that did not come to its end
        yield from stage(batches)
        tell(tuple(noted.values()))

    return telling


class LoadMeter:
    """The loads of the batches of one stream. A batch is begun, measured by `tell` in the workers, and ended.

    Tasks that fail do not count; a stage that Spark runs anew, because its output was lost, counts again.
    """

    def __init__(self) -> None:
        context = SparkContext._active_spark_context
        if context is None:
            raise RuntimeError("loads are measured in a Spark session")
        self._sum = context.accumulator((), _Together())  # one for ever: Spark forgets none
        self._of: OrderedDict[int, Loads] = OrderedDict()
        self.tell: Tell = self._sum.add

    def begin(self) -> None:
        self._sum.value = ()

    def end(self, batch: int, matchers: int, withheld: Sequence[int] = ()) -> Loads:
        """The loads of the batch that was begun last, one for each of so many matchers; what was withheld from each."""
        spared = (MatcherLoad(matcher, 0, 0, 0.0, count) for matcher, count in enumerate(withheld))
        loads = together(idle(matchers), self._sum.value, spared)
        self._of[batch] = loads
        while len(self._of) > _LATE:
            self._of.popitem(last=False)
        return loads

    def of(self, batch: int) -> Loads:
        """The loads of one of the last batches; none where it was not measured."""
        return self._of.get(batch, ())


class _Together(AccumulatorParam[Loads]):
    """Loads add up matcher by matcher."""

    def zero(self, value: Loads) -> Loads:
        return ()

    def addInPlace(self, value1: Loads, value2: Loads) -> Loads:  # noqa: N802
        return together(value1, value2)
