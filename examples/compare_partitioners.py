"""Learn word plans with several algorithms and compare them on posts they have not seen.

Spread is the mean number of matchers per post, imbalance the largest load divided by the mean load, and throughput
the speed-up over one matcher by equation 3.6 of S³-TM. Pass the number of matchers as an argument.
"""

from __future__ import annotations

import sys

from tidings.balance.corpus import Corpus
from tidings.balance.word_plan_metrics import WordPlanMetrics, measure_word_plan
from tidings.balance.word_registry import fit_word_plan
from tidings.demo.generate import generate_posts

PARTITIONERS = ("hash", "salb", "salb+")
POSTS = 20_000


def main(matchers: int = 16) -> dict[str, WordPlanMetrics]:
    """Print one line per partitioner; return the measured quality by name."""
    texts = generate_posts(2 * POSTS, seed=1)["text"]
    sample, judged = Corpus.from_texts(texts[:POSTS]), Corpus.from_texts(texts[POSTS:])
    results = {}
    for name in PARTITIONERS:
        plan = fit_word_plan(name, sample, matchers)
        quality = measure_word_plan(judged, plan.splits_of(judged.terms), matchers)
        print(f"{name:6} spread {quality.spread:5.2f}  imbalance {quality.imbalance:5.2f}  ×{quality.throughput:.2f}")
        results[name] = quality
    return results


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
