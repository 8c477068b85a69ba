"""Machines computed by the provisioner over subscriptions and feeds (Cobra: predicted scaling)."""

from __future__ import annotations

from collections.abc import Iterator

from tidings.provision.costs import load_calibration
from tidings.provision.demand import Demand, NodeSize
from tidings.provision.greedy import CannotProvision, provision
from tidings.provision.model import FILTER_MODES, FilterMode
from tidings_lab.datasets import Posts
from tidings_lab.runner import Parameters, Row


def steps(parameters: Parameters) -> int:
    return len(parameters["subscriptions_tried"]) + len(parameters["feeds_tried"])


def data(parameters: Parameters, seed: int) -> dict[str, object]:
    return {"posts": 0, "source": "calibration of commit " + str(load_calibration().origin["commit"])[:10], "note": ""}


def measure(posts: Posts, parameters: Parameters, seed: int) -> Iterator[tuple[str, list[Row]]]:
    """Yield a row per size and plan: machines of each service, and machines per million subscriptions or feeds."""
    for subscriptions in parameters["subscriptions_tried"]:
        rows = list(_rows("subscriptions", subscriptions, parameters["feeds"], parameters))
        yield f"{subscriptions:,} subscriptions", rows
    for feeds in parameters["feeds_tried"]:
        yield f"{feeds:,} feeds", list(_rows("feeds", parameters["subscriptions"], feeds, parameters))


def _rows(varied: str, subscriptions: int, feeds: int, parameters: Parameters) -> Iterator[Row]:
    demand = Demand(subscriptions, feeds, parameters["articles_per_feed_day"])
    varying = subscriptions if varied == "subscriptions" else feeds
    about = {"varied": varied, "subscriptions": subscriptions, "feeds": feeds}
    plans: list[FilterMode | None] = [None, *FILTER_MODES]
    for plan in plans:
        try:
            found = provision(demand, NodeSize(), load_calibration().costs, plan)
        except CannotProvision:
            continue
        nodes = found.topology.nodes
        yield {
            **about,
            "plan": plan or "best",
            "chosen": found.plan,
            **{f"{service}s": count for service, count in found.topology._asdict().items()},
            "nodes": nodes,
            "nodes_per_million": nodes / varying * 1e6,
        }
