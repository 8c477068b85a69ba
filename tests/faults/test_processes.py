"""Processes of a service are found by their command lines."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tidings.testing.processes import descendants, find_processes, find_role, read_arguments


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("python -m tidings.cli.main serve --state x", "serve"),
        ("python -m tidings.cli.main run --posts x", "driver"),
        ("python -m tidings.cli.main webhooks", "sender"),
        ("python3 -m tidings.spark.daemon pyspark.worker", "daemon"),
        ("/usr/lib/jvm/bin/java -cp x org.apache.spark.deploy.SparkSubmit", "jvm"),
        ("grep tidings.cli.main", None),
        ("bash", None),
    ],
)
def test_role_of_a_process_is_found_by_its_command_line(command: str, role: str | None) -> None:
    assert find_role(command.split()) == role


def test_child_of_the_jvm_that_still_shares_its_memory_has_no_role() -> None:
    jvm = "/usr/lib/jvm/bin/java -cp x".split()
    assert find_role(jvm, jvm) is None


def test_jvm_of_the_crawler_belongs_to_the_crawler() -> None:
    assert find_role(["java", "-cp", "x"], "python -m tidings.cli.main crawl --inbox x".split()) == "crawler"


def test_worker_is_a_child_of_the_daemon() -> None:
    daemon = "python3 -m tidings.spark.daemon pyspark.worker".split()
    assert find_role(daemon, daemon) == "worker"


def test_processes_are_found_below_their_root() -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)", "tidings.cli.main", "crawl"]
    with subprocess.Popen(command) as child:
        try:
            assert child.pid in descendants(os.getpid())
            assert find_processes(os.getpid(), "crawler") == [child.pid]
            assert find_processes(os.getpid(), "sender") == []
        finally:
            child.kill()
    assert read_arguments(child.pid) == []
