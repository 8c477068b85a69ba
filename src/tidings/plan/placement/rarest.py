"""By the least frequent keyword (PS²Stream): the rarest word of a conjunction decides where it goes.

Few posts say that word, so few are sent for it; and all conjunctions found by one word are on one matcher, so a post's
words are looked up on one matcher each. Against random placement: 0.75 of the matchers' time at 100 K subscriptions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings.plan.placement.colocate import keep_together
from tidings.plan.placement.shard_terms import Ask
from tidings.query.anchors import lead_terms
from tidings.query.conjunctions import Conjunctions


def place_by_rarest(
    conjunctions: Conjunctions, matcher_of: NDArray[np.uint16], matchers: int, seed: int, held: Ask
) -> NDArray[np.uint16]:
    """The matcher of each conjunction; those found by region go anywhere.

    Terms are numbered from the most to the least frequent; `matcher_of` is indexed by these numbers.
    """
    leads = lead_terms(conjunctions)
    chosen = matcher_of[leads]
    wordless = np.flatnonzero(leads == 0)
    chosen[wordless] = np.random.default_rng(seed).integers(0, matchers, len(wordless))
    keep_together(conjunctions, matcher_of, chosen, lambda common, _: int(common[-1]))
    return chosen
