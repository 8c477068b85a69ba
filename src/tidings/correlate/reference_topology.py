"""The whole topology in one process: what the lab and the tests run, and what the stages on Spark must equal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from tidings.correlate.calculator import Calculator
from tidings.correlate.posts import TaggedPosts
from tidings.correlate.settings import Settings
from tidings.correlate.tag_router import Notifications
from tidings.correlate.tag_routing_pipeline import Dissemination, MakePlan, in_this_process
from tidings.correlate.tracker import Reports, tracked


@dataclass(frozen=True, slots=True)
class Correlated:
    """The coefficients, and how they came about."""

    reports: Reports
    dissemination: Dissemination


def calculator_of(settings: Settings) -> Calculator:
    return Calculator(settings.panes, settings.min_support, settings.catch_up)


def calculated(told: Iterable[Notifications], settings: Settings, until: int | None = None) -> Reports:
    """What calculators report when they are told this, in order; of windows that end by slide `until`, if given."""
    calculators: dict[int, Calculator] = {}
    reports: list[Reports] = []
    for one in told:
        calculator = calculators.setdefault(one.calculator, calculator_of(settings))
        reports += [Reports.of(end, one.calculator, counted) for end, counted in calculator.take(one)]
    for number, calculator in calculators.items():
        reports += [Reports.of(end, number, counted) for end, counted in calculator.finish(until)]
    return Reports.together(reports)


def correlate(posts: TaggedPosts, settings: Settings, make_plan: MakePlan | None = None) -> Correlated:
    """Partition, disseminate, calculate and track posts that come in the order of time."""
    dissemination = Dissemination(settings, make_plan or in_this_process(settings))
    told = chain.from_iterable(dissemination.take(posts))
    return Correlated(tracked(calculated(told, settings)), dissemination)
