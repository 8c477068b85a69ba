"""How a query was understood, and why a text does or does not match it, word by word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tidings.config import QUERY_LIMITS
from tidings.matching.brute_force import literal_holds
from tidings.query.ast import leaves
from tidings.query.dnf import Circle, Conjunction, Has, Literal, Phrase, Place, Polygons, Region
from tidings.query.parse import parse, read
from tidings.query.to_dnf import cost
from tidings.text.reference_analyzer import CleanText, Token, clean, decode_entities, is_stop, tokens

ITS_REGION = "its region"
Rarity = Callable[[str], float]  # the greater, the rarer the term


@dataclass(frozen=True, slots=True)
class LiteralExplanation:
    """One literal; with a text, whether it is satisfied and by which piece (places are in the decoded text)."""

    literal: str
    is_forbidden: bool
    is_satisfied: bool | None = None
    found: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class ConjunctionExplanation:
    """One way to match: everything in it at once."""

    text: str
    found_by: str
    literals: tuple[LiteralExplanation, ...]
    is_match: bool | None = None


@dataclass(frozen=True, slots=True)
class IgnoredExplanation:
    """A piece of the query that says nothing, and why."""

    piece: str
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All there is to say about a query; `limits` holds what it uses and what it may use."""

    query: str
    conjunctions: tuple[ConjunctionExplanation, ...]
    ignored: tuple[IgnoredExplanation, ...]
    limits: dict[str, tuple[int, int]]
    text: str | None = None
    is_match: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    def render(self) -> str:
        """Plain text, for a terminal."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The lines of the plain text."""
        used = [f"{name} {used:,} of {limit:,}" for name, (used, limit) in self.limits.items()]
        limits = f"Limits used: {', '.join(used)}."
        head = "Matches a post when any of these holds:"
        return [head, *self._forms(), *self._ignored_lines(), limits, *self._verdict()]

    def _forms(self) -> list[str]:
        return [
            f"  {number}. {conjunction.text}   (found by {conjunction.found_by})"
            for number, conjunction in enumerate(self.conjunctions, 1)
        ]

    def _ignored_lines(self) -> list[str]:
        pieces = [f"  {i.piece}   (character {i.start + 1}: {i.reason})" for i in self.ignored]
        return ["Ignored, for it says nothing:", *pieces] if pieces else []

    def _verdict(self) -> list[str]:
        if self.text is None:
            return []
        lines = [f"The text {'matches' if self.is_match else 'does not match'}:"]
        for number, conjunction in enumerate(self.conjunctions, 1):
            lines.append(f"  {number}. {'holds' if conjunction.is_match else 'does not hold'}")
            lines += [f"     {_literal_line(literal)}" for literal in conjunction.literals]
        return lines


@dataclass(frozen=True, slots=True)
class _Post:
    """A post with what is needed to point into it."""

    text: str
    words: list[Token]
    clean: CleanText
    lat: float | None
    lon: float | None


def explain(
    text: str,
    region: Place | None = None,
    post_text: str | None = None,
    lat: float | None = None,
    lon: float | None = None,
    rarity: Rarity | None = None,
) -> Explanation:
    """Explain a query, and with `post_text` its match; QueryError when the query is refused."""
    query, reading = parse(text, region), read(text, region)
    order = {leaf.literal: place for place, leaf in reversed(list(enumerate(leaves(reading.tree))))}
    post = None if post_text is None else _post(post_text, lat, lon)
    conjunctions = tuple(_conjunction(found, order, post, rarity) for found in query.conjunctions)
    limits = {
        "characters": (len(text), QUERY_LIMITS.characters),
        "depth": (query.depth, QUERY_LIMITS.depth),
        "leaves": (query.leaves, QUERY_LIMITS.leaves),
        "conjunctions": (cost(reading.tree).conjunctions, QUERY_LIMITS.conjunctions),
    }
    ignored = tuple(IgnoredExplanation(text[i.start : i.end], i.start, i.end, i.reason) for i in query.ignored)
    is_match = None if post is None else any(found.is_match for found in conjunctions)
    return Explanation(text, conjunctions, ignored, limits, post_text, is_match)


def anchor(conjunction: Conjunction, order: dict[Literal, int], rarity: Rarity | None = None) -> str:
    """The word the conjunction is found by: its rarest, or, where nothing is known of rarity, its longest."""
    terms = [
        term
        for literal in sorted(conjunction.required, key=order.__getitem__)
        for term in _terms(literal)
        if not is_stop(term)
    ]
    return max(terms, key=rarity or len, default=ITS_REGION)


def readable(literal: Literal) -> str:
    """The literal as it could be typed, but for stems."""
    match literal:
        case Has(term):
            return term
        case Phrase(terms):
            return '"' + " ".join(term.removeprefix(".") for term in terms) + '"'
        case Region(west, south, east, north):
            return "within:" + _numbers(west, south, east, north)
        case Circle(lat, lon, radius_km):
            return "near:" + _numbers(lat, lon, radius_km)
        case Polygons(shapes):
            several = "a polygon" if len(shapes) == 1 else f"{len(shapes)} polygons"
            return f"within:({several} of {literal.corners:,} corners)"


def _numbers(*numbers: float) -> str:
    return ",".join(repr(number).removesuffix(".0") for number in numbers)


def _terms(literal: Literal) -> tuple[str, ...]:
    if isinstance(literal, Has):
        return (literal.term,)
    return literal.terms if isinstance(literal, Phrase) else ()


def _post(text: str, lat: float | None, lon: float | None) -> _Post:
    decoded = decode_entities(text)
    return _Post(decoded, list(tokens(decoded)), clean(text), lat, lon)


def _conjunction(
    conjunction: Conjunction, order: dict[Literal, int], post: _Post | None, rarity: Rarity | None
) -> ConjunctionExplanation:
    required = sorted(conjunction.required, key=order.__getitem__)
    forbidden = sorted(conjunction.forbidden, key=order.__getitem__)
    literals = tuple(_literal(literal, literal in conjunction.forbidden, post) for literal in required + forbidden)
    text = " ".join(_sign(literal) for literal in literals)
    is_match = None if post is None else all(literal.is_satisfied for literal in literals)
    return ConjunctionExplanation(text, anchor(conjunction, order, rarity), literals, is_match)


def _sign(literal: LiteralExplanation) -> str:
    return f"{'-' if literal.is_forbidden else ''}{literal.literal}"


def _literal(literal: Literal, is_forbidden: bool, post: _Post | None) -> LiteralExplanation:
    if post is None:
        return LiteralExplanation(readable(literal), is_forbidden)
    is_satisfied = literal_holds(literal, post.clean, post.lat, post.lon) != is_forbidden
    if isinstance(literal, Place):
        where = None if post.lat is None or post.lon is None else f"latitude {post.lat:g}, longitude {post.lon:g}"
        return LiteralExplanation(readable(literal), is_forbidden, is_satisfied, where)
    span = _span(literal, post.words)
    found = None if span is None else post.text[slice(*span)]
    start, end = span or (None, None)
    return LiteralExplanation(readable(literal), is_forbidden, is_satisfied, found, start, end)


def _span(literal: Has | Phrase, words: list[Token]) -> tuple[int, int] | None:
    """Where the text first holds the literal."""
    if isinstance(literal, Has):
        return next(((word.start, word.end) for word in words if word.term == literal.term), None)
    plain = [word for word in words if not word.is_tag]
    size = len(literal.terms)
    for at in range(len(plain) - size + 1):
        if tuple(word.term for word in plain[at : at + size]) == literal.terms:
            return plain[at].start, plain[at + size - 1].end
    return None


def _literal_line(literal: LiteralExplanation) -> str:
    mark = "yes" if literal.is_satisfied else "no "
    if literal.start is None:
        where = literal.found or (
            "no position" if literal.literal.startswith(("within:", "near:")) else "not in the text"
        )
    else:
        where = f"“{literal.found}” at character {literal.start + 1}"
    return f"{mark} {_sign(literal)}: {where}"
