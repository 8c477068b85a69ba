"""The talk's provisioning: begin with one of each service; while there is a violation, decompose that service.

Because more replicas of one service never lighten another's node, no service ever gets more replicas than it has in any
topology that works: whenever a node is overloaded, every such topology has more replicas of that service than are there
now. So the topology found is the smallest in each service, and the smallest altogether. The tests hold it against an
exhaustive search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidings.errors import InputError
from tidings.provision.costs import Costs
from tidings.provision.demand import Demand, Node
from tidings.provision.model import CONSTRAINTS, PLANS, SERVICES, Load, Model, Plan, Service, Topology, limits

MOST = 100_000  # replicas of a service; whoever needs more has mistyped


@dataclass(frozen=True, slots=True)
class Violation:
    """A service whose nodes bear too much of something."""

    service: Service
    constraint: str
    used: float
    limit: float


@dataclass(frozen=True, slots=True)
class Step:
    """A service was decomposed from so many replicas into so many, because of the violation at its beginning."""

    violation: Violation
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Provisioned:
    """A topology without violations, how it came about, and what every node bears."""

    plan: Plan
    topology: Topology
    steps: Sequence[Step]
    loads: Mapping[Service, Load]
    limits: Load

    def headroom(self, service: Service, constraint: str) -> float:
        """The share that is left."""
        limit: float = getattr(self.limits, constraint)
        return 1 - float(getattr(self.loads[service], constraint)) / limit


class Hopeless(InputError):
    """No number of replicas makes a violation go away."""

    def __init__(self, violation: Violation, plan: Plan) -> None:
        used, limit = (_told(violation.constraint, value) for value in (violation.used, violation.limit))
        super().__init__(
            f"A {violation.service} needs {used} of {violation.constraint.split('_')[0]}, however many there are, and "
            f"a node has {limit} ({plan}); give nodes more, or ask for less."
        )
        self.violation, self.plan = violation, plan


def provision(demand: Demand, node: Node, costs: Costs, plan: Plan | None = None) -> Provisioned:
    """The smallest topology; without a plan told, the best of all plans. Of equals the first of `PLANS`."""
    found: list[Provisioned] = []
    hopeless: list[Hopeless] = []
    for one in PLANS if plan is None else (plan,):
        try:
            found.append(decompose(Model(demand, costs, one), limits(node)))
        except Hopeless as error:
            hopeless.append(error)
    if not found:
        raise hopeless[-1]
    return min(found, key=lambda one: one.topology.nodes)


def decompose(model: Model, limit: Load) -> Provisioned:
    """The talk's algorithm for one plan."""
    topology, steps = Topology(), list[Step]()
    while (violation := find_violation(model, topology, limit)) is not None:
        _require_hope(model, topology, limit, violation)
        before = getattr(topology, violation.service)
        topology = topology._replace(**{violation.service: before + 1})
        last = steps[-1] if steps else None
        if last is not None and _same(last.violation, violation):
            steps[-1] = Step(last.violation, last.before, before + 1)
        else:
            steps.append(Step(violation, before, before + 1))
    return Provisioned(model.plan, topology, steps, model.loads(topology), limit)


def find_violation(model: Model, topology: Topology, limit: Load) -> Violation | None:
    """The worst violation there is: that which exceeds its limit the most times."""
    worst, most = None, 1.0
    for service in SERVICES:
        load = model.load(service, topology)
        for constraint, used, allowed in zip(CONSTRAINTS, load, limit, strict=True):
            if used > allowed and used / allowed > most:
                worst, most = Violation(service, constraint, used, allowed), used / allowed
    return worst


def _require_hope(model: Model, topology: Topology, limit: Load, violation: Violation) -> None:
    alone = model.load(violation.service, topology._replace(**{violation.service: MOST}))
    least: float = getattr(alone, violation.constraint)
    if least > violation.limit:
        raise Hopeless(Violation(violation.service, violation.constraint, least, violation.limit), model.plan)


def _same(one: Violation, other: Violation) -> bool:
    return (one.service, one.constraint) == (other.service, other.constraint)


def _told(constraint: str, value: float) -> str:
    if constraint == "cores":
        return f"{value:,.2g} cores"
    return f"{value / 1e6:,.0f} {'MB' if constraint == 'memory_bytes' else 'Mbps'}"
