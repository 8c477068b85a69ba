"""Share a few parser processes between many visits: proven feeds first, and a budget for the documents of an owner."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidings.crawl.article import ParsedFeed
from tidings.crawl.lanes import CHEAP_CPU_S, VisitCost
from tidings.crawl.parser_process import ParserProcess


class ParseBudgetSpent(Exception):
    """Expensive documents of an owner have used the CPU time for those of unknown cost."""


class _Waiting(NamedTuple):
    """A document that waits for a parser."""

    rank: int
    owner: str
    turn: asyncio.Future[ParserProcess]


@dataclass(slots=True)
class ParserPool:
    """Parser processes of the caller, used by one event loop. The parser used last is used first."""

    parsers: Sequence[ParserProcess]
    cpu_s: float  # per document
    budget_s: float  # of the expensive documents of one owner
    _free: list[ParserProcess] = field(init=False)
    _waiting: list[_Waiting] = field(default_factory=list)
    _spent_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # by owner

    def __post_init__(self) -> None:
        self._free = list(self.parsers)

    async def parse(
        self, document: bytes, content_type: str, url: str, rank: int, owner: str, cost: VisitCost
    ) -> ParsedFeed:
        """Parse a document and add its CPU time to the cost; the lowest rank is served first, then who spent least.

        Raises NotAFeed, and ParseBudgetSpent for a document with a rank above 0 if its owner has spent the budget.
        """
        parser = await self._take(rank, owner)
        try:
            if rank and self._spent_s[owner] >= self.budget_s:
                raise ParseBudgetSpent
            return await self._parse(parser, document, content_type, url, owner, cost)
        finally:
            self._give_back(parser)

    async def _parse(
        self, parser: ParserProcess, document: bytes, content_type: str, url: str, owner: str, cost: VisitCost
    ) -> ParsedFeed:
        try:
            return await parser.parse(document, content_type, url, self.cpu_s)
        finally:
            cost.parse_cpu_s += parser.cpu_s
            if parser.cpu_s > CHEAP_CPU_S:
                self._spent_s[owner] += parser.cpu_s

    async def _take(self, rank: int, owner: str) -> ParserProcess:
        if self._free:
            return self._free.pop()
        turn: asyncio.Future[ParserProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(rank, owner, turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(turn.result())
            raise

    def _give_back(self, parser: ParserProcess) -> None:
        while self._waiting:
            first = min(self._waiting, key=lambda waiting: (waiting.rank, self._spent_s[waiting.owner]))
            self._waiting.remove(first)
            if not first.turn.done():
                first.turn.set_result(parser)
                return
        self._free.append(parser)
