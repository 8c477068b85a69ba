"""Conditions: trees of AND, OR and NOT, compiled into tests that are made one after the other.

Each test is a literal, and has the number of the next test if it holds and if it does not. The next test always comes
later, so a post costs at most one test per literal. ``PASS`` and ``FAIL`` end the sequence.

The code of a test is ``n, if_true, if_false, n terms…`` for a word (n = 1) or a phrase, and
``0, if_true, if_false, region`` for a region. Targets are offsets from the first test; 0 is FAIL, and the length of the
code is PASS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tidings.query.ast import And, LiteralNode, Not, Tree
from tidings.query.dnf import Has, Phrase, Region

PASS, FAIL = -1, -2
_HEAD = 3  # numbers before the operands of a test


class LiteralTest(NamedTuple):
    """A post has `terms` next to each other, or without terms is in `region`; the next tests for both results."""

    terms: tuple[int, ...]
    region: int
    if_true: int
    if_false: int

    @property
    def size(self) -> int:
        return _HEAD + max(len(self.terms), 1)


Tests = tuple[LiteralTest, ...]


def compile_condition(tree: Tree | None, term_id: Callable[[str], int], region_id: Callable[[Region], int]) -> Tests:
    """Return the tests of a condition; none without a condition."""
    tests: list[LiteralTest] = []

    def emit(tree: Tree, if_true: int, if_false: int) -> int:
        """Prepend the tests of a tree and return the number of the first, counted from the end."""
        if isinstance(tree, Not):
            return emit(tree.child, if_false, if_true)
        if isinstance(tree, LiteralNode):
            terms, region = _operands(tree, term_id, region_id)
            tests.append(LiteralTest(terms, region, if_true, if_false))
            return len(tests) - 1
        first = if_true if isinstance(tree, And) else if_false
        for child in reversed(tree.children):
            first = emit(child, first, if_false) if isinstance(tree, And) else emit(child, if_true, first)
        return first

    if tree is not None:
        emit(tree, PASS, FAIL)
    return _reverse(tests)


def _operands(
    node: LiteralNode, term_id: Callable[[str], int], region_id: Callable[[Region], int]
) -> tuple[tuple[int, ...], int]:
    literal = node.literal
    if isinstance(literal, Has):
        return (term_id(literal.term),), 0
    if isinstance(literal, Phrase):
        return tuple(map(term_id, literal.terms)), 0
    return (), region_id(literal)


def _reverse(tests: Sequence[LiteralTest]) -> Tests:
    """Return tests in the order in which they are made; they were listed from the last to the first."""
    last = len(tests) - 1

    def move(target: int) -> int:
        return target if target < 0 else last - target

    return tuple(t._replace(if_true=move(t.if_true), if_false=move(t.if_false)) for t in reversed(tests))


def encode_tests(tests: Tests) -> list[int]:
    """Return the code of tests, without its length."""
    offsets, length = [], 0
    for test in tests:
        offsets.append(length)
        length += test.size
    offsets += [0, length]  # FAIL is -2, PASS is -1
    code = []
    for terms, region, if_true, if_false in tests:
        code += [len(terms), offsets[if_true], offsets[if_false], *(terms or (region,))]
    return code


def decode_tests(code: Sequence[int]) -> Tests:
    """Return the tests of a code: the inverse of `encode_tests`."""
    offsets = list(_iter_offsets(code))
    number_at = {offset: number for number, offset in enumerate(offsets)} | {0: FAIL, len(code): PASS}
    tests = []
    for at in offsets:
        count, if_true, if_false, first = code[at : at + _HEAD + 1]
        terms = tuple(code[at + _HEAD : at + _HEAD + count])
        tests.append(LiteralTest(terms, 0 if count else first, number_at[if_true], number_at[if_false]))
    return tuple(tests)


def _iter_offsets(code: Sequence[int]) -> Iterator[int]:
    at = 0
    while at < len(code):
        yield at
        at += _HEAD + max(code[at], 1)


def pass_tests(tests: Tests, holds: Callable[[LiteralTest], bool]) -> bool:
    """Return whether the tests end with PASS, given the result of each."""
    number = 0 if tests else PASS
    while number >= 0:
        number = tests[number].if_true if holds(tests[number]) else tests[number].if_false
    return number == PASS
