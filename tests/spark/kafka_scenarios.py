"""Scenarios of the Kafka tests, run in a process whose Spark has the connector."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaMember
from py4j.protocol import STATIC_PREFIX
from pyspark.sql import DataFrame
from tests.stream.process import StreamProcess, run_to_end, run_to_kill, subscribe

from tidings.cli.main import run
from tidings.schemas import CORRUPT_RECORD
from tidings.spark import kafka
from tidings.spark.post_columns import with_reject_reason
from tidings.spark.post_reader import READER_SETTINGS
from tidings.spark.session import session
from tidings.store import open_store
from tidings.stream.metrics.snapshot import load_snapshot

RUN_POSTS = 16


def run_scenarios(servers: str, work: str) -> None:
    """Run all scenarios in one JVM and write their results to `results.json`."""
    broker = KafkaSession(servers, Path(work))
    scenarios = (
        read_topic,
        resume_reading,
        read_transactions,
        write_matches,
        write_colons,
        lose_messages,
        read_missing_topic,
        use_missing_server,
        repeat_failed_batch,
    )
    results = {scenario.__name__: scenario(broker) for scenario in scenarios}
    results["run_stream"] = run_stream(broker)
    (broker.work / "results.json").write_text(json.dumps(results), "utf-8")


def kill_stream(servers: str, work: str) -> None:
    """Kill `tidings run` (SIGKILL) when batch 1 is sent and not committed; run it again; write the keys of all matches.

    Every batch has one post.
    """
    broker = KafkaSession(servers, Path(work))
    broker.produce("kill_posts", *((0, json.dumps({"id": number, "text": "a storm"})) for number in range(4)))
    state = broker.work / "state"
    subscribe(state, "storm")
    posts, options = f"kafka://{servers}/kill_posts", ("--sink", f"kafka://{servers}/kill_matches")
    run_to_kill(posts, state, "before-commit@1", *options)
    run_to_end(posts, state, *options)
    keys = [key for key, _ in broker.messages("kill_matches")]
    (broker.work / "results.json").write_text(json.dumps(keys), "utf-8")


class KafkaSession:
    """A session with the connector, and helpers of the scenarios."""

    def __init__(self, servers: str, work: Path) -> None:
        self.spark = session("local[2]", {**kafka.kafka_settings(), **READER_SETTINGS})
        self.servers = servers
        self.work = work

    def topic(self, name: str) -> kafka.KafkaTopic:
        return kafka.KafkaTopic(self.servers, name)

    def produce(self, name: str, *messages: tuple[int, str]) -> None:
        """Send messages, (partition, value), in this order."""
        rows = self.spark.createDataFrame(messages, "partition int, value string").coalesce(1)
        rows.write.format("kafka").option("kafka.bootstrap.servers", self.servers).option("topic", name).save()

    def stream(self, topic: kafka.KafkaTopic, each: Callable[[DataFrame, int], None], at_most: int = 100) -> None:
        """Read all messages of a topic, batch by batch, with one checkpoint per topic."""
        posts = kafka.read_kafka(self.spark, topic, at_most)
        writer = posts.writeStream.option("checkpointLocation", str(self.work / "checkpoints" / topic.topic))
        writer.foreachBatch(each).trigger(availableNow=True).start().awaitTermination()

    def texts(self, name: str) -> list[str]:
        """Return the texts that a run of the stream reads."""
        texts: list[str] = []
        self.stream(self.topic(name), lambda posts, _: texts.extend(row.text for row in posts.collect()))
        return sorted(texts)

    def failure(self, topic: kafka.KafkaTopic, act: Callable[[], object]) -> str:
        with pytest.raises(Exception) as failed:
            act()
        error = kafka.translate_kafka_error(failed.value, topic)
        assert error is not None, str(failed.value)
        return str(error)

    def messages(self, name: str) -> list[tuple[str, str]]:
        """Return key and value of all messages of a topic."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        messages = reader.option("subscribe", name).load().selectExpr("string(key)", "string(value)")
        return [(row.key, row.value) for row in messages.collect()]

    def properties(self, **settings: str) -> Any:
        """Return the properties of a Kafka client."""
        properties = self.spark._jvm.java.util.Properties()
        for key, value in {"bootstrap.servers": self.servers, **settings}.items():
            properties.put(key, value)
        return properties


def read_topic(broker: KafkaSession) -> dict[str, Any]:
    good = ['{"id":"a","text":"one"}', '{"id":2,"text":"two"}', '{"text":"three"}']
    more = ["no json", '{"id":"c","text":"five"}', '{"id":"d","text":"six","lat":5,"lon":6}']
    broker.produce("read_topic", *((0, value) for value in good), *((1, value) for value in more))
    results: dict[str, list[Any]] = {"sizes": [], "posts": [], "rejected": []}

    def each(posts: DataFrame, _: int) -> None:
        rows = with_reject_reason(posts).collect()
        results["sizes"].append(len(rows))
        results["posts"] += [[row.id, row.text] for row in rows if row.reason is None]
        results["rejected"] += [[row.id, row.reason, row[CORRUPT_RECORD]] for row in rows if row.reason is not None]

    broker.stream(broker.topic("read_topic"), each, at_most=2)
    return results


def resume_reading(broker: KafkaSession) -> list[list[str]]:
    runs = []
    for text in ("first", "second"):
        broker.produce("resume_reading", (0, json.dumps({"text": text})))
        runs.append(broker.texts("resume_reading"))
    return runs


def read_transactions(broker: KafkaSession) -> list[str]:
    """Send an aborted and a committed transaction."""
    jvm = broker.spark._jvm
    name = "org.apache.kafka.common.serialization.StringSerializer"
    settings = {"transactional.id": "t", "key.serializer": name, "value.serializer": name}
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(broker.properties(**settings))
    producer.initTransactions()
    for text in ("aborted", "committed"):
        producer.beginTransaction()
        value = json.dumps({"text": text})
        producer.send(jvm.org.apache.kafka.clients.producer.ProducerRecord("read_transactions", 0, "", value)).get()
        producer.abortTransaction() if text == "aborted" else producer.commitTransaction()
    producer.close()
    return broker.texts("read_transactions")


def write_matches(broker: KafkaSession) -> list[tuple[str, Any]]:
    rows = [(1, "p:1", 4, "Grüße", ["x"], None), (2, "p2", 4, "ü" * 500_000, None, None)]
    columns = "subscription_id long, post_id string, index_version long, text string, tags array<string>, lang string"
    kafka.write_matches_kafka(broker.spark.createDataFrame(rows, columns), broker.topic("write_matches"))
    return sorted((key, json.loads(value)) for key, value in broker.messages("write_matches"))


def write_colons(broker: KafkaSession) -> list[str]:
    rows = [("a:b", "c", 1), ("a", "b:c", 1), ("a%3Ab", "c", 1)]
    columns = "subscription_id string, post_id string, index_version long"
    kafka.write_matches_kafka(broker.spark.createDataFrame(rows, columns), broker.topic("colons"))
    keys = {json.loads(value)["subscription_id"]: key for key, value in broker.messages("colons")}
    return [keys[row[0]] for row in rows]


def lose_messages(broker: KafkaSession) -> str:
    """Delete messages that no batch has read, as retention does."""
    broker.produce("lose_messages", (0, '{"text":"read"}'), (1, '{"text":"read"}'))
    assert len(broker.texts("lose_messages")) == 2
    broker.produce("lose_messages", (0, '{"text":"not read"}'), (0, '{"text":"not read"}'), (1, '{"text":"not read"}'))
    jvm = broker.spark._jvm
    name = STATIC_PREFIX + "org.apache.kafka.clients.admin.RecordsToDelete"
    # The class has a static and a non-static method of this name.
    records = JavaMember("beforeOffset", None, name, jvm._gateway_client)(3)
    partition = jvm.org.apache.kafka.common.TopicPartition("lose_messages", 0)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(broker.properties())
    admin.deleteRecords(jvm.java.util.Collections.singletonMap(partition, records)).all().get()
    admin.close()
    return broker.failure(broker.topic("lose_messages"), lambda: broker.texts("lose_messages"))


def read_missing_topic(broker: KafkaSession) -> str:
    return broker.failure(broker.topic("nowhere"), lambda: broker.texts("nowhere"))


def use_missing_server(broker: KafkaSession) -> list[str]:
    missing = kafka.KafkaTopic("127.0.0.1:1", "posts")
    for setting in ("default.api.timeout.ms", "request.timeout.ms", "max.block.ms"):
        broker.spark.conf.set(f"{kafka.CLIENT_PREFIX}{setting}", "500")
    match = broker.spark.createDataFrame([(1, "p", 1)], "subscription_id long, post_id string, index_version long")
    read_error = broker.failure(missing, lambda: broker.stream(missing, lambda posts, _: None))
    write_error = broker.failure(missing, lambda: kafka.write_matches_kafka(match, missing))
    for setting in ("default.api.timeout.ms", "request.timeout.ms", "max.block.ms"):
        broker.spark.conf.unset(f"{kafka.CLIENT_PREFIX}{setting}")
    return [read_error, write_error]


def repeat_failed_batch(broker: KafkaSession) -> list[str]:
    """Fail after the third batch was sent and before Spark commits it; then run the stream again."""
    broker.produce("failing", *((number % 2, json.dumps({"id": number, "text": "x"})) for number in range(20)))

    def send(posts: DataFrame, batch: int) -> None:
        rows = posts.selectExpr("1L as subscription_id", "id as post_id", "1L as index_version", "text")
        kafka.write_matches_kafka(rows, broker.topic("sent"))
        if batch == fails_at:
            raise RuntimeError("on purpose")

    fails_at = 2
    with pytest.raises(Exception, match="on purpose"):
        broker.stream(broker.topic("failing"), send, at_most=4)
    fails_at = -1
    broker.stream(broker.topic("failing"), send, at_most=4)
    return [key for key, _ in broker.messages("sent")]


def posts_read(state: Path) -> int:
    snapshot = load_snapshot(state)
    assert snapshot is not None
    return snapshot.posts


def run_stream(broker: KafkaSession) -> dict[str, Any]:
    """Run `tidings run` from topic to topic: stop it in the middle, and run it again to the end.

    The first run is a process. The second runs here, in the JVM that is already started.
    """
    good = [
        json.dumps({"id": f"p{number}", "text": "a storm" if number % 2 else "calm"}) for number in range(RUN_POSTS - 2)
    ]
    values = [*good, "no json", json.dumps({"text": "storm without an id"})]
    broker.produce("run_posts", *((0, value) for value in values))
    state = broker.work / "state"
    subscribe(state, "storm")
    posts, sink = f"kafka://{broker.servers}/run_posts", f"kafka://{broker.servers}/run_matches"
    options = ("--sink", sink, "--max-posts-per-batch", "4")
    with StreamProcess(posts, state, *options, "--trigger", "5 s", one_file_per_batch=False) as first:
        first.wait_for_posts(4)
        seconds = first.stop()
        read = [posts_read(state)]
    broker.spark.stop()
    code = run(["run", "--posts", posts, "--state", str(state), *options, "--once"])
    assert code == 0
    read.append(posts_read(state))
    with open_store(state) as store:
        rejected = [(row.reason, row.excerpt) for row in store.batches.rejected_rows()]
        stored = store.sizes().matches
    sent = sorted(
        (key, json.loads(value)) for key, value in KafkaSession(broker.servers, broker.work).messages("run_matches")
    )
    return {"read": read, "seconds": seconds, "rejected": rejected, "stored": stored, "sent": sent}
