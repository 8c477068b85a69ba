"""Anchors: the rarest term of each conjunction, with the signature of its other terms."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.query.anchors import SIGNATURE_WORDS, Anchors, anchor_terms, signature_mask, signature_word
from tidings.testing.pipeline import subscription_table
from tidings.testing.strategies import query_lists


def has(signature: np.ndarray, term: int) -> bool:
    return bool(signature[int(signature_word(np.uint64(term)))] & np.uint64(signature_mask(np.uint64(term))))


@settings(max_examples=100, deadline=None)
@given(query_lists)
def test_every_conjunction_has_its_anchor_and_its_companions(queries):
    compiled = compile_subscriptions(subscription_table(queries), GrowingVocabulary()).conjunctions
    conjunctions = compiled.order_terms(compiled.terms)
    anchors = Anchors.of(conjunctions)
    assert anchors.companion_signatures.shape == (len(anchors.terms), SIGNATURE_WORDS)
    for number, (start, end) in enumerate(itertools.pairwise(conjunctions.starts.tolist())):
        terms = set(conjunctions.terms[start:end].tolist())
        residual = int(conjunctions.residual[number])
        in_residual = conjunctions.residuals[residual - 1].terms() if residual else set()
        if not terms:
            assert all(has(anchors.region_only_signature[0], term) for term in in_residual)
            continue
        signature = anchors.companion_signatures[anchors.terms.tolist().index(max(terms))]
        assert all(has(signature, term) for term in (terms - {max(terms)}) | in_residual)
        assert len(terms) > 1 or has(signature, max(terms)), "a single term is its own companion"


@settings(max_examples=100, deadline=None)
@given(query_lists, st.randoms(use_true_random=False))
def test_terms_of_a_conjunction_are_distinct_and_the_rarest_is_first(queries, random):
    vocabulary = GrowingVocabulary()
    compiled = compile_subscriptions(subscription_table(queries), vocabulary).conjunctions
    rarity = list(range(len(vocabulary) + 1))
    random.shuffle(rarity)
    rarity_of_term = np.array(rarity, np.uint32)
    ordered = compiled.order_terms(rarity_of_term[compiled.terms])
    before, after = (
        [c.terms[start:end].tolist() for start, end in itertools.pairwise(c.starts.tolist())]
        for c in (compiled, ordered)
    )
    assert after == [sorted(set(terms), key=lambda term: -rarity[term]) for terms in before]
    split = np.arange(0, len(rarity), 2, dtype=np.uint32)  # every second term is hot
    expected = [next((t for t in terms if t % 2), terms[0] if terms else 0) for terms in after]
    assert anchor_terms(ordered, split).tolist() == expected
