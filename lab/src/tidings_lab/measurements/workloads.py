"""The four workloads of Cobra: its number of nodes, and that of the provisioner with the costs of this code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidings.provision.answer import compare_with_talk
from tidings.provision.costs import ServiceCosts, load_calibration
from tidings.provision.demand import Demand, NodeSize
from tidings.provision.model import Topology
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row


def steps(parameters: Parameters) -> int:
    return len(parameters["articles_per_feed_day"])


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return {"posts": 0, "source": "calibration of commit " + str(load_calibration().origin["commit"])[:10], "note": ""}


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per workload, article rate and variant: Cobra, Tidings, and Tidings with a changed cost."""
    costs = load_calibration().costs
    for rate in parameters["articles_per_feed_day"]:
        rows = list(_rows(rate, costs, parameters["what_if"]))
        yield f"{rate:g} articles per feed and day", rows


def _rows(rate: float, costs: ServiceCosts, what_if: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    demand = Demand(0, 0, rate)
    table = compare_with_talk(demand, NodeSize(), costs)
    for number, entry in enumerate(table, 1):
        about = {"workload": number, "rate": rate, "subscriptions": entry.subscriptions, "feeds": entry.feeds}
        topologies = {"the talk": entry.talk, "Tidings": entry.ours, "Tidings, broadcast": entry.broadcast}
        for other in what_if:
            changed = costs.with_changes({other["cost"]: getattr(costs, other["cost"]) * other["times"]})
            topologies[other["variant"]] = compare_with_talk(demand, NodeSize(), changed)[number - 1].ours
        yield from (
            {**about, "variant": variant, **_nodes(found)} for variant, found in topologies.items() if found is not None
        )


def _nodes(found: Topology) -> Row:
    return {**{f"{service}s": count for service, count in found._asdict().items()}, "nodes": found.nodes}
