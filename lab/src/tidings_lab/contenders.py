"""Contenders: different ways to find the subscriptions that match each post.

A contender consumes a scale of posts (timed, matches discarded) and counts its matches (untimed, to compare).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import util
from typing import Any, Protocol

from tidings_lab import joins, stages
from tidings_lab.inputs import Inputs, Scale
from tidings_lab.joins import MatchTally

TEXT, TERM_IDS = "text", "term ids"
_POST_COLUMNS = "id bigint, text string"
_MATCH_COLUMNS = "subscription_id bigint, post_id bigint"
_NO_ANALYSIS = "starts from the term ids of each post, without text analysis"


class Contender(Protocol):
    """A way to match; `name` identifies it in the results."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def starts_from(self) -> str: ...
    @property
    def note(self) -> str: ...

    def consume(self, scale: Scale) -> None:
        """Find all matches and discard them."""
        ...

    def count_matches(self, scale: Scale) -> MatchTally | None:
        """Count the matches of plain subscriptions; None for the floor, which does not match."""
        ...


@dataclass
class SparkContender:
    """A contender that is a DataFrame, consumed by Spark's noop sink. `frame` is called once per scale, untimed."""

    name: str
    label: str
    starts_from: str
    note: str
    frame: Callable[[Scale], Any]
    beyond_words: tuple[int, ...] | None  # None: it does not match
    _frames: dict[str, Any] = field(default_factory=dict)

    def consume(self, scale: Scale) -> None:
        self._frame(scale).write.format("noop").mode("overwrite").save()

    def count_matches(self, scale: Scale) -> MatchTally | None:
        if self.beyond_words is None:
            return None
        matches = self._frame(scale)
        if self.beyond_words:
            matches = matches.where(f"subscription_id NOT IN ({','.join(map(str, self.beyond_words))})")
        row = matches.selectExpr("count(*)", joins.CHECKSUM_SQL).collect()[0]
        return MatchTally(int(row[0]), int(row[1] or 0))

    def _frame(self, scale: Scale) -> Any:
        if scale.name not in self._frames:
            self._frames[scale.name] = self.frame(scale)
        return self._frames[scale.name]


@dataclass(frozen=True)
class LocalContender:
    """A contender that is a library in this process; reading its Parquet files is timed, as for Spark."""

    name: str
    label: str
    starts_from: str
    note: str
    matching: Callable[[Inputs, Scale], MatchTally]
    inputs: Inputs

    def consume(self, scale: Scale) -> None:
        self.matching(self.inputs, scale)

    def count_matches(self, scale: Scale) -> MatchTally | None:
        return self.matching(self.inputs, scale)


def load_contenders(spark: Any, inputs: Inputs, matchers: int = 8) -> tuple[list[Contender], dict[str, str]]:
    """Return all contenders, the floor first, and the reasons why others are missing."""
    beyond = inputs.beyond_words
    available: list[Contender] = [
        SparkContender("floor", "Floor: identity mapInArrow", TEXT, "", lambda s: _floor(spark, s), None),
        _tidings(spark, inputs, "replicated", None, "Tidings, replicated"),
        _tidings(spark, inputs, "partitioned", matchers, f"Tidings, partitioned over {matchers} matchers"),
        SparkContender(
            "spark-sql", "Spark SQL join", TERM_IDS, _NO_ANALYSIS, lambda s: _spark_sql(spark, inputs, s), beyond
        ),
    ]
    skipped = {}
    if util.find_spec("tidings.matching.trie"):
        trie = SparkContender(
            "trie", "Trie of the paper in mapInArrow", TEXT, "", lambda s: _trie(spark, inputs, s), beyond
        )
        available.append(trie)
    else:
        skipped["trie"] = "tidings.matching.trie is missing"
    libraries = (("polars", "Polars join", joins.match_in_polars), ("duckdb", "DuckDB join", joins.match_in_duckdb))
    for name, label, matching in libraries:
        if util.find_spec(name):
            available.append(LocalContender(name, label, TERM_IDS, _NO_ANALYSIS, matching, inputs))
        else:
            skipped[name] = f"{name} is not installed (pip install tidings-lab)"
    return available, skipped


def _floor(spark: Any, scale: Scale) -> Any:
    return spark.read.parquet(scale.text).select("id", "text").mapInArrow(stages.identity, _POST_COLUMNS)


def _tidings(spark: Any, inputs: Inputs, plan: str, matchers: int | None, label: str) -> SparkContender:
    from tidings.spark.api import prepare_match

    def frame(scale: Scale) -> Any:
        posts = spark.read.parquet(scale.text).select("id", "text")
        return prepare_match(posts, inputs.subscriptions, plan=plan, matchers=matchers, partitioner="salb+").matches

    notes = [f"also matches {len(inputs.beyond_words)} queries with phrases, OR and NOT"] if inputs.beyond_words else []
    notes += ["word plan `salb+`, learned from the first 100,000 posts before the measurement"] if matchers else []
    return SparkContender(f"tidings-{plan}", label, TEXT, "; ".join(notes), frame, inputs.beyond_words)


def _spark_sql(spark: Any, inputs: Inputs, scale: Scale) -> Any:
    posts, subscriptions = f"bench_posts_{scale.name}", "bench_subscriptions"
    spark.read.parquet(scale.words).createOrReplaceTempView(posts)
    spark.read.parquet(inputs.word_table).createOrReplaceTempView(subscriptions)
    return spark.sql(joins.SPARK_SQL.format(posts=posts, subscriptions=subscriptions))


def _trie(spark: Any, inputs: Inputs, scale: Scale) -> Any:
    posts = spark.read.parquet(scale.text).select("id", "text")
    return posts.mapInArrow(stages.trie_stage(inputs.index_folder), _MATCH_COLUMNS)
