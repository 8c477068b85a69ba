"""Entries with conditions give the brute-force matches in every plan, also after changes and merges."""

from __future__ import annotations

import pytest
from tests.contract.matchers import MATCHERS

from tidings.testing import contract

NAMES = [
    "replicated",
    "replicated after a merge",
    "hash on 3 matchers",
    "hash on 3 matchers after changes",
    "salb+ on 5 matchers after a merge",
    "hybrid on 4 matchers",
    "hybrid on 5 matchers after a merge",
    "trie",
]


@pytest.mark.usefixtures("nothing_multiplied")
@pytest.mark.parametrize("name", NAMES)
def test_entries_with_conditions_give_the_brute_force_matches(name: str) -> None:
    contract.check_example_matches(MATCHERS[name])
    contract.check_random_matches(MATCHERS[name], max_examples=15)
