"""Explain a query and estimate its matches per day: the answer of `POST /api/check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidings.matching.explain import explain
from tidings.query.geo.region import make_rectangle
from tidings.query.parse import parse
from tidings.web import schemas
from tidings.web.schemas import Box
from tidings.web.volume_estimate import VolumeEstimator


class Checker(Protocol):
    """Checks queries, here or in another process."""

    def check(self, query: str, box: Box | None) -> bytes:
        """Return a `QueryCheck` as JSON. Raises InputError if the query is not valid."""
        ...


@dataclass(frozen=True, slots=True)
class QueryChecker:
    """Checks queries in the process of the caller: up to a quarter of a second of Python per query."""

    volume: VolumeEstimator

    def check(self, query: str, box: Box | None) -> bytes:
        region = None if box is None else make_rectangle(*box)
        explanation = explain(query, region)
        estimate = self.volume.estimate(parse(query, region))
        checked = schemas.QueryCheck(
            query=query,
            conjunctions=[
                schemas.ConjunctionOut(text=conjunction.text, anchor=conjunction.anchor)
                for conjunction in explanation.conjunctions
            ],
            ignored=[
                schemas.IgnoredPart(piece=part.piece, start=part.start, end=part.end, reason=part.reason)
                for part in explanation.ignored
            ],
            cost=explanation.cost,
            matches_per_day=estimate.matches_per_day,
            posts_per_day=estimate.posts_per_day,
            history_hours=estimate.hours,
            sampled_posts=estimate.sampled_posts,
        )
        return checked.model_dump_json(by_alias=True).encode()
