"""Metrics of matchers and routers: workers measure, and Spark's accumulators carry one small value per task."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark import Accumulator, SparkContext, TaskContext
from pyspark.accumulators import AccumulatorParam

from tidings.matching.load import MatcherLoad, idle_loads, sum_loads
from tidings.routing.shed import ShedDecision
from tidings.routing.stats import RoutingStats, merge_stats
from tidings.spark.arrow_blobs import ArrowBatches, Stage
from tidings.spark.worker_state import IndexRef, open_index

Loads = tuple[MatcherLoad, ...]
ReportLoads = Callable[[Loads], None]
StatsByPartition = dict[int, RoutingStats]
_KEPT_BATCHES = 50  # progress of a batch may be requested after later batches have ended
_NOTHING = ShedDecision()
_T = TypeVar("_T")


def with_metrics(stage: Stage, ref: IndexRef, report: ReportLoads | None) -> Stage:
    """Return the stage, extended to report the loads of its matchers at the end of each task."""
    if report is None:
        return stage

    def measured_stage(batches: ArrowBatches) -> ArrowBatches:
        loads = open_index(ref).loads
        loads.clear()  # a task that failed may have left some
        yield from stage(batches)
        report(tuple(loads.values()))

    return measured_stage


class MatcherMetrics:
    """The loads of the last batches of a stream: `begin`, then `report` in the workers, then `end`.

    Failed tasks do not count. A stage that Spark repeats because its output was lost counts twice.
    """

    def __init__(self) -> None:
        self._sum = _accumulator((), _LoadsParam())
        self._loads: OrderedDict[int, Loads] = OrderedDict()
        self.report: ReportLoads = self._sum.add

    def begin(self) -> None:
        self._sum.value = ()

    def end(self, batch: int, matchers: int, shed: Sequence[int] = ()) -> Loads:
        """Return and keep one load per matcher for the batch begun last; `shed` counts posts per matcher."""
        shed_loads = (MatcherLoad(matcher, 0, 0, 0.0, count) for matcher, count in enumerate(shed))
        loads = sum_loads(idle_loads(matchers), self._sum.value, shed_loads)
        self._loads[batch] = loads
        while len(self._loads) > _KEPT_BATCHES:
            self._loads.popitem(last=False)
        return loads

    def loads_of(self, batch: int) -> Loads:
        """Return the loads of one of the last batches, or () if it was not measured."""
        return self._loads.get(batch, ())


@dataclass(frozen=True, slots=True)
class RoutingOptions:
    """What to shed, where to report stats, and how many of 10,000 posts to sample."""

    shed: ShedDecision = _NOTHING
    report: Callable[[StatsByPartition], None] | None = None
    sample_texts: int = 0

    def report_stats(self, stats: list[RoutingStats]) -> None:
        """Report the stats of a finished task by partition, so that a repeated task counts once."""
        context = TaskContext.get()
        if self.report is not None:
            self.report({context.partitionId() if context is not None else 0: merge_stats(stats)})


class RoutingMetrics:
    """The routing stats of the batch begun last."""

    def __init__(self) -> None:
        self._partitions = _accumulator({}, _StatsParam())
        self.report: Callable[[StatsByPartition], None] = self._partitions.add

    def begin(self) -> None:
        self._partitions.value = {}

    def end(self) -> RoutingStats:
        return merge_stats(self._partitions.value.values())


def _accumulator(zero: _T, param: AccumulatorParam[_T]) -> Accumulator[_T]:
    """Create an accumulator. Reuse it for all batches: Spark never releases one."""
    context = SparkContext._active_spark_context
    if context is None:
        raise RuntimeError("Metrics: there is no Spark session. Start one first.")
    return context.accumulator(zero, param)


class _LoadsParam(AccumulatorParam[Loads]):
    """Adds loads per matcher."""

    def zero(self, value: Loads) -> Loads:
        return ()

    def addInPlace(self, value1: Loads, value2: Loads) -> Loads:  # noqa: N802
        return sum_loads(value1, value2)


class _StatsParam(AccumulatorParam[StatsByPartition]):
    """Replaces the stats of a partition that is reported again."""

    def zero(self, value: StatsByPartition) -> StatsByPartition:
        return {}

    def addInPlace(self, value1: StatsByPartition, value2: StatsByPartition) -> StatsByPartition:  # noqa: N802
        return {**value1, **value2}
