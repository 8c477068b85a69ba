"""Read posts from a Kafka topic and write matches to one, with Spark's connector.

Spark keeps the offsets in its checkpoint, not in Kafka, so that a batch replayed after a crash reads the same messages.
The connector is not part of pyspark: pass `kafka_settings` to the session before its JVM starts.
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
from tidings.schemas import CORRUPT_RECORD, MATCH_FIELDS, POST_FIELDS, SOURCE
from tidings.spark.post_reader import parse_json_tags

KAFKA_SCHEME = "kafka://"
SCALA = "2.13"  # of all releases of pyspark 4
KAFKA_SETTINGS = {"spark.jars.packages": f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{pyspark.__version__}"}
JARS_VARIABLE = "TIDINGS_KAFKA_JARS"
_UNRESOLVED = "unresolved dependency: org.apache.spark#"  # of Ivy, in Spark's log
_NO_CONNECTOR = (
    f"Spark's Kafka connector of version {pyspark.__version__}: Maven Central is not reachable, or does not have that "
    f"version yet. Download the four jars of an earlier version and list them in {JARS_VARIABLE} (see `tidings run "
    "--help`)."
)
CLIENT_PREFIX = "spark.tidings.kafka."

MAX_VALUE_BYTES = 900_000  # brokers and producers reject messages above 1 MB by default
_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_TOPIC = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")
_END = "tidings: the end of the message"
_FIELDS = T.StructType([T.StructField(name, T.StringType()) for name in POST_FIELDS])
_WAIT_MS = "20000"  # for a server that does not answer; Kafka's default is a minute

_DATA_LOSS = (
    "{topic}: messages were deleted before they were read, by retention or with the topic. "
    "To continue with the oldest remaining message, remove the checkpoint of the stream."
)
_FAILURES = (
    (("KAFKA_DATA_LOSS", "data may have been lost", "LOST_TOPIC_PARTITIONS", "OffsetOutOfRangeException"), _DATA_LOSS),
    (("UnknownTopicOrPartitionException",), "{topic}: the topic does not exist. Create it and run again."),
    (
        ("bootstrap.servers", "kafka.common.errors.TimeoutException", "Timed out waiting for a node"),
        "{topic}: no server answers. Check the address and that Kafka is running.",
    ),
    (
        ("Failed to find data source: kafka", "DATA_SOURCE_NOT_FOUND", "JAVA_GATEWAY_EXITED"),
        "{topic}: Spark's Kafka connector is missing. See `tidings run --help` for how to add it.",
    ),
)


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic and its bootstrap servers, `host:port[,host:port]`."""

    servers: str
    topic: str

    def __str__(self) -> str:
        return f"{KAFKA_SCHEME}{self.servers}/{self.topic}"

    def is_same_topic(self, other: KafkaTopic) -> bool:
        """Whether both have the same topic and at least one server in common."""
        return self.topic == other.topic and bool(set(self.servers.split(",")) & set(other.servers.split(",")))


def parse_kafka_url(url: str) -> KafkaTopic:
    """Parse `kafka://host:port[,host:port]/topic`, or raise InputError."""
    if not url.startswith(KAFKA_SCHEME):
        raise InputError(f"{url}: not a Kafka URL. Write kafka://host:port/topic.")
    servers, slash, topic = url.removeprefix(KAFKA_SCHEME).partition("/")
    if not slash or not topic:
        raise InputError(f"{url}: the topic is missing. Write kafka://host:port/topic.")
    for server in servers.split(","):
        address = _SERVER.fullmatch(server)
        if not address or not 0 < int(address[2]) < 65536:
            raise InputError(f"{url}: “{server}” is not host:port. Write kafka://host:port[,host:port]/topic.")
    if not _TOPIC.fullmatch(topic):
        raise InputError(f"{url}: “{topic}” is not a topic. Kafka allows up to 249 letters, digits, dots, _ and -.")
    return KafkaTopic(servers, topic)


def kafka_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the session settings for Kafka: the connector from Maven Central, or the jars of the user."""
    jars = environ.get(JARS_VARIABLE, "").strip()
    return {"spark.jars": jars} if jars else dict(KAFKA_SETTINGS)


def check_jars(environ: Mapping[str, str] = os.environ) -> None:
    """Raise InputError if a local jar of the user does not exist: Spark would start without it."""
    jars = (jar.strip() for jar in environ.get(JARS_VARIABLE, "").split(","))
    for jar in jars:
        if jar and ":" not in jar and not os.path.isfile(jar):
            raise InputError(f"{jar}: no such file. Correct {JARS_VARIABLE} (`tidings run --help` lists the jars).")


def missing_connector_error(log: str) -> InputError | None:
    """Return an error if the log of a session that did not start shows that the connector is missing."""
    return InputError(_NO_CONNECTOR) if _UNRESOLVED in log else None


def read_kafka(spark: SparkSession, topic: KafkaTopic, max_posts_per_batch: int) -> DataFrame:
    """Read the messages of a topic as a stream of posts, oldest first. Other than JSON objects are corrupt records.

    Ids are strings: 7 and "7" are the same id. A post without an id gets `topic-partition-offset`.
    """
    options = {
        "subscribe": topic.topic,
        "startingOffsets": "earliest",  # for a new stream; later the checkpoint has the offsets
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(max_posts_per_batch),
        "kafka.isolation.level": "read_committed",  # ignore aborted transactions
        "kafka.request.timeout.ms": _WAIT_MS,
        "kafka.default.api.timeout.ms": _WAIT_MS,
    }
    messages = spark.readStream.format("kafka").options(**options | _client_options(spark, topic)).load()
    return messages_to_posts(messages)


def messages_to_posts(messages: DataFrame) -> DataFrame:
    """Convert `value`, `topic`, `partition` and `offset` of Kafka to a post, the corrupt record and the source."""
    value = F.col("value").cast("string")
    source = F.concat_ws("-", "topic", "partition", "offset")
    parsed = messages.select(value.alias("value"), source.alias(SOURCE), _parse_value(value).alias("parsed"))
    post = F.when(_is_one_object(), F.col("parsed")[0])
    corrupt = F.when(~_is_one_object(), F.coalesce("value", F.lit(""))).alias(CORRUPT_RECORD)
    posts = parsed.select(*(post[name].alias(name) for name in POST_FIELDS), corrupt, SOURCE)
    return parse_json_tags(posts.withColumn("id", F.coalesce("id", SOURCE)))


def _parse_value(value: Column) -> Column:
    """Parse the value as the first of two elements: Spark reads one JSON value and ignores what follows it."""
    text = F.concat(F.lit("["), value, F.lit(f",{json.dumps({'id': _END})}]"))
    return F.from_json(text, T.ArrayType(_FIELDS), {"mode": "PERMISSIVE"})


def _is_one_object() -> Column:
    parsed = F.col("parsed")
    is_complete = (F.size(parsed) == 2) & (F.get(parsed, F.lit(1))["id"] == _END) & F.get(parsed, F.lit(0)).isNotNull()
    return F.coalesce(is_complete, F.lit(False))


def write_matches_kafka(matches: DataFrame, topic: KafkaTopic) -> None:
    """Send one message per match and wait until the brokers have all of them.

    At least once: a batch replayed after a crash is sent again with the same keys; consumers deduplicate by key.
    """
    options = {"topic": topic.topic, "kafka.acks": "all", "kafka.max.block.ms": _WAIT_MS}
    messages = matches.select(_key(matches).alias("key"), _value(matches).alias("value"))
    messages.write.format("kafka").options(**options | _client_options(matches.sparkSession, topic)).save()


def _key(matches: DataFrame) -> Column:
    """Return `subscription_id:post_id`; colons in the subscription id are escaped."""
    subscription = F.col("subscription_id").cast("string")
    if isinstance(matches.schema["subscription_id"].dataType, T.StringType):
        subscription = F.replace(F.replace(subscription, F.lit("%"), F.lit("%25")), F.lit(":"), F.lit("%3A"))
    return F.concat(subscription, F.lit(":"), F.col("post_id").cast("string"))


def _value(matches: DataFrame) -> Column:
    """Return the match with the fields of its post, or without them if the message would be too large."""
    fields = [name for name in POST_FIELDS if name in matches.columns and name != "id"]
    value, bare = F.to_json(F.struct(*MATCH_FIELDS, *fields)), F.to_json(F.struct(*MATCH_FIELDS))
    return F.when(F.octet_length(value) > MAX_VALUE_BYTES, bare).otherwise(value) if fields else bare


def _client_options(spark: SparkSession, topic: KafkaTopic) -> dict[str, str]:
    """Return the bootstrap servers and the client options that the user set as `spark.tidings.kafka.…`."""
    settings = {key: value for key, value in spark.conf.getAll.items() if key.startswith(CLIENT_PREFIX)}
    options = {f"kafka.{key.removeprefix(CLIENT_PREFIX)}": value for key, value in settings.items()}
    return options | {"kafka.bootstrap.servers": topic.servers}


def translate_kafka_error(error: BaseException, topic: KafkaTopic) -> InputError | None:
    """Return the error of a failed stream or write in plain words, or None if it is not about Kafka."""
    text = str(error)
    for signs, message in _FAILURES:
        if any(sign in text for sign in signs):
            return InputError(message.format(topic=topic))
    return None
