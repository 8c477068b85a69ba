"""Match a stream of JSON files and handle each batch of matches.

The program writes some files itself. In real use, point `DIRECTORY` to a directory that another program fills, or use
any other streaming source of Spark, and remove `availableNow`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame

import tidings

SUBSCRIPTIONS = [(1, "storm OR flood"), (2, "#election"), (3, "(fire OR smoke) -drill")]
POSTS = [
    {"id": "a", "text": "Flood in the old town"},
    {"id": "b", "text": "Results are in #election"},
    {"id": "c", "text": "Smoke after a fire drill"},
    {"id": "d", "text": "Fire in the harbour, storm to follow"},
]


def main() -> list[tuple[int, str]]:
    """Run the stream until all files are read; return the (subscription, post) pairs that were seen."""
    seen: list[tuple[int, str]] = []

    def alert(matches: DataFrame, batch: int) -> None:
        for row in matches.collect():
            print(f"batch {batch}: subscription {row.subscription_id} matches post {row.post_id}")
            seen.append((row.subscription_id, row.post_id))

    spark = tidings.session()
    subscriptions = spark.createDataFrame(SUBSCRIPTIONS, ["id", "query"])
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, "posts")
        directory.mkdir()
        for number, post in enumerate(POSTS):
            (directory / f"{number}.json").write_text(json.dumps(post))
        posts = spark.readStream.schema("id string, text string").json(str(directory))
        matches = tidings.match(posts, subscriptions)
        stream = matches.writeStream.foreachBatch(alert).option("checkpointLocation", f"{folder}/checkpoint")
        stream.trigger(availableNow=True).start().awaitTermination()
    return sorted(seen)


if __name__ == "__main__":
    main()
