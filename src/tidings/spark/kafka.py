"""Posts from a Kafka topic, matches to one, through Spark's own connector.

Spark keeps the offsets in its checkpoint, not in Kafka, so that a batch replayed after a crash reads the same messages.
The connector is no part of pyspark: `kafka_settings` must be given to the session before its JVM starts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidings.errors import InputError
from tidings.schemas import CORRUPT, MATCH_FIELDS, POST_FIELDS
from tidings.spark.post_reader import tags_of_json

SCHEME = "kafka://"
SCALA = "2.13"  # what every pyspark 4 is built with
KAFKA_SETTINGS = {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{pyspark.__version__}"}
JARS_VARIABLE = "TIDINGS_KAFKA_JARS"
_ABSENT = "unresolved dependency: org.apache.spark#"  # what Ivy says, in Spark's log
_NO_CONNECTOR = (
    f"Maven Central has not given Spark's Kafka connector of version {pyspark.__version__} (it cannot be reached, or "
    "does not have that version yet); fetch the four jars of an earlier one and name them in "
    f"{JARS_VARIABLE}, as docs/kafka.md says."
)
CLIENT_PREFIX = "spark.tidings.kafka."

MAX_VALUE_BYTES = 900_000  # brokers and producers refuse messages of more than 1 MB unless told otherwise
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_END = "tidings: the end of the message"
_FIELDS = T.StructType([T.StructField(name, T.StringType()) for name in POST_FIELDS])
_WAIT_MS = "20000"  # for a server that does not answer; Kafka would wait for a minute

_DATA_LOSS = (
    "{topic} no longer holds messages that were not read yet: they were deleted (by retention or with the topic) "
    "while Tidings was behind or away; to go on with the oldest message there is now, remove the stream's checkpoint."
)
_FAILURES = (
    (("KAFKA_DATA_LOSS", "data may have been lost", "LOST_TOPIC_PARTITIONS", "OffsetOutOfRangeException"), _DATA_LOSS),
    (("UnknownTopicOrPartitionException",), "{topic} does not exist; create the topic, then run again."),
    (
        ("bootstrap.servers", "kafka.common.errors.TimeoutException", "Timed out waiting for a node"),
        "{topic}: none of the servers answers; check that the address is right and Kafka is up.",
    ),
    (
        ("Failed to find data source: kafka", "DATA_SOURCE_NOT_FOUND", "JAVA_GATEWAY_EXITED"),
        "{topic}: Spark's Kafka connector is missing; docs/kafka.md says how to give it to Spark.",
    ),
)


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """One topic and the servers to ask for it: `servers` is host:port, separated by commas."""

    servers: str
    topic: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.servers}/{self.topic}"

    def is_same(self, other: KafkaTopic) -> bool:
        """Whether both name one topic of servers of which at least one is the same."""
        return self.topic == other.topic and bool(set(self.servers.split(",")) & set(other.servers.split(",")))


def parse_kafka_url(url: str) -> KafkaTopic:
    """The topic that `kafka://host:port[,host:port]/topic` names; for all else an InputError says what is wrong."""
    if not url.startswith(SCHEME):
        raise InputError(f"{url}: write a Kafka topic as kafka://host:port/topic.")
    servers, slash, topic = url.removeprefix(SCHEME).partition("/")
    if not slash or not topic:
        raise InputError(f"{url}: the topic is missing; write kafka://host:port/topic.")
    for server in servers.split(","):
        found = _SERVER.fullmatch(server)
        if not found or not 0 < int(found[2]) < 65536:
            raise InputError(f"{url}: “{server}” is not host:port; write kafka://host:port[,host:port]/topic.")
    if not _TOPIC.fullmatch(topic):
        raise InputError(f"{url}: “{topic}” is not a topic; Kafka allows up to 249 letters, digits, dots, _ and -.")
    return KafkaTopic(servers, topic)


def kafka_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a session needs to speak Kafka: the connector from Maven Central, or the jars the user names."""
    jars = environ.get(JARS_VARIABLE, "").strip()
    return {"spark.jars": jars} if jars else dict(KAFKA_SETTINGS)


def check_jars(environ: Mapping[str, str] = os.environ) -> None:
    """InputError where a jar that the user names on this machine is not there: Spark would start without it."""
    named = (jar.strip() for jar in environ.get(JARS_VARIABLE, "").split(","))
    for jar in named:
        if jar and ":" not in jar and not os.path.isfile(jar):
            raise InputError(f"{jar}: there is no such file; correct {JARS_VARIABLE} (docs/kafka.md lists the jars).")


def connector_missing(log: str) -> InputError | None:
    """What to do about a session that did not start, if its log says that there was no connector for it."""
    return InputError(_NO_CONNECTOR) if _ABSENT in log else None


def read_kafka(spark: SparkSession, topic: KafkaTopic, max_posts_per_batch: int) -> DataFrame:
    """The messages of the topic as a stream of posts, from the oldest on; one that is no JSON object is kept aside.

    Ids are strings: 7 and "7" are one id. A post without id has the place it came from, `topic-partition-offset`.
    """
    options = {
        "subscribe": topic.topic,
        "startingOffsets": "earliest",  # of a new stream; afterwards the checkpoint knows
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(max_posts_per_batch),
        "kafka.isolation.level": "read_committed",  # what a producer took back was never said
        "kafka.request.timeout.ms": _WAIT_MS,
        "kafka.default.api.timeout.ms": _WAIT_MS,
    }
    messages = spark.readStream.format("kafka").options(**options | _servers(spark, topic)).load()
    return messages_to_posts(messages)


def messages_to_posts(messages: DataFrame) -> DataFrame:
    """Kafka's `value`, `topic`, `partition` and `offset` as the columns of a post and the corrupt record."""
    value = F.col("value").cast("string")
    place = F.concat_ws("-", "topic", "partition", "offset")
    parsed = messages.select(value.alias("value"), place.alias("place"), _parsed(value).alias("parsed"))
    post = F.when(_is_one_object(), F.col("parsed")[0])
    kept = F.when(~_is_one_object(), F.coalesce("value", F.lit(""))).alias(CORRUPT)
    posts = parsed.select("place", *(post[name].alias(name) for name in POST_FIELDS), kept)
    return tags_of_json(posts.withColumn("id", F.coalesce("id", "place"))).drop("place")


def _parsed(value: Column) -> Column:
    """The value as the first of two elements: Spark reads one JSON value and ignores what follows, we must not."""
    text = F.concat(F.lit("["), value, F.lit(f",{json.dumps({'id': _END})}]"))
    return F.from_json(text, T.ArrayType(_FIELDS), {"mode": "PERMISSIVE"})


def _is_one_object() -> Column:
    parsed = F.col("parsed")
    whole = (F.size(parsed) == 2) & (F.get(parsed, F.lit(1))["id"] == _END) & F.get(parsed, F.lit(0)).isNotNull()
    return F.coalesce(whole, F.lit(False))


def write_matches_kafka(matches: DataFrame, topic: KafkaTopic) -> None:
    """One message for every match of the batch; when it returns, the brokers have them all.

    At least once: a batch replayed after a crash is sent again with the same keys; consumers deduplicate by key.
    """
    options = {"topic": topic.topic, "kafka.acks": "all", "kafka.max.block.ms": _WAIT_MS}
    messages = matches.select(_key(matches).alias("key"), _value(matches).alias("value"))
    messages.write.format("kafka").options(**options | _servers(matches.sparkSession, topic)).save()


def _key(matches: DataFrame) -> Column:
    """`subscription_id:post_id`; the first colon is the one between them."""
    subscription = F.col("subscription_id").cast("string")
    if isinstance(matches.schema["subscription_id"].dataType, T.StringType):
        subscription = F.replace(F.replace(subscription, F.lit("%"), F.lit("%25")), F.lit(":"), F.lit("%3A"))
    return F.concat(subscription, F.lit(":"), F.col("post_id").cast("string"))


def _value(matches: DataFrame) -> Column:
    """The match and the fields of its post; only the match where both are more than Kafka takes."""
    post = [name for name in POST_FIELDS if name in matches.columns and name != "id"]
    value, bare = F.to_json(F.struct(*MATCH_FIELDS, *post)), F.to_json(F.struct(*MATCH_FIELDS))
    return F.when(F.octet_length(value) > MAX_VALUE_BYTES, bare).otherwise(value) if post else bare


def _servers(spark: SparkSession, topic: KafkaTopic) -> dict[str, str]:
    """Where the brokers are, and what the user's Spark settings `spark.tidings.kafka.…` say about speaking to them."""
    said = {key: value for key, value in spark.conf.getAll.items() if key.startswith(CLIENT_PREFIX)}
    options = {f"kafka.{key.removeprefix(CLIENT_PREFIX)}": value for key, value in said.items()}
    return options | {"kafka.bootstrap.servers": topic.servers}


def kafka_failure(error: BaseException, topic: KafkaTopic) -> InputError | None:
    """What a failed stream or write means to the user, if it was Kafka's doing."""
    said = str(error)
    for signs, sentence in _FAILURES:
        if any(sign in said for sign in signs):
            return InputError(sentence.format(topic=topic))
    return None
