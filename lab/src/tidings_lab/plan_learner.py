"""Learn word plans by different algorithms from the same corpus, with the same splits of hot terms.

Two corpora: the subscribed *terms* of posts, as in the paper, and only the *anchors* of the subscriptions, as `salb+`
learns. The product gives only `salb+` the anchors, with the work of each of them as weights. Here all algorithms get
both, so that a difference comes from the algorithm alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidings.balance.corpus import Corpus
from tidings.balance.split_corpus import split_hot_terms
from tidings.balance.word_registry import WORD_ALGORITHMS, fit_word_plan
from tidings.plan.hot_splits import HotSplits
from tidings.plan.words import LearnedPlan, WordPlan, hash_to_matchers
from tidings.text.analyzer import AnalyzedBatch
from tidings.text.vocabulary import Vocabulary
from tidings_lab.sample_queries import NumberedPosts
from tidings_lab.simulated_matchers import SimulatedCluster
from tidings_lab.workload import NumberedSubscriptions, fit_plan

CORPORA = ("terms", "anchors")
UNWEIGHTED = "salb+ unweighted"  # `salb+` on anchors without their work


class Arm(NamedTuple):
    """One way to learn a plan: the columns that identify it in results."""

    algorithm: str
    corpus: str
    split: bool

    def __str__(self) -> str:
        return f"{self.algorithm}, {self.corpus}, {'split' if self.split else 'whole'}"


def list_arms(algorithms: list[str], corpora: list[str], splits: list[bool]) -> list[Arm]:
    """Return every algorithm with every corpus, with and without splits; hashing learns nothing but the splits."""
    arms = [Arm(name, corpus, split) for split in splits for corpus in corpora for name in algorithms]
    if "anchors" in corpora and "salb+" in algorithms:
        arms += [Arm(UNWEIGHTED, "anchors", split) for split in splits]
    return arms


@dataclass
class PlanLearner:
    """Learns plans for one number of matchers from the same posts and subscriptions."""

    subscribed: NumberedSubscriptions
    known: NumberedPosts
    matchers: int
    _references: dict[tuple[str, bool], LearnedPlan] = field(default_factory=dict)
    _corpora: dict[tuple[str, bool], Corpus] = field(default_factory=dict)

    @cached_property
    def _terms(self) -> Corpus:
        return self.subscribed.corpus(self.known)

    def learn(self, arm: Arm) -> WordPlan:
        reference = self._reference(arm)
        if arm.algorithm == "salb+":
            return reference
        corpus = self._corpus(arm)
        splits = reference.splits_of(corpus.terms)
        chosen = self._assign(arm.algorithm, corpus, splits)
        known = reference.vocabulary.terms()
        others = [known[number] for number in np.flatnonzero(corpus.find_terms(known) < 0).tolist()]
        idle = reference.splits_of(others)  # hot, but no anchors
        vocabulary = Vocabulary.build([*corpus.terms, *others])
        ends = splits.starts[-1] + idle.starts[1:]
        both = HotSplits(np.concatenate([chosen, idle.matchers]), np.concatenate([splits.starts, ends]))
        return LearnedPlan(arm.algorithm, self.matchers, 0, corpus.size, vocabulary, both)

    def _assign(self, algorithm: str, corpus: Corpus, splits: HotSplits) -> NDArray[np.uint16]:
        """Return the matcher of every split of every term."""
        if algorithm == "hash":
            first = np.repeat(hash_to_matchers(corpus.terms, self.matchers).astype(np.int64), splits.counts)
            nth = np.arange(len(first)) - np.repeat(splits.starts[:-1].astype(np.int64), splits.counts)
            return ((first + nth) % self.matchers).astype(np.uint16)
        name = "salb+" if algorithm == UNWEIGHTED else algorithm
        split_corpus, _ = split_hot_terms(corpus, splits.counts)
        return WORD_ALGORITHMS[name](split_corpus, self.matchers)

    def _reference(self, arm: Arm) -> LearnedPlan:
        """Return the plan of `salb+`, whose terms and splits the other algorithms get too."""
        key = (arm.corpus, arm.split)
        if key not in self._references:
            if arm.corpus == "terms":
                plan = fit_word_plan("salb+", self._terms, self.matchers, arm.split)
            else:
                plan = fit_plan("salb+", self.subscribed, self.known, self.matchers, arm.split)
            assert isinstance(plan, LearnedPlan)
            self._references[key] = plan
        return self._references[key]

    def _corpus(self, arm: Arm) -> Corpus:
        if arm.corpus == "terms":
            return self._terms
        if (key := (arm.corpus, arm.split)) not in self._corpora:
            self._corpora[key] = self._corpus_of_anchors(self._reference(arm))
        return self._corpora[key]

    def _corpus_of_anchors(self, plan: LearnedPlan) -> Corpus:
        """Return the posts with their anchors only: the terms that route posts in an index with this plan."""
        views = SimulatedCluster(self.subscribed, plan, "anchor", 0).iter_views()
        is_anchor = np.zeros(len(self.subscribed.terms) + 1, bool)
        for view in views:
            is_anchor[view.anchors.terms] = True
        posts = self.subscribed.analyze(self.known)
        kept = is_anchor[posts.terms]
        offsets = np.concatenate([[0], np.cumsum(kept)]).astype(np.uint32)
        return Corpus.from_analyzed([AnalyzedBatch(posts.terms[kept], offsets[posts.bounds])], self.subscribed.terms)
