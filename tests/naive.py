"""Slow, obvious oracles that share nothing with what they judge but the cleaning of words."""

from __future__ import annotations

from tidings.query.ast import And, Leaf, Not, Tree
from tidings.query.dnf import Has, Phrase
from tidings.text.reference_analyzer import CleanText


def evaluate_tree(tree: Tree, post: CleanText, lat: float | None = None, lon: float | None = None) -> bool:
    """Whether the query as it was typed, before any normal form, is true of the post."""
    if isinstance(tree, Leaf):
        return _holds(tree, post, lat, lon)
    if isinstance(tree, Not):
        return not evaluate_tree(tree.child, post, lat, lon)
    answers = [evaluate_tree(child, post, lat, lon) for child in tree.children]
    return all(answers) if isinstance(tree, And) else any(answers)


def _holds(leaf: Leaf, post: CleanText, lat: float | None, lon: float | None) -> bool:
    literal = leaf.literal
    if isinstance(literal, Has):
        return literal.term in post.terms
    if isinstance(literal, Phrase):
        text = "|" + "|".join(term or "<gap>" for term in post.sequence) + "|"  # no term holds a bar
        return "|" + "|".join(literal.terms) + "|" in text
    if lat is None or lon is None:
        return False
    return not (lon < literal.west or lon > literal.east or lat < literal.south or lat > literal.north)
