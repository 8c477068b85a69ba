"""The report of `tidings provision`: topology, headroom, comparison with the Cobra talk, commands to start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidings.provision.costs import ServiceCosts
from tidings.provision.demand import TALK_WORKLOADS, Demand, NodeSize
from tidings.provision.greedy import CannotProvision, ProvisioningResult, provision
from tidings.provision.model import CONSTRAINTS, SERVICES, FilterMode, Topology
from tidings.provision.picture import draw_topology
from tidings.provision.settings import MachineRole, assign_roles


@dataclass(frozen=True, slots=True)
class TalkComparison:
    """A workload of the talk: nodes in the talk, by our best mode, and by the talk's mode (broadcast)."""

    subscriptions: int
    feeds: int
    talk: Topology
    ours: Topology | None  # None: not possible with any number of machines
    ours_plan: str
    broadcast: Topology | None


@dataclass(frozen=True, slots=True)
class ProvisioningReport:
    """The demand, the machines, and the topology for them."""

    demand: Demand
    node: NodeSize
    costs: ServiceCosts
    result: ProvisioningResult
    table: Sequence[TalkComparison]
    roles: Sequence[MachineRole]

    def to_svg(self) -> str:
        title = f"{self.demand.subscriptions:,} subscriptions, {self.demand.feeds:,} feeds: {self.result.plan} filters"
        return draw_topology(self.result, title)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        result = self.result
        return {
            "demand": asdict(self.demand),
            "node": asdict(self.node),
            "plan": result.plan,
            "topology": {**result.topology._asdict(), "nodes": result.topology.nodes},
            "steps": [
                {"service": step.violation.service, "constraint": step.violation.constraint}
                | {"used": step.violation.used, "limit": step.violation.limit, "from": step.before, "to": step.after}
                for step in result.steps
            ],
            "loads": {service: result.loads[service]._asdict() for service in SERVICES},
            "limits": result.limits._asdict(),
            "headroom": {
                service: {name: result.headroom(service, name) for name in CONSTRAINTS} for service in SERVICES
            },
            "talk": [_to_dict(row) for row in self.table],
            "start": [asdict(role) for role in self.roles],
            "costs": asdict(self.costs),
        }


def build_report(demand: Demand, node: NodeSize, costs: ServiceCosts, plan: FilterMode | None) -> ProvisioningReport:
    """Compute the report. Raises InputError if no number of machines is enough."""
    result = provision(demand, node, costs, plan)
    table = compare_with_talk(demand, node, costs)
    return ProvisioningReport(demand, node, costs, result, table, list(assign_roles(result, node)))


def compare_with_talk(demand: Demand, node: NodeSize, costs: ServiceCosts) -> list[TalkComparison]:
    """Provision the four workloads of the talk, with the activity of feeds and readers in `demand`."""
    rows = []
    for subscriptions, feeds, talk in TALK_WORKLOADS:
        workload = replace(demand, subscriptions=subscriptions, feeds=feeds)
        ours = _try_provision(workload, node, costs, None)
        broadcast = _try_provision(workload, node, costs, "broadcast")
        rows.append(
            TalkComparison(
                subscriptions,
                feeds,
                Topology(*talk),
                None if ours is None else ours.topology,
                "" if ours is None else ours.plan,
                None if broadcast is None else broadcast.topology,
            )
        )
    return rows


def _try_provision(
    demand: Demand, node: NodeSize, costs: ServiceCosts, plan: FilterMode | None
) -> ProvisioningResult | None:
    try:
        return provision(demand, node, costs, plan)
    except CannotProvision:
        return None


def _to_dict(row: TalkComparison) -> dict[str, Any]:
    return {
        "subscriptions": row.subscriptions,
        "feeds": row.feeds,
        "talk": {**row.talk._asdict(), "nodes": row.talk.nodes},
        "ours": None if row.ours is None else {**row.ours._asdict(), "nodes": row.ours.nodes, "plan": row.ours_plan},
        "broadcast": None if row.broadcast is None else {**row.broadcast._asdict(), "nodes": row.broadcast.nodes},
    }
