"""Plans depend on the data and the seed only, not on PYTHONHASHSEED, which differs between runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidings.balance.salb_work_aware import fit_texts
from tidings.balance.spatial_fit import build_workload
from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS, fit_spatial_plan
from tidings.balance.word_registry import WORD_ALGORITHMS
from tidings.correlate.partition.registry import ALGORITHMS, learn_tag_plan
from tidings.correlate.partition.tagsets import TagSets
from tidings.correlate.tag_parser import TagParser
from tidings.correlate.tag_vocabulary import TagVocabulary
from tidings.demo.generate import generate_posts, generate_queries
from tidings.index.compile import GrowingVocabulary, compile_subscriptions
from tidings.plan.space import write_spatial_plan
from tidings.plan.words import LearnedPlan, write_word_plan

POSTS, MATCHERS = 3_000, 4
QUERIES = [  # with several terms, phrases, negations and regions in one conjunction: their order must not matter
    '"heavy rain" "strong wind" storm flood -"false alarm" -joke -meme',
    "within:-80,20,-60,45 near:40.7,-74,60 -near:25.8,-80.2,300 snow ice frost hail sleet",
    "(alpha beta gamma delta) OR (epsilon zeta eta theta) OR (iota kappa lambda mu)",
]


def write_plans(folder: Path) -> None:
    """Build every word, spatial and tag plan and write each to a file."""
    posts = generate_posts(POSTS, seed=5)
    texts = posts.column("text").cast(pa.large_string()).combine_chunks()
    positions = np.column_stack([posts.column(name).to_numpy().astype(np.float64) for name in ("lon", "lat")])
    queries = [*QUERIES, *generate_queries(300, seed=6)]
    vocabulary = GrowingVocabulary()
    table = pa.table({"id": np.arange(len(queries)), "query": pa.array(queries, pa.string())})
    conjunctions = compile_subscriptions(table, vocabulary).conjunctions
    terms = vocabulary.added.terms()
    for name in WORD_ALGORITHMS:
        plan = fit_texts(name, texts, terms, conjunctions, MATCHERS)
        assert isinstance(plan, LearnedPlan)
        write_word_plan(plan, folder / f"word-{name}.plan")
    workload = build_workload(terms, conjunctions, (texts, positions))
    for name in SPATIAL_PARTITIONERS:
        write_spatial_plan(fit_spatial_plan(name, workload, MATCHERS), folder / f"spatial-{name}.plan")
    write_tag_plans(folder)


def write_tag_plans(folder: Path) -> None:
    rng = np.random.default_rng(7)
    texts = [" ".join(f"#tag{tag}" for tag in rng.integers(0, 200, rng.integers(1, 5))) for _ in range(POSTS)]
    batch = pa.record_batch([pa.array(np.arange(POSTS)), pa.array(texts)], ["time", "text"])
    posts = TagVocabulary().renumber_posts(TagParser().parse(batch))
    tag_sets = TagSets.deduplicate(posts.tags, posts.starts)
    for name in ALGORITHMS:
        plan = learn_tag_plan(tag_sets, MATCHERS, name, partitioners=3)
        (folder / f"tag-{name}.plan").write_bytes(plan.tags.tobytes() + plan.owners.tobytes())


def test_plan_files_are_the_same_for_every_hash_seed(tmp_path):
    pytest.importorskip("mtkahypar")
    folders = [tmp_path / seed for seed in ("1", "2")]
    for folder in folders:
        folder.mkdir()
        environment = os.environ | {"PYTHONHASHSEED": folder.name}
        subprocess.run([sys.executable, __file__, str(folder)], check=True, env=environment, timeout=600)
    first, second = ({file.name: file.read_bytes() for file in sorted(folder.iterdir())} for folder in folders)
    assert len(first) == len(WORD_ALGORITHMS) + len(SPATIAL_PARTITIONERS) + len(ALGORITHMS)
    assert [name for name, content in first.items() if second.get(name) != content] == []


if __name__ == "__main__":
    write_plans(Path(sys.argv[1]))
