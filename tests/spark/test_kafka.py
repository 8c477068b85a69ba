"""Kafka with a real broker: messages become posts, invalid ones are rejected, nothing is lost.

Tests with the broker run in another process, because Spark takes the connector only when its JVM starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.errors import AnalysisException
from tests.spark import kafka_broker
from tests.spark.fixtures import ROOT
from tests.spark.kafka_scenarios import RUN_POSTS

from tidings.errors import InputError
from tidings.schemas import CORRUPT_RECORD, SOURCE
from tidings.spark import kafka

TOPIC = kafka.KafkaTopic("localhost:9092", "posts")


@pytest.mark.parametrize(
    ("url", "servers", "topic"),
    [
        ("kafka://localhost:9092/posts", "localhost:9092", "posts"),
        ("kafka://a.example:1,10.0.0.2:65535,[::1]:9092/p.o-s_1", "a.example:1,10.0.0.2:65535,[::1]:9092", "p.o-s_1"),
    ],
)
def test_url_has_servers_and_a_topic(url, servers, topic):
    parsed = kafka.parse_kafka_url(url)
    assert parsed == kafka.KafkaTopic(servers, topic)
    assert str(parsed) == url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:9092/posts", "not a Kafka URL. Write kafka://host:port/topic"),
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
def test_invalid_url_is_an_error(url, message):
    with pytest.raises(InputError) as error:
        kafka.parse_kafka_url(url)
    assert str(error.value).startswith(f"{url}: ")
    assert message in str(error.value)


def test_connector_has_the_version_of_spark_unless_jars_are_set():
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert kafka.kafka_settings({}) == kafka.KAFKA_SETTINGS == {"spark.jars.packages": package}
    assert kafka.kafka_settings({"TIDINGS_KAFKA_JARS": "/jars/a.jar,/jars/b.jar"}) == {
        "spark.jars": "/jars/a.jar,/jars/b.jar"
    }
    assert list(kafka_broker.SPARK_JARS.glob(f"scala-library-{kafka.SCALA}.*.jar"))


def test_other_errors_are_not_translated():
    assert kafka.translate_kafka_error(ValueError("a divided by zero"), TOPIC) is None


def test_unresolved_connector_is_an_error_with_a_remedy():
    name = f"org.apache.spark#spark-sql-kafka-0-10_2.13;{pyspark.__version__}"
    log = f'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: {name}: not found]'
    message = str(kafka.missing_connector_error(log))
    assert f"of version {pyspark.__version__}" in message
    assert "list them in TIDINGS_KAFKA_JARS (see `tidings run --help`)" in message
    assert kafka.missing_connector_error("java.net.BindException: no such address") is None


def test_missing_jar_is_an_error(tmp_path):
    jar = tmp_path / "a.jar"
    jar.touch()
    kafka.check_jars({})
    kafka.check_jars({"TIDINGS_KAFKA_JARS": f"{jar}, hdfs://cluster/b.jar,local:/c.jar"})
    with pytest.raises(InputError, match=r"/d\.jar: no such file. Correct TIDINGS_KAFKA_JARS"):
        kafka.check_jars({"TIDINGS_KAFKA_JARS": f"{jar},{tmp_path}/d.jar"})


def test_session_without_connector_is_an_error(spark):
    with pytest.raises(AnalysisException) as failed:
        kafka.read_kafka(spark, TOPIC, 1)
    assert "Kafka connector is missing" in str(kafka.translate_kafka_error(failed.value, TOPIC))


def parse_values(spark, *values: str | bytes | None) -> list[dict]:
    """Return the posts of messages with these values."""
    rows = [
        (value.encode() if isinstance(value, str) else value, "t", 1, offset) for offset, value in enumerate(values)
    ]
    messages = spark.createDataFrame(rows, "value binary, topic string, partition int, offset long")
    return [row.asDict() for row in kafka.messages_to_posts(messages.coalesce(1)).collect()]


def test_message_becomes_a_post(spark):
    message = {
        "id": "007",
        "text": "Grüße 🙂",
        "lat": 1.5,
        "lon": "-3",
        "tags": ["a", "b c"],
        "lang": None,
        "more": [1],
    }
    (post,) = parse_values(spark, json.dumps(message))
    assert post.pop(SOURCE) == "t-1-0"
    assert {name: value for name, value in post.items() if value is not None} == {
        "id": "007",
        "text": "Grüße 🙂",
        "lat": "1.5",
        "lon": "-3",
        "tags": ["a", "b c"],
    }


def test_ids_are_kept_as_written_and_missing_ones_are_offsets(spark):
    ids = ["7", '"7"', '"007"', "12345678901234567890123", '""', "null", "true"]
    posts = parse_values(spark, *(f'{{"text":"x","id":{value}}}' for value in ids), '{"text":"x"}')
    expected = ["7", "7", "007", "12345678901234567890123", "", "t-1-5", "true", "t-1-7"]
    assert [post["id"] for post in posts] == expected


NOT_ONE_OBJECT: tuple[str | bytes, ...] = (
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


def test_other_than_one_json_object_is_a_corrupt_record(spark):
    for offset, (value, post) in enumerate(zip(NOT_ONE_OBJECT, parse_values(spark, *NOT_ONE_OBJECT), strict=True)):
        assert post.pop(CORRUPT_RECORD) == (value if isinstance(value, str) else value.decode("utf-8", "replace"))
        assert post.pop("id") == post.pop(SOURCE) == f"t-1-{offset}"
        assert set(post.values()) == {None}


def test_message_without_value_is_a_corrupt_record(spark):
    (post,) = parse_values(spark, None)
    assert (post["id"], post[CORRUPT_RECORD]) == ("t-1-0", "")


# ── with a broker ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        kafka_broker.fetch_jars(kafka_broker.BROKER)
        return ",".join(map(str, kafka_broker.connector()))
    except kafka_broker.Unreachable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def servers(jars):
    with kafka_broker.broker() as address:
        yield address


@pytest.fixture(scope="module")
def results(jars, servers, tmp_path_factory):
    """The results of all scenarios, by name."""
    return run_in_process("run_scenarios", jars, servers, tmp_path_factory.mktemp("kafka"))


def run_in_process(function: str, jars: str, servers: str, work: Path) -> Any:
    """Run a function of `kafka_scenarios` in a process whose Spark has the connector; return its results."""
    code = f"from tests.spark import kafka_scenarios; kafka_scenarios.{function}({servers!r}, {str(work)!r})"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "lab" / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, kafka.JARS_VARIABLE: jars}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return json.loads((work / "results.json").read_text("utf-8"))


def test_every_message_becomes_a_post_or_is_rejected(results):
    posts, rejected = results["read_topic"]["posts"], results["read_topic"]["rejected"]
    expected = [["a", "one"], ["2", "two"], ["read_topic-0-2", "three"], ["c", "five"], ["d", "six"]]
    assert sorted(posts) == sorted(expected)
    assert rejected == [["read_topic-1-0", "the line cannot be read", "no json"]]


def test_batches_have_at_most_the_allowed_number_of_posts(results):
    assert sum(results["read_topic"]["sizes"]) == 6
    assert max(results["read_topic"]["sizes"]) <= 2


def test_second_run_continues_after_the_first(results):
    assert results["resume_reading"] == [["first"], ["second"]]


def test_aborted_transactions_are_not_read(results):
    assert results["read_transactions"] == ["committed"]


def test_match_is_a_message_with_key_and_post(results):
    key, value = results["write_matches"][0]
    assert key == "1:p:1"
    assert value == {
        "subscription_id": 1,
        "post_id": "p:1",
        "index_version": 4,
        "text": "Grüße",
        "tags": ["x"],
    }


def test_match_is_sent_without_a_post_that_is_too_long(results):
    key, value = results["write_matches"][1]
    assert key == "2:p2"
    assert value == {"subscription_id": 2, "post_id": "p2", "index_version": 4}


def test_colons_in_subscription_ids_keep_keys_distinct(results):
    assert results["write_colons"] == ["a%3Ab:c", "a:b:c", "a%253Ab:c"]


def test_messages_deleted_before_they_are_read_stop_the_stream(results):
    assert "messages were deleted before they were read" in results["lose_messages"]


def test_missing_topic_is_an_error(results):
    assert results["read_missing_topic"].endswith("/nowhere: the topic does not exist. Create it and run again.")


def test_missing_server_is_an_error_for_reads_and_writes(results):
    read_error, write_error = results["use_missing_server"]
    assert read_error == write_error
    assert "127.0.0.1:1/posts: no server answers" in read_error


def test_failed_batch_is_sent_again_with_the_same_keys(results):
    keys = results["repeat_failed_batch"]
    assert sorted(set(keys)) == sorted(f"1:{number}" for number in range(20))
    assert len(keys) == 24, "the batch that was sent but not committed is sent again, and no other"


@pytest.mark.long
def test_killed_process_sends_its_last_batch_again_with_the_same_keys(jars, servers, tmp_path):
    keys = run_in_process("kill_stream", jars, servers, tmp_path)
    assert sorted(keys) == ["1:0", "1:1", "1:1", "1:2", "1:3"], "batch 1 was sent and not committed"


def test_stopped_run_continues_where_it_stopped(results):
    first, second = results["run_stream"]["read"]
    assert results["run_stream"]["seconds"] < 10
    assert 4 <= first < RUN_POSTS
    assert first + second == RUN_POSTS


def test_matches_of_both_runs_are_in_the_topic_once(results):
    expected = [f"1:p{number}" for number in range(RUN_POSTS - 2) if number % 2] + [f"1:run_posts-0-{RUN_POSTS - 1}"]
    sent = results["run_stream"]["sent"]
    assert [key for key, _ in sent] == sorted(expected)
    assert sent[0][1] == {"subscription_id": 1, "post_id": "p1", "index_version": 1, "text": "a storm"}


def test_run_rejects_invalid_messages_and_stores_no_matches(results):
    assert results["run_stream"]["rejected"] == [["the line cannot be read", "no json"]]
    assert results["run_stream"]["stored"] == 0, "matches go to the topic"
