"""Options that choose how the index is distributed over matchers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

PARTITIONERS = (
    "Partitioners by terms: salb+, salb, hash, gc, gfc, gfcl, gnfcl. By position and terms: hybrid, kdt, grid, kdtree, "
    "rtree, frequency, hypergraph, metric."
)


class ExecutionMode(StrEnum):
    """Where the index is: on every worker, or in shards. The matches are the same."""

    auto = "auto"
    replicated = "replicated"
    partitioned = "partitioned"


PlanOption = Annotated[
    ExecutionMode,
    typer.Option(
        "--plan",
        metavar="auto|replicated|partitioned",
        help="Index on every worker, or in shards; auto: by its size.",
    ),
]
PartitionerOption = Annotated[
    str,
    typer.Option("--partitioner", metavar="NAME|FILE", help="Partitioner, or a file made by `tidings plan learn`."),
]
PlacementOption = Annotated[
    str,
    typer.Option(
        "--placement",
        metavar="anchor|lasp|lasp-printed|random",
        help="Which matcher of its terms holds a subscription.",
    ),
]


class MatcherName(StrEnum):
    """How posts are matched with subscriptions. The matches are the same."""

    kernel = "kernel"
    trie = "trie"


MatcherOption = Annotated[
    MatcherName,
    typer.Option(
        "--matcher", metavar="kernel|trie", help="Compiled kernels, or the trie of the S³-TM paper (slow, to compare)."
    ),
]


def matchers_option(default: str) -> object:
    return typer.Option(
        "--matchers", metavar="N", min=1, max=1024, help="Number of matchers, if partitioned.", show_default=default
    )
