"""Everything that answers the same question: which subscriptions does each post satisfy?

A contender consumes a scale of posts (timed, its matches thrown away) and tells its tally (untimed, to compare).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import util
from typing import Any, Protocol

from tidings_lab import joins, stages
from tidings_lab.inputs import Inputs, Scale
from tidings_lab.joins import Tally

TEXT, WORDS = "text", "cleaned words"
_POST_COLUMNS = "id bigint, text string"
_MATCH_COLUMNS = "subscription_id bigint, post_id bigint"
_SPARED = "spared the handling of text: it gets the cleaned words of each post as numbers"


class Contender(Protocol):
    """One way to match, under the name it has in the results."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def starts_from(self) -> str: ...
    @property
    def note(self) -> str: ...

    def consume(self, scale: Scale) -> None:
        """Find all matches and throw them away."""
        ...

    def tally(self, scale: Scale) -> Tally | None:
        """The matches of plain subscriptions; None for the floor, which finds none."""
        ...


@dataclass
class OnSpark:
    """A contender that is a DataFrame; Spark's noop sink consumes it. `frame` is called once a scale, untimed."""

    name: str
    label: str
    starts_from: str
    note: str
    frame: Callable[[Scale], Any]
    beyond_words: tuple[int, ...] | None  # None: it finds no matches
    _frames: dict[str, Any] = field(default_factory=dict)

    def consume(self, scale: Scale) -> None:
        self._frame(scale).write.format("noop").mode("overwrite").save()

    def tally(self, scale: Scale) -> Tally | None:
        if self.beyond_words is None:
            return None
        matches = self._frame(scale)
        if self.beyond_words:
            matches = matches.where(f"subscription_id NOT IN ({','.join(map(str, self.beyond_words))})")
        row = matches.selectExpr("count(*)", joins.CHECKSUM_SQL).collect()[0]
        return Tally(int(row[0]), int(row[1] or 0))

    def _frame(self, scale: Scale) -> Any:
        if scale.name not in self._frames:
            self._frames[scale.name] = self.frame(scale)
        return self._frames[scale.name]


@dataclass(frozen=True)
class InProcess:
    """A contender that is a library called in this process; like Spark it reads its Parquet files within its time."""

    name: str
    label: str
    starts_from: str
    note: str
    matching: Callable[[Inputs, Scale], Tally]
    inputs: Inputs

    def consume(self, scale: Scale) -> None:
        self.matching(self.inputs, scale)

    def tally(self, scale: Scale) -> Tally | None:
        return self.matching(self.inputs, scale)


def contenders(spark: Any, inputs: Inputs, matchers: int = 8) -> tuple[list[Contender], dict[str, str]]:
    """All contenders, the floor first, and why some that should be there are not."""
    beyond = inputs.beyond_words
    found: list[Contender] = [
        OnSpark("floor", "Floor: identity mapInArrow", TEXT, "", lambda s: _floor(spark, s), None),
        _tidings(spark, inputs, "replicated", None, "Tidings, replicated"),
        _tidings(spark, inputs, "partitioned", matchers, f"Tidings, partitioned over {matchers} matchers"),
        OnSpark("spark-sql", "Spark SQL join", WORDS, _SPARED, lambda s: _spark_sql(spark, inputs, s), beyond),
    ]
    skipped = {}
    if util.find_spec("tidings.matching.trie"):
        trie = OnSpark("trie", "The paper's trie in mapInArrow", TEXT, "", lambda s: _trie(spark, inputs, s), beyond)
        found.append(trie)
    else:
        skipped["trie"] = "tidings.matching.trie is not there"
    libraries = (("polars", "Polars join", joins.match_in_polars), ("duckdb", "DuckDB join", joins.match_in_duckdb))
    for name, label, matching in libraries:
        if util.find_spec(name):
            found.append(InProcess(name, label, WORDS, _SPARED, matching, inputs))
        else:
            skipped[name] = f"{name} is not installed (pip install 'tidings[bench]')"
    return found, skipped


def _floor(spark: Any, scale: Scale) -> Any:
    return spark.read.parquet(scale.text).select("id", "text").mapInArrow(stages.identity, _POST_COLUMNS)


def _tidings(spark: Any, inputs: Inputs, plan: str, matchers: int | None, label: str) -> OnSpark:
    from tidings.spark.api import prepare

    def frame(scale: Scale) -> Any:
        posts = spark.read.parquet(scale.text).select("id", "text")
        return prepare(posts, inputs.subscriptions, plan=plan, matchers=matchers, partitioner="salb+").matches

    notes = [f"also answers {len(inputs.beyond_words)} queries with phrases, OR, NOT"] if inputs.beyond_words else []
    notes += ["words shared out by salb+, learned before from the first 100,000 posts"] if matchers else []
    return OnSpark(f"tidings-{plan}", label, TEXT, "; ".join(notes), frame, inputs.beyond_words)


def _spark_sql(spark: Any, inputs: Inputs, scale: Scale) -> Any:
    posts, subscriptions = f"bench_posts_{scale.name}", "bench_subscriptions"
    spark.read.parquet(scale.words).createOrReplaceTempView(posts)
    spark.read.parquet(inputs.word_table).createOrReplaceTempView(subscriptions)
    return spark.sql(joins.SPARK_SQL.format(posts=posts, subscriptions=subscriptions))


def _trie(spark: Any, inputs: Inputs, scale: Scale) -> Any:
    posts = spark.read.parquet(scale.text).select("id", "text")
    return posts.mapInArrow(stages.trie_stage(inputs.index_folder), _MATCH_COLUMNS)
