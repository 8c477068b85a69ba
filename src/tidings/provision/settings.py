"""A topology as commands and settings of Spark: what to start where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidings.provision.demand import Node
from tidings.provision.greedy import Provisioned
from tidings.provision.model import Service

_LEAST_HEAP_MB = 512  # Spark refuses to start an executor with less than 450 MB
_HEAP_SHARE = 0.4  # of a node's memory: the JVM moves posts, the index and the Python workers lie beside it
_STATE = "postgresql://…"


@dataclass(frozen=True, slots=True)
class Role:
    """So many machines that do the same."""

    service: Service
    machines: int
    command: str
    spark: Mapping[str, str]
    note: str


def roles(found: Provisioned, node: Node) -> Iterator[Role]:
    """What implements each service of a topology."""
    yield _crawlers(found, node)
    yield _filters(found, node)
    yield _reflectors(found)


def _crawlers(found: Provisioned, node: Node) -> Role:
    count = found.topology.crawler
    return Role(
        "crawler",
        count,
        f"tidings crawl --state {_STATE} --inbox /shared/inbox" + ("" if count == 1 else " --master spark://HOST:7077"),
        {**_executors(count, node), "spark.executorEnv.TIDINGS_SITE": "SITE"} if count > 1 else {},
        "SITE tells where an executor is, so that it gets feeds near it" if count > 1 else "one machine, local Spark",
    )


def _filters(found: Provisioned, node: Node) -> Role:
    count, plan = found.topology.filter, found.plan
    run = f"tidings run --posts /shared/inbox --state {_STATE}"
    if plan == "broadcast" and count > 1:
        note = "a stream of its own on each machine, each with its own state and its share of the subscriptions"
        return Role("filter", count, f"{run}/SHARE --work /shared/SHARE --plan replicated", {}, note)
    if count == 1:
        return Role("filter", 1, f"{run} --work /shared/work --plan replicated", {}, "one machine, local Spark")
    cluster = f"{run} --work /shared/work --master spark://HOST:7077"
    if plan == "replicated":
        return Role("filter", count, f"{cluster} --plan replicated", _executors(count, node), "one Spark application")
    matchers = min(1024, count * max(1, int(node.cores)))
    note = "one Spark application, a matcher for each core; the driver stores what all of them find"
    return Role("filter", count, f"{cluster} --plan partitioned --matchers {matchers}", _executors(count, node), note)


def _reflectors(found: Provisioned) -> Role:
    count = found.topology.reflector
    note = "one process" if count == 1 else "each with its own state and its share of the subscriptions, by owner"
    return Role("reflector", count, f"tidings serve --state {_STATE}{'/SHARE' if count > 1 else ''}", {}, note)


def _executors(count: int, node: Node) -> dict[str, str]:
    memory_mb = int(node.memory_bytes / 1e6)
    heap_mb = max(_LEAST_HEAP_MB, int(memory_mb * _HEAP_SHARE))
    cores = max(1, int(node.cores))
    return {
        "spark.executor.instances": str(count),
        "spark.executor.cores": str(cores),
        "spark.cores.max": str(count * cores),
        "spark.executor.memory": f"{heap_mb}m",
        "spark.executor.memoryOverhead": f"{max(384, memory_mb - heap_mb)}m",
    }
