"""A real Apache Kafka broker for tests, and Spark's connector; needs only Python, Java and pyspark.

The jars come from Maven Central through the Ivy of pyspark, and stay in the cache of the user. The broker is one
process in KRaft mode on free ports of the loopback address, with its data in a temporary directory.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidings" / "kafka"
SPARK_JARS = Path(pyspark.__file__).parent / "jars"
FETCH_SECONDS = 240
START_SECONDS = 180
NOT_FOUND = "UNRESOLVED DEPENDENCIES"
CONNECTION_ERRORS = ":::: ERRORS"  # Ivy lists connection errors here, not answers of the registry


class Unreachable(Exception):
    """Maven Central does not answer."""


class NotPublished(Exception):
    """Maven Central does not have the module."""


@dataclass(frozen=True)
class Jars:
    """A module with its dependencies, without those in pyspark; `overrides` replaces versions of modules."""

    organisation: str
    module: str
    revision: str
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def folder(self) -> Path:
        others = "".join(f"+{revision}" for _, revision in self.overrides)
        return CACHE / f"{self.module}-{self.revision}{others}"

    def ivy(self) -> str:
        override_tags = "".join(
            f'<override org="{self.organisation}" module="{module}" rev="{revision}"/>'
            for module, revision in self.overrides
        )
        exclude_tags = "".join(
            f'<exclude org="{org}"/>' for org in ("org.apache.hadoop", "org.scala-lang", "org.slf4j")
        )
        module = f'org="{self.organisation}" name="{self.module}" rev="{self.revision}"'
        return (
            '<ivy-module version="2.0"><info organisation="tidings" module="tests"/>'
            '<configurations><conf name="default"/></configurations><dependencies>'
            f'<dependency {module} conf="default->default"/>'
            f"{exclude_tags}{override_tags}</dependencies></ivy-module>"
        )


BROKER = Jars("org.apache.kafka", "kafka_2.13", "4.3.1")
CONNECTOR = "spark-sql-kafka-0-10_2.13"
# A release is on PyPI before it is on Maven Central; until then the previous connector works. Its token provider (for
# Kerberos, not used here) is not published either; an older one is.
CONNECTORS = (
    Jars("org.apache.spark", CONNECTOR, pyspark.__version__),
    Jars("org.apache.spark", CONNECTOR, "4.2.0", (("spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),)),
)


def fetch_jars(jars: Jars) -> list[Path]:
    """Return the files from the cache or from Maven Central. Raises Unreachable or NotPublished."""
    if not jars.folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            _fetch(jars, Path(work))
            with contextlib.suppress(OSError):  # another process has done it
                os.rename(Path(work) / "jars", jars.folder)
    return sorted(jars.folder.glob("*.jar"))


def _fetch(jars: Jars, work: Path) -> None:
    """Let Ivy copy the jars to `work/jars`."""
    (work / "ivy.xml").write_text(jars.ivy(), "utf-8")
    ivy = ["java", "-cp", f"{SPARK_JARS}/*", "org.apache.ivy.Main", "-ivy", str(work / "ivy.xml")]
    options = ["-cache", str(CACHE / "ivy"), "-retrieve", f"{work}/jars/[artifact]-[revision].[ext]"]
    command = [*ivy, *options, "-types", "jar", "bundle"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as late:
        raise Unreachable(f"Maven Central did not deliver {jars.module} within {FETCH_SECONDS} s") from late
    if result.returncode and CONNECTION_ERRORS in result.stdout:
        raise Unreachable(
            f"Maven Central cannot be reached: {result.stdout.partition(CONNECTION_ERRORS)[2].split('url=')[0]}"
        )
    if result.returncode and NOT_FOUND in result.stdout:
        raise NotPublished(f"Maven Central has no {jars.module} {jars.revision}")
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


def connector() -> list[Path]:
    """Return the jars of Spark's connector: of the installed version, or of the newest that works with it."""
    failures: list[Exception] = []
    for jars in CONNECTORS:
        try:
            return fetch_jars(jars)
        except (Unreachable, NotPublished) as failure:
            failures.append(failure)
    raise next((failure for failure in failures if isinstance(failure, Unreachable)), failures[-1])


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """Start a broker and yield its address, `127.0.0.1:port`; stop it and delete its data at the end."""
    classpath = os.pathsep.join(map(str, [*_logging_jars(), *fetch_jars(BROKER)]))
    home = Path(tempfile.mkdtemp(prefix="tidings-kafka-"))
    port, controller = _free_ports(2)
    settings = home / "server.properties"
    settings.write_text(_properties(home, port, controller), "utf-8")
    try:
        _format(classpath, settings)
        with _broker_process(classpath, settings, home / "broker.log", port):
            yield f"127.0.0.1:{port}"
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _logging_jars() -> list[Path]:
    """Return the logging jars of Spark, so that a failing broker logs the reason."""
    names = ("slf4j-api-", "log4j-slf4j2-impl-", "log4j-api-2", "log4j-core-", "scala-library-", "scala-reflect-")
    return sorted(jar for jar in SPARK_JARS.glob("*.jar") if jar.name.startswith(names))


def _free_ports(number: int) -> list[int]:
    """Return different free ports."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


def _properties(home: Path, port: int, controller: int) -> str:
    """Return the settings of broker and controller in one process; new topics have two partitions."""
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(home / "data"),
        "num.partitions": "2",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _format(classpath: str, settings: Path) -> None:
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    tool = ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "kafka.tools.StorageTool"]
    command = [*tool, "format", f"--cluster-id={cluster}", "--config", str(settings)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@contextlib.contextmanager
def _broker_process(classpath: str, settings: Path, log: Path, port: int) -> Iterator[None]:
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=WARN", "-cp", classpath]
    with log.open("wb") as log_file:
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log_file, stderr=subprocess.STDOUT)
    try:
        _wait(process, log, port)
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    """Wait until the broker listens: it opens its port when it is ready."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError(f"Kafka did not start:\n{log.read_text('utf-8', 'replace')[-5000:]}")
