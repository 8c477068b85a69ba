"""What one node of each service must bear in a topology: bandwidth in and out, cores, memory.

Three ways to share the filters' work out, told apart by how often an article is sent whole, matched, and what is held:

- *replicated*: every filter holds all subscriptions, articles are dealt out;
- *partitioned*: subscriptions are shared out by words, an article's words are routed where they can matter;
- *broadcast* (the talk's): subscriptions are shared out, every filter sees every article.

Loads are means, and evenly shared. Adding replicas of one service never makes the load of another's node smaller (more
filters are more messages to send and receive); `greedy.py` rests on that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import expm1
from typing import Literal, NamedTuple, get_args

from tidings.provision.costs import Costs
from tidings.provision.demand import DAY_S, Demand, Node

Plan = Literal["replicated", "partitioned", "broadcast"]
Service = Literal["crawler", "filter", "reflector"]
PLANS: tuple[Plan, ...] = get_args(Plan)
SERVICES: tuple[Service, ...] = get_args(Service)
CONSTRAINTS = ("in_bps", "out_bps", "cores", "memory_bytes")


class Topology(NamedTuple):
    """How many replicas of each service there are."""

    crawler: int = 1
    filter: int = 1
    reflector: int = 1

    @property
    def nodes(self) -> int:
        return sum(self)


class Load(NamedTuple):
    """What one node bears."""

    in_bps: float
    out_bps: float
    cores: float
    memory_bytes: float


def limits(node: Node) -> Load:
    """The most a node can bear."""
    bandwidth = node.usable(node.bandwidth_bps)
    return Load(bandwidth, bandwidth, node.usable(node.cores), node.usable(node.memory_bytes))


@dataclass(frozen=True, slots=True)
class Model:
    """The load of a node of each service, for a demand at these costs."""

    demand: Demand
    costs: Costs
    plan: Plan

    def loads(self, topology: Topology) -> Mapping[Service, Load]:
        return {service: self.load(service, topology) for service in SERVICES}

    def load(self, service: Service, topology: Topology) -> Load:
        """What one node of a service bears."""
        if service == "crawler":
            return self._crawler(topology)
        return self._filter(topology) if service == "filter" else self._reflector(topology)

    def _crawler(self, topology: Topology) -> Load:
        """Its feeds are asked for all the time; what is new goes to as many filters as want it whole."""
        costs, feeds = self.costs, self.demand.feeds / topology.crawler
        polls_s, articles_s = feeds / self.demand.crawl_s, self.demand.articles_s / topology.crawler
        changed_s = polls_s * -expm1(-self.demand.articles_per_feed_day * self.demand.crawl_s / DAY_S)
        documents_s = changed_s + (polls_s - changed_s) * costs.crawl_ignoring_share
        return Load(
            in_bps=8
            * (documents_s * costs.crawl_document_bytes + (polls_s - documents_s) * costs.crawl_unchanged_bytes),
            out_bps=8 * (polls_s * costs.crawl_request_bytes + articles_s * self._sent(topology) * costs.article_bytes),
            cores=polls_s * costs.crawl_poll_cpu_s + documents_s * costs.crawl_document_cpu_s,
            memory_bytes=costs.crawler_bytes + costs.store_memory_share * feeds * costs.crawl_feed_bytes,
        )

    def _filter(self, topology: Topology) -> Load:
        """It receives articles, matches those that are its to match, and tells reflectors of the hits."""
        costs, filters = self.costs, topology.filter
        held = self.demand.subscriptions / (1 if self.plan == "replicated" else filters)
        articles_s = self.demand.articles_s / filters
        received_s, matched_s = articles_s * self._sent(topology), articles_s * self._matched(topology)
        routed_s = matched_s if self.plan == "partitioned" else 0.0
        match_cpu_s = costs.match_cpu_s + costs.match_subscription_cpu_s * held
        return Load(
            in_bps=8 * (received_s * costs.article_bytes + routed_s * costs.routed_bytes),
            out_bps=8 * (routed_s * costs.routed_bytes + self._told_bytes_s(topology) / filters),
            cores=received_s * costs.receive_cpu_s + matched_s * match_cpu_s,
            memory_bytes=costs.filter_bytes + held * costs.index_subscription_bytes,
        )

    def _reflector(self, topology: Topology) -> Load:
        """It puts hits into queues, and gives each reader its queue as a feed."""
        costs, demand = self.costs, self.demand
        hosted = demand.subscriptions / topology.reflector
        polls_s, kept = hosted / demand.poll_s, self._kept()
        changed_s = polls_s * -expm1(-self._hits_s() * demand.poll_s)
        answers_bytes_s = changed_s * (costs.answer_bytes + kept * costs.answer_item_bytes)
        answers_cpu = changed_s * (costs.answer_cpu_s + kept * costs.answer_item_cpu_s)
        return Load(
            in_bps=8 * (self._told_bytes_s(topology) / topology.reflector + polls_s * costs.reader_request_bytes),
            out_bps=8 * (answers_bytes_s + (polls_s - changed_s) * costs.answer_unchanged_bytes),
            cores=hosted * self._hits_s() * costs.hit_cpu_s
            + answers_cpu
            + (polls_s - changed_s) * costs.answer_unchanged_cpu_s,
            memory_bytes=costs.reflector_bytes + costs.store_memory_share * self._stored_bytes(topology),
        )

    def _sent(self, topology: Topology) -> float:
        """How many filters an article is sent to as a whole."""
        return topology.filter if self.plan == "broadcast" else 1.0

    def _matched(self, topology: Topology) -> float:
        """How many filters match an article."""
        if self.plan == "partitioned":
            return float(topology.filter**self.costs.spread_exponent)
        return self._sent(topology)

    def _hits_s(self) -> float:
        """Hits a second of one subscription."""
        return self.demand.articles_s * self.costs.match_share

    def _kept(self) -> float:
        """Hits in the queue of a subscription."""
        return min(float(self.demand.queue_hits), self._hits_s() * self.demand.keep_s)

    def _told_bytes_s(self, topology: Topology) -> float:
        """From all filters to all reflectors: an article once for each reflector that a filter finds it wanted on.

        Of m subscriptions that want it, shared out over r reflectors at random, each hosts one with 1 − exp(−m/r).
        """
        hits = self.demand.subscriptions * self.costs.match_share
        matched = self._matched(topology)
        told = matched * topology.reflector * _reached(topology.reflector, hits / matched)
        return self.demand.articles_s * (told * self.costs.article_bytes + hits * self.costs.hit_wire_bytes)

    def _stored_bytes(self, topology: Topology) -> float:
        """What the store of a reflector holds: subscriptions, their queues, and the articles in these."""
        costs, hosted = self.costs, self.demand.subscriptions / topology.reflector
        queues = hosted * (costs.subscription_bytes + self._kept() * costs.hit_bytes)
        return queues + self._articles_kept(topology) * costs.article_bytes

    def _articles_kept(self, topology: Topology) -> float:
        """Different articles in the queues of a reflector: all that came while a queue filled and that it wants."""
        hosted, kept = self.demand.subscriptions / topology.reflector, self._kept()
        if not kept:
            return 0.0
        wanted = _reached(topology.reflector, self.demand.subscriptions * self.costs.match_share)
        return min(kept / self.costs.match_share * wanted, hosted * kept)


def _reached(reflectors: int, hits: float) -> float:
    """The chance that one reflector hosts one of so many hits (a mean; how many there are is Poisson's)."""
    return -expm1(-hits / reflectors)
