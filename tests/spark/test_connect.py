"""`tidings.match` works in Spark Connect sessions, which have no SparkContext."""

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
results = {
    plan: sorted(map(tuple, tidings.match(posts, subscriptions, plan=plan, **more).collect()))
    for plan, more in options.items()
}
posts.write.json(sys.argv[1])
stream = spark.readStream.schema("id long, text string").json(sys.argv[1])
for plan, more in options.items():
    matches = tidings.match(stream, subscriptions, plan=plan, **more)
    query = matches.writeStream.format("memory").queryName(plan).trigger(availableNow=True).start()
    query.awaitTermination()
    results[f"streaming, {plan}"] = sorted(map(tuple, spark.table(plan).collect()))
results["rejected"] = [row.reason for row in tidings.rejected(posts).collect()]
print(json.dumps(results))
"""


def test_both_modes_work_in_a_connect_session(tmp_path):
    """In another process: a process with a Connect session can have no other session."""
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}  # so that the workers of the server have our packages
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "posts")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=800, env=environment)
    assert result.returncode == 0, result.stderr[-2000:]
    matches = [[1, 1, 1], [2, 2, 1]]
    assert json.loads(result.stdout.splitlines()[-1]) == {
        "replicated": matches,
        "partitioned": matches,
        "streaming, replicated": matches,
        "streaming, partitioned": matches,
        "rejected": ["the text is missing"],
    }
