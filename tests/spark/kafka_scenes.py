"""What the Kafka tests do with the broker, scene by scene: it runs in a process whose Spark has the connector."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaMember
from py4j.protocol import STATIC_PREFIX
from pyspark.sql import DataFrame

from tidings.spark import kafka
from tidings.spark.post_columns import CORRUPT, judged
from tidings.spark.post_reader import SETTINGS
from tidings.spark.session import session

RUN_POSTS = 16


def play(name: str, servers: str, work: str) -> None:
    """Start a session with the connector and let scenes run in it; what they have to tell goes to a file."""
    stage = Stage(servers, Path(work))
    first = (run_posts, reads, goes_on, taken_back, matches, colons, gone, no_topic, no_server)
    scenes = {"last": (deliver, run_matches)}.get(name, first)
    result = {scene.__name__: scene(stage) for scene in scenes}
    (stage.work / f"{name}.json").write_text(json.dumps(result), "utf-8")
    if name == "all":
        deliver_and_die(stage)
    stage.spark.stop()


class Stage:
    """A session that speaks Kafka, and what every scene does with it."""

    def __init__(self, servers: str, work: Path) -> None:
        self.spark = session("local[2]", {**kafka.kafka_settings(), **SETTINGS, "spark.sql.shuffle.partitions": "2"})
        self.servers = servers
        self.work = work

    def topic(self, name: str) -> kafka.KafkaTopic:
        return kafka.KafkaTopic(self.servers, name)

    def produce(self, name: str, *messages: tuple[int, str]) -> None:
        """Messages as (partition, value), in this order."""
        rows = self.spark.createDataFrame(messages, "partition int, value string").coalesce(1)
        rows.write.format("kafka").option("kafka.bootstrap.servers", self.servers).option("topic", name).save()

    def stream(self, topic: kafka.KafkaTopic, each: Callable[[DataFrame, int], None], at_most: int = 100) -> None:
        """Read all there is now, batch by batch; the checkpoint is the topic's own."""
        posts = kafka.read_kafka(self.spark, topic, at_most)
        writer = posts.writeStream.option("checkpointLocation", str(self.work / "checkpoints" / topic.topic))
        writer.foreachBatch(each).trigger(availableNow=True).start().awaitTermination()

    def texts(self, name: str) -> list[str]:
        """The texts that a run of the stream finds."""
        found: list[str] = []
        self.stream(self.topic(name), lambda posts, _: found.extend(row.text for row in posts.collect()))
        return sorted(found)

    def failure(self, topic: kafka.KafkaTopic, act: Callable[[], object]) -> str:
        with pytest.raises(Exception) as failed:
            act()
        told = kafka.kafka_failure(failed.value, topic)
        assert told is not None, str(failed.value)
        return str(told)

    def messages(self, name: str) -> list[tuple[str, str]]:
        """Key and value of all that is in a topic, as any consumer sees it."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.servers)
        found = reader.option("subscribe", name).load().selectExpr("string(key)", "string(value)")
        return [(row.key, row.value) for row in found.collect()]

    def properties(self, **settings: str) -> Any:
        """For one of Kafka's own clients."""
        properties = self.spark._jvm.java.util.Properties()
        for key, value in {"bootstrap.servers": self.servers, **settings}.items():
            properties.put(key, value)
        return properties


def run_posts(stage: Stage) -> list[str]:
    """What `tidings run` takes, in a process of its own."""
    good = [json.dumps({"id": f"p{at}", "text": "a storm" if at % 2 else "calm"}) for at in range(RUN_POSTS - 2)]
    values = [*good, "no json", json.dumps({"text": "storm without an id"})]
    stage.produce("run_posts", *((0, value) for value in values))
    return values


def run_matches(stage: Stage) -> list[tuple[str, Any]]:
    return sorted((key, json.loads(value)) for key, value in stage.messages("run_matches"))


def reads(stage: Stage) -> dict[str, Any]:
    good = ['{"id":"a","text":"one"}', '{"id":2,"text":"two"}', '{"text":"three"}']
    more = ["no json", '{"id":"c","text":"five"}', '{"id":"d","text":"six","lat":5,"lon":6}']
    stage.produce("reads", *((0, one) for one in good), *((1, one) for one in more))
    told: dict[str, list[Any]] = {"sizes": [], "posts": [], "rejected": []}

    def each(posts: DataFrame, _: int) -> None:
        rows = judged(posts).collect()
        told["sizes"].append(len(rows))
        told["posts"] += [[row.id, row.text] for row in rows if row.reason is None]
        told["rejected"] += [[row.id, row.reason, row[CORRUPT]] for row in rows if row.reason is not None]

    stage.stream(stage.topic("reads"), each, at_most=2)
    return told


def goes_on(stage: Stage) -> list[list[str]]:
    found = []
    for text in ("first", "second"):
        stage.produce("goes_on", (0, json.dumps({"text": text})))
        found.append(stage.texts("goes_on"))
    return found


def taken_back(stage: Stage) -> list[str]:
    """A transaction that is undone and one that is not."""
    jvm = stage.spark._jvm
    name = "org.apache.kafka.common.serialization.StringSerializer"
    settings = {"transactional.id": "t", "key.serializer": name, "value.serializer": name}
    producer = jvm.org.apache.kafka.clients.producer.KafkaProducer(stage.properties(**settings))
    producer.initTransactions()
    for text in ("undone", "kept"):
        producer.beginTransaction()
        value = json.dumps({"text": text})
        producer.send(jvm.org.apache.kafka.clients.producer.ProducerRecord("taken_back", 0, "", value)).get()
        producer.abortTransaction() if text == "undone" else producer.commitTransaction()
    producer.close()
    return stage.texts("taken_back")


def matches(stage: Stage) -> list[tuple[str, Any]]:
    rows = [(1, "p:1", 4, "Grüße", ["x"], None), (2, "p2", 4, "ü" * 500_000, None, None)]
    columns = "subscription_id long, post_id string, index_version long, text string, tags array<string>, lang string"
    kafka.write_matches_kafka(stage.spark.createDataFrame(rows, columns), stage.topic("matches"))
    return sorted((key, json.loads(value)) for key, value in stage.messages("matches"))


def colons(stage: Stage) -> list[str]:
    rows = [("a:b", "c", 1), ("a", "b:c", 1), ("a%3Ab", "c", 1)]
    columns = "subscription_id string, post_id string, index_version long"
    kafka.write_matches_kafka(stage.spark.createDataFrame(rows, columns), stage.topic("colons"))
    keys = {json.loads(value)["subscription_id"]: key for key, value in stage.messages("colons")}
    return [keys[row[0]] for row in rows]


def gone(stage: Stage) -> str:
    """Retention takes messages away that came while nobody read."""
    stage.produce("gone", (0, '{"text":"read"}'), (1, '{"text":"read"}'))
    assert len(stage.texts("gone")) == 2
    stage.produce("gone", (0, '{"text":"not read"}'), (0, '{"text":"not read"}'), (1, '{"text":"not read"}'))
    jvm = stage.spark._jvm
    name = STATIC_PREFIX + "org.apache.kafka.clients.admin.RecordsToDelete"
    records = JavaMember("beforeOffset", None, name, jvm._gateway_client)(3)  # there is one that is not static, too
    partition = jvm.org.apache.kafka.common.TopicPartition("gone", 0)
    admin = jvm.org.apache.kafka.clients.admin.Admin.create(stage.properties())
    admin.deleteRecords(jvm.java.util.Collections.singletonMap(partition, records)).all().get()
    admin.close()
    return stage.failure(stage.topic("gone"), lambda: stage.texts("gone"))


def no_topic(stage: Stage) -> str:
    return stage.failure(stage.topic("nowhere"), lambda: stage.texts("nowhere"))


def no_server(stage: Stage) -> list[str]:
    nobody = kafka.KafkaTopic("127.0.0.1:1", "posts")
    for setting in ("default.api.timeout.ms", "request.timeout.ms", "max.block.ms"):
        stage.spark.conf.set(f"{kafka.CLIENT_PREFIX}{setting}", "500")
    match = stage.spark.createDataFrame([(1, "p", 1)], "subscription_id long, post_id string, index_version long")
    reading = stage.failure(nobody, lambda: stage.stream(nobody, lambda posts, _: None))
    writing = stage.failure(nobody, lambda: kafka.write_matches_kafka(match, nobody))
    for setting in ("default.api.timeout.ms", "request.timeout.ms", "max.block.ms"):
        stage.spark.conf.unset(f"{kafka.CLIENT_PREFIX}{setting}")
    return [reading, writing]


def deliver_and_die(stage: Stage) -> None:
    """The third batch is delivered, but Spark never hears of it."""
    stage.produce("all", *((at % 2, json.dumps({"id": at, "text": "x"})) for at in range(20)))
    deliver(stage, die_at=2)


def deliver(stage: Stage, die_at: int | None = None) -> list[str]:
    def each(posts: DataFrame, batch: int) -> None:
        found = posts.selectExpr("1L as subscription_id", "id as post_id", "1L as index_version", "text")
        kafka.write_matches_kafka(found, stage.topic("delivered"))
        if batch == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    stage.stream(stage.topic("all"), each, at_most=4)
    return [key for key, _ in stage.messages("delivered")]
