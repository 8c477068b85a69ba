"""Placement by anchor (PS²Stream's least frequent keyword): the anchor of a conjunction determines its matcher.

Few posts contain that term, so few are sent for it; and all conjunctions with one anchor are on one matcher, so each
term of a post is looked up on one matcher. Compared with random placement: 0.75 of the matchers' time at 100 K
subscriptions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings.plan.placement.colocate import colocate
from tidings.plan.placement.shard_terms import ReadShardTerms
from tidings.query.anchors import anchor_terms
from tidings.query.conjunctions import Conjunctions


def place_by_anchor(
    conjunctions: Conjunctions, matcher_of: NDArray[np.uint16], matchers: int, seed: int, shard_terms: ReadShardTerms
) -> NDArray[np.uint16]:
    """Return the matcher of each conjunction; those without terms get a random one.

    The terms of a conjunction are ordered, rarest first; `matcher_of` is indexed by term.
    """
    anchors = anchor_terms(conjunctions)
    chosen = matcher_of[anchors]
    without_terms = np.flatnonzero(anchors == 0)
    chosen[without_terms] = np.random.default_rng(seed).integers(0, matchers, len(without_terms))
    colocate(conjunctions, matcher_of, chosen, lambda common, _: int(common[-1]))
    return chosen
