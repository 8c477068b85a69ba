"""Any session will do: one of Tidings, the user's own, one with real executors. And none of them chatters."""

from __future__ import annotations

import sys
import textwrap

import pytest
from tests.spark.fixtures import run_python

PROGRAM = """
import tidings
{session}
said = [(1, "cats and dogs"), (2, "a white house"), (3, None), (4, "the cat")]
posts = spark.createDataFrame(said, "id int, text string").repartition(3)
queries = [("a", "cat OR dog OR lynx OR bird"), ("b", '"white house"'), ("c", "(bad"), ("d", "the cat")]
subscriptions = spark.createDataFrame(queries, "id string, query string")
wanted = [("a", 1), ("a", 4), ("b", 2), ("d", 1), ("d", 4)]
for options in ({{"plan": "replicated"}}, {{"plan": "partitioned", "matchers": 3}}):
    matches = tidings.match(posts, subscriptions, **options)
    found = sorted((row.subscription_id, row.post_id) for row in matches.collect())
    assert found == wanted, found
assert tidings.rejected(posts).count() == 1
{after}
spark.stop()
"""


def program(session: str, after: str = "") -> str:
    return textwrap.dedent(PROGRAM).format(session=session, after=after)


def test_a_session_of_tidings_says_nothing_on_the_screen():
    told = run_python(program('spark = tidings.session("local[2]")'))
    assert told.stdout == ""
    assert told.stderr == ""


def test_a_session_of_the_users_own_is_used_and_works():
    session = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert tidings.session() is spark
"""
    run_python(program(session), PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)


def test_the_index_reaches_real_executors():
    """Executors in processes of their own get it through Spark's files, not from the driver's disk."""
    session = """
from tidings.spark import api
shipped, ship = [], api.ship
api.ship = lambda *arguments: shipped.append(ship(*arguments)) or shipped[-1]
spark = tidings.session("local-cluster[2,1,1024]", {"spark.executor.memory": "1g", "spark.sql.shuffle.partitions": "4"})
"""
    after = """
assert [reference.shipped for reference in shipped] == [True, True]
assert spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() == 3, "a driver and two executors"
"""
    run_python(program(session, after))


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_workers_on_this_machine_map_the_index_where_it_is(master):
    from types import SimpleNamespace

    from tidings.spark.index_shipping import ship

    context = SimpleNamespace(master=master)
    index = SimpleNamespace(folder="/somewhere/index", version=3)
    reference = ship(SimpleNamespace(sparkContext=context), index)
    assert (reference.folder, reference.version, reference.shipped) == ("/somewhere/index", 3, False)
