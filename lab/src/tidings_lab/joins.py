"""Joins as an alternative: explode the terms of posts, join on the least frequent term, check the other terms.

They start from term ids, without text analysis. Each is the fastest variant that we tried: for Polars and DuckDB, a
semi-join on the second term, over pieces of posts that fit the CPU cache, removes most candidates early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidings_lab.inputs import Inputs, Scale

# A sum over all matches that does not depend on their order and fits into 64 bits.
CHECKSUM_SQL = "sum((post_id % 1000003) * (subscription_id % 1009))"

SPARK_SQL = """
    SELECT /*+ BROADCAST(s) */ s.id AS subscription_id, p.id AS post_id
    FROM (SELECT id, words, explode(words) AS word FROM {posts}) p JOIN {subscriptions} s ON p.word = s.rarest
    WHERE (size(s.words) < 2 OR array_contains(p.words, s.words[1]))
      AND forall(s.words, w -> array_contains(p.words, w))
"""

_POLARS_PIECE = 5_000
_DUCKDB_PIECE = 20_000
_DUCKDB = """
    WITH candidates AS MATERIALIZED (
        SELECT e.post, s.id, s.third, s.fourth, s.others
        FROM exploded e JOIN s ON e.word = s.rarest SEMI JOIN exploded f ON f.post = e.post AND f.word = s.second)
    SELECT c.id AS subscription_id, p.id AS post_id FROM candidates c JOIN p ON p.post = c.post
    WHERE (third IS NULL OR list_contains(p.words, third)) AND (fourth IS NULL OR list_contains(p.words, fourth))
      AND (len(others) = 0 OR list_has_all(p.words, others))
"""


@dataclass(frozen=True, slots=True)
class MatchTally:
    """Number of matches and a checksum of them."""

    matches: int
    checksum: int

    def __add__(self, other: MatchTally) -> MatchTally:
        return MatchTally(self.matches + other.matches, self.checksum + other.checksum)


_NO_MATCHES = MatchTally(0, 0)


def match_in_polars(inputs: Inputs, scale: Scale) -> MatchTally:
    """Count all matches of a scale, piece by piece."""
    import polars as pl

    subscriptions = pl.read_parquet(inputs.word_table).with_row_index("place")
    second = pl.col("words").list.get(1, null_on_oob=True).alias("second")
    keyed = subscriptions.select("place", "rarest", second)
    whole = subscriptions.select("place", pl.col("id").alias("subscription_id"), "words")
    pieces = pl.read_parquet(f"{scale.words}/*.parquet").iter_slices(_POLARS_PIECE)
    return sum((_polars_piece(pl, piece, keyed, whole) for piece in pieces), _NO_MATCHES)


def _polars_piece(pl: Any, piece: Any, keyed: Any, whole: Any) -> MatchTally:
    exploded = piece.select("post", "words").explode("words").drop_nulls()
    present = exploded.select(_pair(pl, "words"))
    candidates = exploded.join(keyed, left_on="words", right_on="rarest").select("post", "place", "second")
    alone = candidates.filter(pl.col("second").is_null()).select("post", "place")
    paired = candidates.drop_nulls().with_columns(_pair(pl, "second")).join(present, on="pair", how="semi")
    candidates_left = pl.concat([alone, paired.select("post", "place")]).join(whole, on="place").with_row_index("row")
    rest = candidates_left.select("row", "post", pl.col("words").list.slice(2)).explode("words").drop_nulls()
    missing = rest.with_columns(_pair(pl, "words")).join(present, on="pair", how="anti")
    matches = candidates_left.join(missing, on="row", how="anti").join(piece.select("post", post_id="id"), on="post")
    checksum = matches.select(((pl.col("post_id") % 1000003) * (pl.col("subscription_id") % 1009)).sum()).item()
    return MatchTally(matches.height, int(checksum))


def _pair(pl: Any, word: str) -> Any:
    """Return (post, term) as one number."""
    return (pl.col("post") * (1 << 32) + pl.col(word)).alias("pair")


def match_in_duckdb(inputs: Inputs, scale: Scale) -> MatchTally:
    """Count all matches of a scale, piece by piece."""
    import duckdb

    total = _NO_MATCHES
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE s AS SELECT id, rarest, coalesce(words[2], rarest) AS second, words[3] AS third, "
            f"words[4] AS fourth, words[5:] AS others FROM '{inputs.word_table}'"
        )
        connection.execute(f"CREATE TABLE p AS SELECT * FROM '{scale.words}/*.parquet'")
        for first in range(0, scale.posts, _DUCKDB_PIECE):
            connection.execute(
                "CREATE OR REPLACE TEMP TABLE exploded AS SELECT post, unnest(words) AS word FROM p "
                f"WHERE post BETWEEN {first} AND {first + _DUCKDB_PIECE - 1}"
            )
            row = connection.execute(f"SELECT count(*), {CHECKSUM_SQL} FROM ({_DUCKDB})").fetchone()
            total += MatchTally(int(row[0]), int(row[1] or 0)) if row else _NO_MATCHES
    return total
