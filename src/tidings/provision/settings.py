"""Commands and Spark settings that implement a topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidings.provision.demand import NodeSize
from tidings.provision.greedy import ProvisioningResult
from tidings.provision.model import Service

_MIN_HEAP_MB = 512  # Spark does not start an executor with less than 450 MB
_HEAP_SHARE = 0.4  # of a node's memory; the rest is for the index and the Python workers
_STATE = "postgresql://…"


@dataclass(frozen=True, slots=True)
class MachineRole:
    """Machines that run the same command."""

    service: Service
    machines: int
    command: str
    spark: Mapping[str, str]
    note: str


def assign_roles(result: ProvisioningResult, node: NodeSize) -> Iterator[MachineRole]:
    """Yield the role of each service of a topology."""
    yield _crawlers(result, node)
    yield _filters(result, node)
    yield _reflectors(result)


def _crawlers(result: ProvisioningResult, node: NodeSize) -> MachineRole:
    count = result.topology.crawler
    return MachineRole(
        "crawler",
        count,
        f"tidings crawl --state {_STATE} --inbox /shared/inbox" + ("" if count == 1 else " --master spark://HOST:7077"),
        {**_executors(count, node), "spark.executorEnv.TIDINGS_SITE": "SITE"} if count > 1 else {},
        "SITE names the site of an executor, which then visits feeds near it"
        if count > 1
        else "one machine, local Spark",
    )


def _filters(result: ProvisioningResult, node: NodeSize) -> MachineRole:
    count, plan = result.topology.filter, result.plan
    run = f"tidings run --posts /shared/inbox --state {_STATE}"
    if plan == "broadcast" and count > 1:
        note = "one stream per machine, each with its own state and its part of the subscriptions"
        return MachineRole("filter", count, f"{run}/PART --work-dir /shared/PART --plan replicated", {}, note)
    if count == 1:
        return MachineRole(
            "filter", 1, f"{run} --work-dir /shared/work --plan replicated", {}, "one machine, local Spark"
        )
    cluster = f"{run} --work-dir /shared/work --master spark://HOST:7077"
    if plan == "replicated":
        return MachineRole(
            "filter", count, f"{cluster} --plan replicated", _executors(count, node), "one Spark application"
        )
    matchers = min(1024, count * max(1, int(node.cores)))
    note = "one Spark application, one matcher per core; the driver stores all matches"
    return MachineRole(
        "filter", count, f"{cluster} --plan partitioned --matchers {matchers}", _executors(count, node), note
    )


def _reflectors(result: ProvisioningResult) -> MachineRole:
    count = result.topology.reflector
    note = "one process" if count == 1 else "each with its own state and its part of the subscriptions, by owner"
    return MachineRole("reflector", count, f"tidings serve --state {_STATE}{'/PART' if count > 1 else ''}", {}, note)


def _executors(count: int, node: NodeSize) -> dict[str, str]:
    memory_mb = int(node.memory_bytes / 1e6)
    heap_mb = max(_MIN_HEAP_MB, int(memory_mb * _HEAP_SHARE))
    cores = max(1, int(node.cores))
    return {
        "spark.executor.instances": str(count),
        "spark.executor.cores": str(cores),
        "spark.cores.max": str(count * cores),
        "spark.executor.memory": f"{heap_mb}m",
        "spark.executor.memoryOverhead": f"{max(384, memory_mb - heap_mb)}m",
    }
