"""The talk's four workloads: the nodes it needed, and those the provisioner asks for with the costs of this code."""

from __future__ import annotations

from collections.abc import Iterator

from tidings.lab.conduct import Parameters, Row
from tidings.lab.datasets import Posts
from tidings.provision.answer import compared
from tidings.provision.costs import load_calibration
from tidings.provision.demand import TALK, Demand, Node
from tidings.provision.model import Topology


def steps(parameters: Parameters) -> int:
    return len(parameters["articles_per_feed_day"])


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return {"posts": 0, "source": "calibration of commit " + str(load_calibration().origin["commit"])[:10], "note": ""}


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """A row for each workload, busyness of feeds, and who says so."""
    for rate in parameters["articles_per_feed_day"]:
        table = compared(Demand(0, 0, rate), Node(), load_calibration().costs)
        rows = []
        for number, (one, (_, _, talk)) in enumerate(zip(table, TALK, strict=True), 1):
            about = {"workload": number, "rate": rate, "subscriptions": one.subscriptions, "feeds": one.feeds}
            said = {"the talk": Topology(*talk), "Tidings": one.ours, "Tidings, broadcast": one.broadcast}
            rows += [{**about, "who": who, **_nodes(found)} for who, found in said.items() if found is not None]
        yield f"{rate:g} articles a feed and day", rows


def _nodes(found: Topology) -> Row:
    return {**{f"{service}s": count for service, count in found._asdict().items()}, "nodes": found.nodes}
