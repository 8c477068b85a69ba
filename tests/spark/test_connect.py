"""`tidings.match` takes DataFrames of a Spark Connect session too, which has no context."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import tidings

spark = SparkSession.builder.remote("local[2]").getOrCreate()
posts = spark.createDataFrame([(1, "a storm is near"), (2, "tea"), (3, None)], "id long, text string")
subscriptions = spark.createDataFrame([(1, "storm"), (2, "tea OR rain")], "id long, query string")
options = {"replicated": {}, "partitioned": {"matchers": 3}}
found = {
    plan: sorted(map(tuple, tidings.match(posts, subscriptions, plan=plan, **more).collect()))
    for plan, more in options.items()
}
posts.write.json(sys.argv[1])
stream = spark.readStream.schema("id long, text string").json(sys.argv[1])
for plan, more in options.items():
    matches = tidings.match(stream, subscriptions, plan=plan, **more)
    query = matches.writeStream.format("memory").queryName(plan).trigger(availableNow=True).start()
    query.awaitTermination()
    found[f"streaming, {plan}"] = sorted(map(tuple, spark.table(plan).collect()))
found["rejected"] = [row.reason for row in tidings.rejected(posts).collect()]
print(json.dumps(found))
"""


def test_both_plans_match_in_a_connect_session(tmp_path):
    """In a process of its own: one that has a Connect session has no other."""
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}  # the server's workers have our packages
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "posts")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=800, env=environment)
    assert told.returncode == 0, told.stderr[-2000:]
    matches = [[1, 1, 1], [2, 2, 1]]
    assert json.loads(told.stdout.splitlines()[-1]) == {
        "replicated": matches,
        "partitioned": matches,
        "streaming, replicated": matches,
        "streaming, partitioned": matches,
        "rejected": ["no text"],
    }
