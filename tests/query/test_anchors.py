"""Anchors: the least frequent term of each conjunction, with the signature of its other terms."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings

from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.query.anchors import SIGNATURE_WORDS, Anchors, signature_mask, signature_word
from tidings.testing.pipeline import subscription_table
from tidings.testing.strategies import query_lists


def has(signature: np.ndarray, term: int) -> bool:
    return bool(signature[int(signature_word(np.uint64(term)))] & np.uint64(signature_mask(np.uint64(term))))


@settings(max_examples=100, deadline=None)
@given(query_lists)
def test_every_conjunction_has_its_anchor_and_its_companions(queries):
    conjunctions = compile_subscriptions(subscription_table(queries), GrowingVocabulary()).conjunctions
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
