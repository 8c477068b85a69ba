"""The talk's four workloads: the nodes it needed, and those the provisioner asks for with the costs of this code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidings.provision.answer import compared
from tidings.provision.costs import Costs, load_calibration
from tidings.provision.demand import Demand, Node
from tidings.provision.model import Topology
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row


def steps(parameters: Parameters) -> int:
    return len(parameters["articles_per_feed_day"])


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return {"posts": 0, "source": "calibration of commit " + str(load_calibration().origin["commit"])[:10], "note": ""}


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each workload, busyness of feeds, and who says so: the talk, we, and we if a cost were another."""
    costs = load_calibration().costs
    for rate in parameters["articles_per_feed_day"]:
        rows = list(_rows(rate, costs, parameters["what_if"]))
        yield f"{rate:g} articles a feed and day", rows


def _rows(rate: float, costs: Costs, what_if: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    demand = Demand(0, 0, rate)
    table = compared(demand, Node(), costs)
    for number, one in enumerate(table, 1):
        about = {"workload": number, "rate": rate, "subscriptions": one.subscriptions, "feeds": one.feeds}
        said = {"the talk": one.talk, "Tidings": one.ours, "Tidings, broadcast": one.broadcast}
        for other in what_if:
            changed = costs.changed({other["cost"]: getattr(costs, other["cost"]) * other["times"]})
            said[other["who"]] = compared(demand, Node(), changed)[number - 1].ours
        yield from ({**about, "who": who, **_nodes(found)} for who, found in said.items() if found is not None)


def _nodes(found: Topology) -> Row:
    return {**{f"{service}s": count for service, count in found._asdict().items()}, "nodes": found.nodes}
