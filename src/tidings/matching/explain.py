"""Explain how a query is parsed, and why a text matches it or not, literal by literal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tidings.config import QUERY_LIMITS
from tidings.matching.brute_force import literal_holds
from tidings.query.ast import iter_literals
from tidings.query.cost import query_cost
from tidings.query.dnf import Circle, Conjunction, Has, Literal, Phrase, Polygons, Rectangle, Region
from tidings.query.parse import parse, parse_tree
from tidings.query.to_dnf import dnf_size
from tidings.text.reference_analyzer import AnalyzedText, Token, analyze, decode_entities, is_stop, tokenize

REGION_ANCHOR = "its region"
Rarity = Callable[[str], float]  # larger for rarer terms


@dataclass(frozen=True, slots=True)
class LiteralExplanation:
    """One literal; with a text, whether it is satisfied and by which part (offsets in the decoded text)."""

    literal: str
    is_forbidden: bool
    is_satisfied: bool | None = None
    found: str | None = None
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class ConjunctionExplanation:
    """One conjunction: all of its literals must be satisfied."""

    text: str
    anchor: str
    literals: tuple[LiteralExplanation, ...]
    is_match: bool | None = None


@dataclass(frozen=True, slots=True)
class IgnoredExplanation:
    """A part of the query that is ignored, and the reason."""

    piece: str
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a query; `limits` has per limit what the query uses and the maximum."""

    query: str
    conjunctions: tuple[ConjunctionExplanation, ...]
    ignored: tuple[IgnoredExplanation, ...]
    limits: dict[str, tuple[int, int]]
    cost: int
    text: str | None = None
    is_match: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    def render(self) -> str:
        """Return plain text for a terminal."""
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the lines of the plain text."""
        uses = [f"{name} {used:,} of {limit:,}" for name, (used, limit) in self.limits.items()]
        limits = f"Limits used: {', '.join(uses)}."
        head = "Matches a post when any of these is true:"
        cost = f"Cost: {self.cost:,} (a plain word costs 1)."
        return [head, *self._conjunction_lines(), *self._ignored_lines(), limits, cost, *self._match_lines()]

    def _conjunction_lines(self) -> list[str]:
        return [
            f"  {number}. {conjunction.text}   (anchor: {conjunction.anchor})"
            for number, conjunction in enumerate(self.conjunctions, 1)
        ]

    def _ignored_lines(self) -> list[str]:
        pieces = [f"  {i.piece}   (character {i.start + 1}: {i.reason})" for i in self.ignored]
        return ["Ignored, because it has no effect:", *pieces] if pieces else []

    def _match_lines(self) -> list[str]:
        if self.text is None:
            return []
        lines = [f"The text {'matches' if self.is_match else 'does not match'}:"]
        for number, conjunction in enumerate(self.conjunctions, 1):
            lines.append(f"  {number}. {'true' if conjunction.is_match else 'false'}")
            lines += [f"     {_literal_line(literal)}" for literal in conjunction.literals]
        return lines


@dataclass(frozen=True, slots=True)
class _Post:
    """A post with its tokens, to report offsets."""

    text: str
    tokens: list[Token]
    analyzed: AnalyzedText
    lat: float | None
    lon: float | None


def explain(
    text: str,
    region: Region | None = None,
    post_text: str | None = None,
    lat: float | None = None,
    lon: float | None = None,
    rarity: Rarity | None = None,
) -> Explanation:
    """Explain a query and, with `post_text`, its match. Raise QueryError if the query is invalid."""
    query, tree = parse(text, region), parse_tree(text, region).tree
    order = {node.literal: rank for rank, node in reversed(list(enumerate(iter_literals(tree))))}
    post = None if post_text is None else _analyze_post(post_text, lat, lon)
    conjunctions = tuple(_explain_conjunction(conjunction, order, post, rarity) for conjunction in query.conjunctions)
    limits = {
        "characters": (len(text), QUERY_LIMITS.characters),
        "depth": (query.depth, QUERY_LIMITS.depth),
        "literals": (query.literal_count, QUERY_LIMITS.literals),
        "conjunctions": (dnf_size(tree).conjunctions, QUERY_LIMITS.conjunctions),
    }
    ignored = tuple(IgnoredExplanation(text[i.start : i.end], i.start, i.end, i.reason) for i in query.ignored)
    is_match = None if post is None else any(conjunction.is_match for conjunction in conjunctions)
    return Explanation(text, conjunctions, ignored, limits, query_cost(text, region), post_text, is_match)


def choose_anchor(conjunction: Conjunction, order: dict[Literal, int], rarity: Rarity | None = None) -> str:
    """Return the anchor of the conjunction: its rarest term, or without `rarity` its longest."""
    terms = [
        term
        for literal in sorted(conjunction.required, key=order.__getitem__)
        for term in _terms(literal)
        if not is_stop(term)
    ]
    return max(terms, key=rarity or len, default=REGION_ANCHOR)


def format_literal(literal: Literal) -> str:
    """Return the literal in the query language; words are stems."""
    match literal:
        case Has(term):
            return term
        case Phrase(terms):
            return '"' + " ".join(term.removeprefix(".") for term in terms) + '"'
        case Rectangle(west, south, east, north):
            return "within:" + _join_numbers(west, south, east, north)
        case Circle(lat, lon, radius_km):
            return "near:" + _join_numbers(lat, lon, radius_km)
        case Polygons(polygons):
            count = "a polygon" if len(polygons) == 1 else f"{len(polygons)} polygons"
            return f"within:({count} of {literal.corner_count:,} corners)"


def _join_numbers(*numbers: float) -> str:
    return ",".join(repr(number).removesuffix(".0") for number in numbers)


def _terms(literal: Literal) -> tuple[str, ...]:
    if isinstance(literal, Has):
        return (literal.term,)
    return literal.terms if isinstance(literal, Phrase) else ()


def _analyze_post(text: str, lat: float | None, lon: float | None) -> _Post:
    decoded = decode_entities(text)
    return _Post(decoded, list(tokenize(decoded)), analyze(text), lat, lon)


def _explain_conjunction(
    conjunction: Conjunction, order: dict[Literal, int], post: _Post | None, rarity: Rarity | None
) -> ConjunctionExplanation:
    required = sorted(conjunction.required, key=order.__getitem__)
    forbidden = sorted(conjunction.forbidden, key=order.__getitem__)
    literals = tuple(
        _explain_literal(literal, literal in conjunction.forbidden, post) for literal in required + forbidden
    )
    text = " ".join(_format_signed(literal) for literal in literals)
    is_match = None if post is None else all(literal.is_satisfied for literal in literals)
    return ConjunctionExplanation(text, choose_anchor(conjunction, order, rarity), literals, is_match)


def _format_signed(literal: LiteralExplanation) -> str:
    return f"{'-' if literal.is_forbidden else ''}{literal.literal}"


def _explain_literal(literal: Literal, is_forbidden: bool, post: _Post | None) -> LiteralExplanation:
    if post is None:
        return LiteralExplanation(format_literal(literal), is_forbidden)
    is_satisfied = literal_holds(literal, post.analyzed, post.lat, post.lon) != is_forbidden
    if isinstance(literal, Region):
        where = None if post.lat is None or post.lon is None else f"latitude {post.lat:g}, longitude {post.lon:g}"
        return LiteralExplanation(format_literal(literal), is_forbidden, is_satisfied, where)
    span = _span(literal, post.tokens)
    matched = None if span is None else post.text[slice(*span)]
    start, end = span or (None, None)
    return LiteralExplanation(format_literal(literal), is_forbidden, is_satisfied, matched, start, end)


def _span(literal: Has | Phrase, tokens: list[Token]) -> tuple[int, int] | None:
    """Return the offsets of the first occurrence of the literal."""
    if isinstance(literal, Has):
        return next(((token.start, token.end) for token in tokens if token.term == literal.term), None)
    words = [token for token in tokens if not token.is_tag]
    size = len(literal.terms)
    for at in range(len(words) - size + 1):
        if tuple(word.term for word in words[at : at + size]) == literal.terms:
            return words[at].start, words[at + size - 1].end
    return None


def _literal_line(literal: LiteralExplanation) -> str:
    mark = "yes" if literal.is_satisfied else "no "
    if literal.start is None:
        where = literal.found or (
            "no position" if literal.literal.startswith(("within:", "near:")) else "not in the text"
        )
    else:
        where = f"“{literal.found}” at character {literal.start + 1}"
    return f"{mark} {_format_signed(literal)}: {where}"
