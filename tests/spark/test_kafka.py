"""Kafka, against a real broker: what is in a topic is read, what is no post is kept aside, nothing is lost.

Everything that needs the broker runs in processes of its own, as Spark takes the connector only when its JVM starts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException
from tests.spark import kafka_broker
from tests.spark.fixtures import ROOT
from tests.spark.kafka_scenes import RUN_POSTS
from tests.stream.process import Run, subscribe

from tidings.errors import InputError
from tidings.spark import kafka
from tidings.spark.post_columns import CORRUPT
from tidings.store import open_store

TOPIC = kafka.KafkaTopic("localhost:9092", "posts")


@pytest.mark.parametrize(
    ("url", "servers", "topic"),
    [
        ("kafka://localhost:9092/posts", "localhost:9092", "posts"),
        ("kafka://a.example:1,10.0.0.2:65535,[::1]:9092/p.o-s_1", "a.example:1,10.0.0.2:65535,[::1]:9092", "p.o-s_1"),
    ],
)
def test_a_url_names_servers_and_a_topic(url, servers, topic):
    found = kafka.parse_kafka_url(url)
    assert found == kafka.KafkaTopic(servers, topic)
    assert str(found) == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("localhost:9092/posts", "write a Kafka topic as kafka://host:port/topic"),
        ("kafka://localhost:9092", "the topic is missing"),
        ("kafka://localhost:9092/", "the topic is missing"),
        ("kafka:///posts", "“” is not host:port"),
        ("kafka://localhost/posts", "“localhost” is not host:port"),
        ("kafka://a:1,/posts", "“” is not host:port"),
        ("kafka://a:65536/posts", "“a:65536” is not host:port"),
        ("kafka://user@a:1/posts", "“user@a:1” is not host:port"),
        ("kafka://a:1/posts/2", "“posts/2” is not a topic"),
        ("kafka://a:1/..", "“..” is not a topic"),
        ("kafka://a:1/posts?x=1", "“posts?x=1” is not a topic"),
        (f"kafka://a:1/{'x' * 250}", "is not a topic"),
    ],
)
def test_what_is_no_topic_is_refused_in_one_sentence(url, said):
    with pytest.raises(InputError) as refused:
        kafka.parse_kafka_url(url)
    assert str(refused.value).startswith(f"{url}: ")
    assert said in str(refused.value)


def test_the_connector_is_that_of_the_installed_spark_unless_the_user_has_jars():
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert kafka.kafka_settings({}) == kafka.KAFKA_SETTINGS == {"spark.jars.packages": package}
    assert kafka.kafka_settings({"TIDINGS_KAFKA_JARS": "/jars/a.jar,/jars/b.jar"}) == {
        "spark.jars": "/jars/a.jar,/jars/b.jar"
    }
    assert list(kafka_broker.SPARK_JARS.glob(f"scala-library-{kafka.SCALA}.*.jar"))


def test_a_failure_that_is_not_kafkas_is_left_as_it_is():
    assert kafka.kafka_failure(ValueError("a divided by zero"), TOPIC) is None


def test_a_connector_that_maven_does_not_give_is_told_with_what_to_do():
    name = f"org.apache.spark#spark-sql-kafka-0-10_2.13;{pyspark.__version__}"
    log = f'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: {name}: not found]'
    told = str(kafka.connector_missing(log))
    assert f"of version {pyspark.__version__}" in told
    assert "name them in TIDINGS_KAFKA_JARS, as docs/kafka.md says" in told
    assert kafka.connector_missing("java.net.BindException: no such address") is None


def test_a_jar_that_is_not_there_is_named(tmp_path):
    there = tmp_path / "a.jar"
    there.touch()
    kafka.check_jars({})
    kafka.check_jars({"TIDINGS_KAFKA_JARS": f"{there}, hdfs://cluster/b.jar,local:/c.jar"})
    with pytest.raises(InputError, match=r"/d\.jar: there is no such file; correct TIDINGS_KAFKA_JARS"):
        kafka.check_jars({"TIDINGS_KAFKA_JARS": f"{there},{tmp_path}/d.jar"})


def test_a_session_without_connector_is_told(spark):
    with pytest.raises(AnalysisException) as failed:
        kafka.read_kafka(spark, TOPIC, 1)
    assert "Kafka connector is missing" in str(kafka.kafka_failure(failed.value, TOPIC))


def of_values(spark, *values: str | bytes | None) -> list[dict]:
    """What becomes of messages with these values."""
    rows = [(one.encode() if isinstance(one, str) else one, "t", 1, at) for at, one in enumerate(values)]
    messages = spark.createDataFrame(rows, "value binary, topic string, partition int, offset long")
    return [row.asDict() for row in kafka.messages_to_posts(messages.coalesce(1)).collect()]


def test_a_message_is_a_post_with_its_fields(spark):
    message = {
        "id": "007",
        "text": "Grüße 🙂",
        "lat": 1.5,
        "lon": "-3",
        "tags": ["a", "b c"],
        "lang": None,
        "more": [1],
    }
    (post,) = of_values(spark, json.dumps(message))
    assert {name: value for name, value in post.items() if value is not None} == {
        "id": "007",
        "text": "Grüße 🙂",
        "lat": "1.5",
        "lon": "-3",
        "tags": ["a", "b c"],
    }


def test_ids_are_kept_as_written_and_the_place_stands_in_for_a_missing_one(spark):
    ids = ["7", '"7"', '"007"', "12345678901234567890123", '""', "null", "true"]
    posts = of_values(spark, *(f'{{"text":"x","id":{one}}}' for one in ids), '{"text":"x"}')
    wanted = ["7", "7", "007", "12345678901234567890123", "", "t-1-5", "true", "t-1-7"]
    assert [post["id"] for post in posts] == wanted


NO_OBJECT = (
    "not json",
    "",
    " ",
    "7",
    "null",
    '"text"',
    "[]",
    '[{"text":"x"}]',
    '{"text":"x"',
    '{"text":"x"} and more',
    '{"text":"x"}\n{"text":"y"}',
    '{"text":"x"},{"text":"y"}',
    '{"text":"x"}]',
    '{"text":"x"},{"id":"end"}]',
    "\x00",
    b"\xff\xfe",
)


def test_what_is_not_one_json_object_is_kept_aside_whole(spark):
    for at, (value, post) in enumerate(zip(NO_OBJECT, of_values(spark, *NO_OBJECT), strict=True)):
        assert post.pop(CORRUPT) == (value if isinstance(value, str) else value.decode("utf-8", "replace"))
        assert post.pop("id") == f"t-1-{at}"
        assert set(post.values()) == {None}


def test_a_message_without_value_is_rejected_too(spark):
    (post,) = of_values(spark, None)
    assert (post["id"], post[CORRUPT]) == ("t-1-0", "")


# ── with a broker ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        kafka_broker.fetched(kafka_broker.BROKER)
        return ",".join(map(str, kafka_broker.connector()))
    except kafka_broker.Unreachable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def servers(jars):
    with kafka_broker.broker() as address:
        yield address


def run(name: str, jars: str, servers: str, work: Path) -> subprocess.CompletedProcess[str]:
    """One of the scenes, in a process of its own."""
    code = f"from tests.spark import kafka_scenes; kafka_scenes.play({name!r}, {servers!r}, {str(work)!r})"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    quick = "-XX:TieredStopAtLevel=1"  # these JVMs do not live long enough to be compiled well
    environment = {**os.environ, "PYTHONPATH": path, kafka.JARS_VARIABLE: jars, "JAVA_TOOL_OPTIONS": quick}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800, check=False)


@pytest.fixture(scope="module")
def told(jars, servers, tmp_path_factory):
    """What the scenes have to tell, by their name; one session plays them, and dies in the last one."""
    work = tmp_path_factory.mktemp("kafka")
    done = run("all", jars, servers, work)
    assert done.returncode == -signal.SIGKILL, done.stdout[-3000:] + done.stderr[-6000:]
    return {"work": work, **json.loads((work / "all.json").read_text("utf-8"))}


def test_every_message_becomes_a_post_or_is_rejected_with_its_place(told):
    posts, bad = told["reads"]["posts"], told["reads"]["rejected"]
    assert sorted(posts) == sorted([["a", "one"], ["2", "two"], ["reads-0-2", "three"], ["c", "five"], ["d", "six"]])
    assert bad == [["reads-1-0", "the line cannot be read", "no json"]]


def test_a_batch_has_no_more_posts_than_allowed(told):
    assert sum(told["reads"]["sizes"]) == 6
    assert max(told["reads"]["sizes"]) <= 2


def test_a_second_run_goes_on_where_the_first_stopped(told):
    assert told["goes_on"] == [["first"], ["second"]]


def test_what_a_producer_took_back_is_no_post(told):
    assert told["taken_back"] == ["kept"]


def test_a_match_is_a_message_with_key_and_post(told):
    key, value = told["matches"][0]
    assert key == "1:p:1"
    assert value == {
        "subscription_id": 1,
        "post_id": "p:1",
        "index_version": 4,
        "text": "Grüße",
        "tags": ["x"],
    }


def test_a_match_whose_post_is_too_long_for_kafka_comes_without_it(told):
    key, value = told["matches"][1]
    assert key == "2:p2"
    assert value == {"subscription_id": 2, "post_id": "p2", "index_version": 4}


def test_a_colon_in_a_subscription_id_makes_no_two_keys_one(told):
    assert told["colons"] == ["a%3Ab:c", "a:b:c", "a%253Ab:c"]


def test_messages_that_are_gone_before_they_are_read_stop_the_stream_with_the_reason(told):
    assert "no longer holds messages that were not read yet" in told["gone"]


def test_a_topic_that_does_not_exist_is_named(told):
    assert told["no_topic"].endswith("/nowhere does not exist; create the topic, then run again.")


def test_servers_that_do_not_answer_are_named(told):
    assert told["no_server"] == [told["no_server"][0]] * 2
    assert "127.0.0.1:1/posts: none of the servers answers" in told["no_server"][0]


@pytest.fixture(scope="module")
def ran(told, jars, servers, tmp_path_factory):
    """`tidings run`, from a topic to a topic: stopped in the middle, and run again to the end."""
    state = tmp_path_factory.mktemp("run") / "state"
    subscribe(state, "storm")
    options = ("--deliver", f"kafka://{servers}/run_matches", "--max-posts-per-batch", "4")
    posts = f"kafka://{servers}/run_posts"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kafka.JARS_VARIABLE, jars)
        with Run(posts, state, *options, "--trigger", "5 s", small=False) as first:
            taken = [first.until_posts(4).posts]
            seconds = first.stop()
            taken[0] = first.figures.posts
        with Run(posts, state, *options, "--once", small=False) as second:
            assert second.ended() == 0, second.err
            taken.append(second.figures.posts)
    return {"state": state, "taken": taken, "seconds": seconds}


@pytest.fixture(scope="module")
def resumed(told, ran, jars, servers):
    """What a second session has to tell, in the end."""
    done = run("last", jars, servers, told["work"])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return json.loads((told["work"] / "last.json").read_text("utf-8"))


def test_a_run_from_topic_to_topic_stops_well_and_a_second_goes_on_where_it_stopped(ran):
    first, second = ran["taken"]
    assert ran["seconds"] < 10
    assert 4 <= first < RUN_POSTS
    assert first + second == RUN_POSTS


def test_the_matches_of_both_runs_are_in_the_topic_once_each(resumed):
    wanted = [f"1:p{at}" for at in range(RUN_POSTS - 2) if at % 2] + [f"1:run_posts-0-{RUN_POSTS - 1}"]
    assert [key for key, _ in resumed["run_matches"]] == sorted(wanted)
    assert resumed["run_matches"][0][1] == {
        "subscription_id": 1,
        "post_id": "p1",
        "index_version": 1,
        "text": "a storm",
    }


def test_a_run_keeps_messages_that_are_no_posts_aside(ran):
    with open_store(ran["state"]) as store:
        assert [(one.reason, one.excerpt) for one in store.rejected()] == [("the line cannot be read", "no json")]
        assert store.sizes().matches == 0, "they were delivered elsewhere"


def test_killed_after_delivering_a_batch_nothing_is_lost_and_repeats_have_their_key(resumed):
    keys = resumed["deliver"]
    assert sorted(set(keys)) == sorted(f"1:{at}" for at in range(20))
    assert len(keys) == 24, "the batch that was delivered but not committed is delivered again, no other"
