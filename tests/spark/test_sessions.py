"""`tidings.match` works in sessions of Tidings, with real executors, and in sessions of the user."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.spark.fixtures import run_python

from tidings.spark.index_shipping import ship_index

# Both sessions run in one JVM. Spark copies the settings of the first to system properties: the second must not see
# them, because the session of a user does not have them.
PROGRAM = """
from pyspark.sql import SparkSession
import tidings
from tidings.spark import api

def check(spark):
    rows = [(1, "cats and dogs"), (2, "a white house"), (3, None), (4, "the cat")]
    posts = spark.createDataFrame(rows, "id int, text string").repartition(3)
    queries = [("a", "cat OR dog OR lynx OR bird"), ("b", '"white house"'), ("c", "(bad"), ("d", "the cat")]
    subscriptions = spark.createDataFrame(queries, "id string, query string")
    expected = [("a", 1), ("a", 4), ("b", 2), ("d", 1), ("d", 4)]
    for options in ({"plan": "replicated"}, {"plan": "partitioned", "matchers": 3}):
        matches = tidings.match(posts, subscriptions, **options).collect()
        pairs = sorted((row.subscription_id, row.post_id) for row in matches)
        assert pairs == expected, pairs
    assert tidings.rejected(posts).count() == 1

shipped, ship_index = [], api.ship_index
api.ship_index = lambda *arguments: shipped.append(ship_index(*arguments)) or shipped[-1]
spark = tidings.session("local-cluster[2,1,1024]", {"spark.executor.memory": "1g"})
check(spark)
assert [reference.shipped for reference in shipped] == [True, True]
assert spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3, "a driver and two executors"
system = spark._jvm.System
spark.stop()

for name in list(system.getProperties().stringPropertyNames()):
    if name.startswith("spark."):
        system.clearProperty(name)
spark = SparkSession.builder.appName("user").master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert tidings.session() is spark
assert spark.conf.get("spark.python.daemon.module", None) is None
check(spark)
spark.stop()
"""


def test_match_works_on_executors_and_in_a_user_session_without_output():
    """Executors in other processes get the index as a Spark file, not from the disk of the driver."""
    result = run_python(PROGRAM)
    assert (result.stdout, result.stderr) == ("", "")


STREAM_SESSIONS = """
from tidings.spark.session import session

def start(**settings):
    return session("local[1]", settings, has_ml_functions=False)

def list_ml_functions(spark):
    registry = getattr(spark._jvm.org.apache.spark.sql.catalyst.analysis, "FunctionRegistry$")
    return getattr(registry, "MODULE$").internal().listFunction().mkString(" ")

spark = start(**{"spark.sql.shuffle.partitions": "3"})
assert spark.range(5).selectExpr("sum(id) AS sum").first().sum == 10
assert (spark.conf.get("spark.sql.shuffle.partitions"), spark.sparkContext.appName) == ("3", "tidings")
assert "vector_to_array" not in list_ml_functions(spark)
assert session() is spark, "the session is active"
spark.stop()

spark = start(**{"spark.sql.extensions": "org.apache.spark.sql.ml.InternalFunctionRegistration"})
assert "vector_to_array" in list_ml_functions(spark), "extensions of the user are loaded"
spark.stop()
"""


def test_sessions_of_streams_have_no_functions_of_spark_ml_but_the_extensions_of_the_user():
    run_python(STREAM_SESSIONS)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_local_workers_map_the_index_by_its_path(master):
    context = SimpleNamespace(master=master)
    index = SimpleNamespace(folder="/somewhere/index", version=3)
    reference = ship_index(SimpleNamespace(sparkContext=context), index)
    assert (reference.folder, reference.version, reference.shipped) == ("/somewhere/index", 3, False)
