"""SIGTERM while a command starts: a service that is stopped has not failed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.cli.runs import environment

from tidings.store import open_store

_TERMINATE_ON_IMPORT = """
import os, signal, sys

class Terminator:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            except SystemExit as stop:
                if stop.code == 0:
                    raise RuntimeError("a callback may swallow this exception")
                raise

sys.meta_path.insert(0, Terminator())
from tidings.cli.main import main
main()
"""
_TERMINATE_GROUP_ON_LAUNCH = """
import os, signal, sys
from pyspark import java_gateway

def launch(*arguments):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except SystemExit:
        pass  # as in a callback
    raise RuntimeError("Java gateway process exited")

java_gateway.launch_gateway = launch
from tidings.cli.main import main
main()
"""
_TERMINATE_GROUP_ON_FIRST_CALL = """
import os, signal
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

def ask_jvm(context):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except SystemExit:
        pass  # as in a callback
    raise Py4JNetworkError("the JVM is gone")

SparkContext.defaultParallelism = property(ask_jvm)
from tidings.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "--posts", "p"), 0),
        (("--log-level", "debug", "serve"), 0),
        (("crawl", "--once"), 0),
        (("webhooks",), 0),
        (("--log-level=debug", "webhooks", "--log-format", "json", "--state", "test"), 0),
        (("webhooks", "--debug", "list"), 143),
        (("webhooks", "test", "1"), 143),
        (("match",), 143),
        (("explain", "run"), 143),
        ((), 143),
    ],
)
def test_only_services_exit_with_0(arguments, code):
    done = subprocess.run(
        [sys.executable, "-c", _TERMINATE_ON_IMPORT, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("program", [_TERMINATE_GROUP_ON_LAUNCH, _TERMINATE_GROUP_ON_FIRST_CALL])
def test_crawler_exits_with_0_if_the_jvm_is_terminated_too(tmp_path, program):
    open_store(tmp_path).close()
    command = [sys.executable, "-c", program, "crawl", "--state", str(tmp_path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
