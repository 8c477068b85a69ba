"""Provisioning as in the Cobra talk: start with one replica of each service; while a limit is violated, add replicas.

More replicas of one service never decrease the load of another service's nodes. So whenever a node is overloaded, every
valid topology has more replicas of that service than the current one, and the result is the smallest valid topology in
each service and in total. The tests compare it with an exhaustive search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidings.errors import InputError
from tidings.provision.costs import ServiceCosts
from tidings.provision.demand import Demand, NodeSize
from tidings.provision.model import (
    CONSTRAINTS,
    FILTER_MODES,
    SERVICES,
    FilterMode,
    NodeLoad,
    Service,
    ServiceLoadModel,
    Topology,
    node_limits,
)

MAX_REPLICAS = 100_000  # of a service; a larger demand is a typing error


@dataclass(frozen=True, slots=True)
class Violation:
    """A service whose nodes exceed a limit."""

    service: Service
    constraint: str
    used: float
    limit: float


@dataclass(frozen=True, slots=True)
class ScalingStep:
    """Replicas of a service before and after, and the violation that required more."""

    violation: Violation
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class ProvisioningResult:
    """A topology without violations, the steps to it, and the load of every node."""

    plan: FilterMode
    topology: Topology
    steps: Sequence[ScalingStep]
    loads: Mapping[Service, NodeLoad]
    limits: NodeLoad

    def headroom(self, service: Service, constraint: str) -> float:
        """Return the share of the limit that is free."""
        limit: float = getattr(self.limits, constraint)
        return 1 - float(getattr(self.loads[service], constraint)) / limit


class CannotProvision(InputError):
    """No number of replicas removes a violation."""

    def __init__(self, violation: Violation, plan: FilterMode) -> None:
        used, limit = (_format_quantity(violation.constraint, value) for value in (violation.used, violation.limit))
        super().__init__(
            f"A {violation.service} needs {used} for any number of replicas, but a node has {limit} ({plan}). "
            "Use larger nodes, or reduce the demand."
        )
        self.violation, self.plan = violation, plan


def provision(
    demand: Demand, node: NodeSize, costs: ServiceCosts, plan: FilterMode | None = None
) -> ProvisioningResult:
    """Return the smallest topology; without a plan, over all `FILTER_MODES` (the first one if equal)."""
    results: list[ProvisioningResult] = []
    errors: list[CannotProvision] = []
    for mode in FILTER_MODES if plan is None else (plan,):
        try:
            results.append(decompose(ServiceLoadModel(demand, costs, mode), node_limits(node)))
        except CannotProvision as error:
            errors.append(error)
    if not results:
        raise errors[-1]
    return min(results, key=lambda result: result.topology.nodes)


def decompose(model: ServiceLoadModel, limit: NodeLoad) -> ProvisioningResult:
    """Run the algorithm of the talk for one plan."""
    topology, steps = Topology(), list[ScalingStep]()
    while (violation := find_violation(model, topology, limit)) is not None:
        _require_solution(model, topology, limit, violation)
        before = getattr(topology, violation.service)
        topology = topology._replace(**{violation.service: before + 1})
        last = steps[-1] if steps else None
        if last is not None and _is_same_limit(last.violation, violation):
            steps[-1] = ScalingStep(last.violation, last.before, before + 1)
        else:
            steps.append(ScalingStep(violation, before, before + 1))
    return ProvisioningResult(model.plan, topology, steps, model.loads(topology), limit)


def find_violation(model: ServiceLoadModel, topology: Topology, limit: NodeLoad) -> Violation | None:
    """Return the violation with the largest ratio to its limit, or None."""
    worst, worst_ratio = None, 1.0
    for service in SERVICES:
        load = model.load(service, topology)
        for constraint, used, allowed in zip(CONSTRAINTS, load, limit, strict=True):
            if used > allowed and used / allowed > worst_ratio:
                worst, worst_ratio = Violation(service, constraint, used, allowed), used / allowed
    return worst


def _require_solution(model: ServiceLoadModel, topology: Topology, limit: NodeLoad, violation: Violation) -> None:
    load = model.load(violation.service, topology._replace(**{violation.service: MAX_REPLICAS}))
    least: float = getattr(load, violation.constraint)
    if least > violation.limit:
        raise CannotProvision(Violation(violation.service, violation.constraint, least, violation.limit), model.plan)


def _is_same_limit(first: Violation, second: Violation) -> bool:
    return (first.service, first.constraint) == (second.service, second.constraint)


def _format_quantity(constraint: str, value: float) -> str:
    if constraint == "cores":
        return f"{value:,.2g} cores"
    unit = {"memory_bytes": "MB of memory", "in_bps": "Mbps of bandwidth in", "out_bps": "Mbps of bandwidth out"}
    number = f"{value / 1e6:,.3f}".rstrip("0").rstrip(".")
    return f"{number} {unit[constraint]}"
