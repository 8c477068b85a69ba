"""What leads to a shard: the rarest word of each conjunction, in the company of what else it asks for."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from tests.contract.matchers import table
from tests.generators import query_lists

from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.query.anchors import WORDS, Leads, bit_of, word_of


def has(signature: np.ndarray, term: int) -> bool:
    return bool(signature[int(word_of(np.uint64(term)))] & np.uint64(bit_of(np.uint64(term))))


@settings(max_examples=100, deadline=None)
@given(query_lists)
def test_every_conjunction_is_led_to_by_its_rarest_word_and_brings_its_companions(queries):
    conjunctions = compile_subscriptions(table(queries), GrowingVocabulary()).conjunctions
    leads = Leads.of(conjunctions)
    assert leads.companions.shape == (len(leads.leads), WORDS)
    for number, (start, end) in enumerate(itertools.pairwise(conjunctions.starts.tolist())):
        words = set(conjunctions.terms[start:end].tolist())
        program = int(conjunctions.program[number])
        beside = conjunctions.programs[program - 1].terms() if program else set()
        if not words:
            assert all(has(leads.wordless[0], term) for term in beside)
            continue
        signature = leads.companions[leads.leads.tolist().index(max(words))]
        assert all(has(signature, term) for term in (words - {max(words)}) | beside)
        assert len(words) > 1 or has(signature, max(words)), "a word alone is its own company"
