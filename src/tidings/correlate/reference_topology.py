"""The whole topology in one process, for the lab and the tests; the stages on Spark must give the same result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from tidings.correlate.calculator import Calculator
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import CorrelationSettings
from tidings.correlate.tag_router import Notifications
from tidings.correlate.tag_routing_pipeline import TagPlanner, TagRoutingPipeline, local_planner
from tidings.correlate.tracker import Reports, choose_reports


@dataclass(frozen=True, slots=True)
class CorrelationResult:
    """The coefficients, and the pipeline with its statistics."""

    reports: Reports
    pipeline: TagRoutingPipeline


def build_calculator(settings: CorrelationSettings) -> Calculator:
    return Calculator(settings.panes, settings.min_support, settings.catch_up)


def run_calculators(
    notifications: Iterable[Notifications], settings: CorrelationSettings, until: int | None = None
) -> Reports:
    """Return the reports of all calculators for windows that end by slide `until` (default: all)."""
    calculators: dict[int, Calculator] = {}
    reports: list[Reports] = []
    for group in notifications:
        calculator = calculators.setdefault(group.calculator, build_calculator(settings))
        reports += [Reports.of(end, group.calculator, counted) for end, counted in calculator.process(group)]
    for number, calculator in calculators.items():
        reports += [Reports.of(end, number, counted) for end, counted in calculator.finish(until)]
    return Reports.concat(reports)


def correlate(
    posts: TaggedPosts, settings: CorrelationSettings, planner: TagPlanner | None = None
) -> CorrelationResult:
    """Partition, route, calculate and track posts that arrive in order of time."""
    pipeline = TagRoutingPipeline(settings, planner or local_planner(settings))
    notifications = chain.from_iterable(pipeline.route(posts))
    return CorrelationResult(choose_reports(run_calculators(notifications, settings)), pipeline)
