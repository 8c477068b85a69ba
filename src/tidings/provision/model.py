"""The load of one node of each service in a topology: bandwidth in and out, cores, memory.

There are three ways to distribute the work of the filters:

- *replicated*: every filter holds all subscriptions, and each article goes to one filter;
- *partitioned*: subscriptions are partitioned by terms, and articles are routed by their terms;
- *broadcast* (as in the talk): subscriptions are partitioned, and every filter sees every article.

Loads are means, evenly distributed. More replicas of one service never decrease the load of another service's nodes
(more filters send and receive more messages); `greedy.py` depends on this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1
from typing import Literal, NamedTuple, get_args

from tidings.provision.costs import ServiceCosts
from tidings.provision.demand import DAY_S, Demand, NodeSize

FilterMode = Literal["replicated", "partitioned", "broadcast"]
Service = Literal["crawler", "filter", "reflector"]
FILTER_MODES: tuple[FilterMode, ...] = get_args(FilterMode)
SERVICES: tuple[Service, ...] = get_args(Service)
CONSTRAINTS = ("in_bps", "out_bps", "cores", "memory_bytes")


class Topology(NamedTuple):
    """Number of replicas of each service."""

    crawler: int = 1
    filter: int = 1
    reflector: int = 1

    @property
    def nodes(self) -> int:
        return sum(self)


class NodeLoad(NamedTuple):
    """The load, or the limit, of one node."""

    in_bps: float
    out_bps: float
    cores: float
    memory_bytes: float


def node_limits(node: NodeSize) -> NodeLoad:
    """Return the limits of a node."""
    bandwidth = node.usable_part(node.bandwidth_bps)
    return NodeLoad(bandwidth, bandwidth, node.usable_part(node.cores), node.usable_part(node.memory_bytes))


@dataclass(frozen=True, slots=True)
class ServiceLoadModel:
    """Computes the load of a node of each service."""

    demand: Demand
    costs: ServiceCosts
    plan: FilterMode

    def loads(self, topology: Topology) -> Mapping[Service, NodeLoad]:
        return {service: self.load(service, topology) for service in SERVICES}

    def load(self, service: Service, topology: Topology) -> NodeLoad:
        """Return the load of one node of a service."""
        if service == "crawler":
            return self._crawler(topology)
        return self._filter(topology) if service == "filter" else self._reflector(topology)

    def _crawler(self, topology: Topology) -> NodeLoad:
        """A crawler polls its feeds and sends new articles to filters."""
        costs, feeds = self.costs, self.demand.feeds / topology.crawler
        polls_s, articles_s = feeds / self.demand.crawl_s, self.demand.articles_s / topology.crawler
        changed_s = polls_s * -expm1(-self.demand.articles_per_feed_day * self.demand.crawl_s / DAY_S)
        documents_s = changed_s + (polls_s - changed_s) * costs.crawl_ignoring_share
        return NodeLoad(
            in_bps=8
            * (documents_s * costs.crawl_document_bytes + (polls_s - documents_s) * costs.crawl_unchanged_bytes),
            out_bps=8
            * (polls_s * costs.crawl_request_bytes + articles_s * self._full_copies(topology) * costs.article_bytes),
            cores=polls_s * costs.crawl_poll_cpu_s + documents_s * costs.crawl_document_cpu_s,
            memory_bytes=costs.crawler_bytes + costs.store_memory_share * feeds * costs.crawl_feed_bytes,
        )

    def _filter(self, topology: Topology) -> NodeLoad:
        """A filter receives articles, matches those routed to it, and reports matches to reflectors."""
        costs, filters = self.costs, topology.filter
        held = self.demand.subscriptions / (1 if self.plan == "replicated" else filters)
        articles_s = self.demand.articles_s / filters
        received_s, matched_s = articles_s * self._full_copies(topology), articles_s * self._matching_filters(topology)
        routed_s = matched_s if self.plan == "partitioned" else 0.0
        match_cpu_s = costs.match_cpu_s + costs.match_subscription_cpu_s * held
        return NodeLoad(
            in_bps=8 * (received_s * costs.article_bytes + routed_s * costs.routed_bytes),
            out_bps=8 * (routed_s * costs.routed_bytes + self._report_bytes_s(topology) / filters),
            cores=received_s * costs.receive_cpu_s + matched_s * match_cpu_s,
            memory_bytes=costs.filter_bytes + held * costs.index_subscription_bytes,
        )

    def _reflector(self, topology: Topology) -> NodeLoad:
        """A reflector adds matches to queues and serves each queue as a feed."""
        costs, demand = self.costs, self.demand
        hosted = demand.subscriptions / topology.reflector
        polls_s, kept = hosted / demand.poll_s, self._queue_length()
        changed_s = polls_s * -expm1(-self._hits_s() * demand.poll_s)
        answers_bytes_s = changed_s * (costs.answer_bytes + kept * costs.answer_item_bytes)
        answers_cpu = changed_s * (costs.answer_cpu_s + kept * costs.answer_item_cpu_s)
        return NodeLoad(
            in_bps=8 * (self._report_bytes_s(topology) / topology.reflector + polls_s * costs.reader_request_bytes),
            out_bps=8 * (answers_bytes_s + (polls_s - changed_s) * costs.answer_unchanged_bytes),
            cores=hosted * self._hits_s() * costs.hit_cpu_s
            + answers_cpu
            + (polls_s - changed_s) * costs.answer_unchanged_cpu_s,
            memory_bytes=costs.reflector_bytes + costs.store_memory_share * self._stored_bytes(topology),
        )

    def _full_copies(self, topology: Topology) -> float:
        """Return how many filters an article is sent to in full."""
        return topology.filter if self.plan == "broadcast" else 1.0

    def _matching_filters(self, topology: Topology) -> float:
        """Return how many filters match an article."""
        if self.plan == "partitioned":
            return float(topology.filter**self.costs.spread_exponent)
        return self._full_copies(topology)

    def _hits_s(self) -> float:
        """Matches of one subscription per second."""
        return self.demand.articles_s * self.costs.match_share

    def _queue_length(self) -> float:
        """Matches in the queue of a subscription."""
        return min(float(self.demand.queue_hits), self._hits_s() * self.demand.keep_s)

    def _report_bytes_s(self, topology: Topology) -> float:
        """Bytes per second from all filters to all reflectors: an article goes once to each reflector with a match.

        If m matching subscriptions are spread over r reflectors at random, each hosts one with 1 − exp(−m/r).
        """
        hits = self.demand.subscriptions * self.costs.match_share
        matched = self._matching_filters(topology)
        copies = matched * topology.reflector * _reflector_share(topology.reflector, hits / matched)
        return self.demand.articles_s * (copies * self.costs.article_bytes + hits * self.costs.hit_wire_bytes)

    def _stored_bytes(self, topology: Topology) -> float:
        """Bytes in the store of a reflector: subscriptions, their queues, and the articles in them."""
        costs, hosted = self.costs, self.demand.subscriptions / topology.reflector
        queues = hosted * (costs.subscription_bytes + self._queue_length() * costs.hit_bytes)
        return queues + self._distinct_articles(topology) * costs.article_bytes

    def _distinct_articles(self, topology: Topology) -> float:
        """Distinct articles in the queues of a reflector."""
        hosted, kept = self.demand.subscriptions / topology.reflector, self._queue_length()
        if not kept:
            return 0.0
        share = _reflector_share(topology.reflector, self.demand.subscriptions * self.costs.match_share)
        return min(kept / self.costs.match_share * share, hosted * kept)


def _reflector_share(reflectors: int, hits: float) -> float:
    """Return the probability that a reflector hosts one of `hits` matches (Poisson)."""
    return -expm1(-hits / reflectors)
