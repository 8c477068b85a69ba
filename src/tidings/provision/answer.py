"""Everything `tidings provision` answers: the topology, what is left, the talk's table beside ours, what to start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidings.provision.costs import Costs
from tidings.provision.demand import TALK, Demand, Node
from tidings.provision.greedy import Hopeless, Provisioned, provision
from tidings.provision.model import CONSTRAINTS, SERVICES, Plan, Topology
from tidings.provision.picture import draw
from tidings.provision.settings import Role, roles


@dataclass(frozen=True, slots=True)
class Compared:
    """A workload of the talk: the nodes it needed there, and here by our best plan and by its own."""

    subscriptions: int
    feeds: int
    talk: Topology
    ours: Topology | None  # None: no number of machines will do
    ours_plan: str
    broadcast: Topology | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked and what was found."""

    demand: Demand
    node: Node
    costs: Costs
    found: Provisioned
    table: Sequence[Compared]
    roles: Sequence[Role]

    def picture(self) -> str:
        title = f"{self.demand.subscriptions:,} subscriptions, {self.demand.feeds:,} feeds: {self.found.plan} filters"
        return draw(self.found, title)

    def described(self) -> dict[str, Any]:
        """As JSON."""
        found = self.found
        return {
            "demand": asdict(self.demand),
            "node": asdict(self.node),
            "plan": found.plan,
            "topology": {**found.topology._asdict(), "nodes": found.topology.nodes},
            "steps": [
                {"service": step.violation.service, "constraint": step.violation.constraint}
                | {"used": step.violation.used, "limit": step.violation.limit, "from": step.before, "to": step.after}
                for step in found.steps
            ],
            "loads": {service: found.loads[service]._asdict() for service in SERVICES},
            "limits": found.limits._asdict(),
            "headroom": {
                service: {name: found.headroom(service, name) for name in CONSTRAINTS} for service in SERVICES
            },
            "talk": [_row(one) for one in self.table],
            "start": [asdict(role) for role in self.roles],
            "costs": asdict(self.costs),
        }


def answer(demand: Demand, node: Node, costs: Costs, plan: Plan | None) -> Answer:
    """InputError when no number of machines will do."""
    found = provision(demand, node, costs, plan)
    table = compared(demand, node, costs)
    return Answer(demand, node, costs, found, table, list(roles(found, node)))


def compared(demand: Demand, node: Node, costs: Costs) -> list[Compared]:
    """The four workloads of the talk, with feeds and readers as busy as they are asked about."""
    found = []
    for subscriptions, feeds, talk in TALK:
        asked = replace(demand, subscriptions=subscriptions, feeds=feeds)
        ours = _tried(asked, node, costs, None)
        broadcast = _tried(asked, node, costs, "broadcast")
        found.append(
            Compared(
                subscriptions,
                feeds,
                Topology(*talk),
                None if ours is None else ours.topology,
                "" if ours is None else ours.plan,
                None if broadcast is None else broadcast.topology,
            )
        )
    return found


def _tried(demand: Demand, node: Node, costs: Costs, plan: Plan | None) -> Provisioned | None:
    try:
        return provision(demand, node, costs, plan)
    except Hopeless:
        return None


def _row(one: Compared) -> dict[str, Any]:
    return {
        "subscriptions": one.subscriptions,
        "feeds": one.feeds,
        "talk": {**one.talk._asdict(), "nodes": one.talk.nodes},
        "ours": None if one.ours is None else {**one.ours._asdict(), "nodes": one.ours.nodes, "plan": one.ours_plan},
        "broadcast": None if one.broadcast is None else {**one.broadcast._asdict(), "nodes": one.broadcast.nodes},
    }
