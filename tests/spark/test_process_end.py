"""How the Java process of Spark ended, in one sentence."""

from __future__ import annotations

import signal
import subprocess

import pytest
from py4j.protocol import Py4JNetworkError

from tidings.errors import TidingsError
from tidings.spark import gateway
from tidings.spark.process_end import count_oom_kills, describe_jvm_end, named_jvm_end
from tidings.stream import crawl_app
from tidings.stream.crawl_app import CrawlJob, run_crawl


@pytest.fixture
def java(monkeypatch):
    """A process that stands for the one that this process has started."""
    with subprocess.Popen(["sleep", "600"]) as process:
        monkeypatch.setattr(gateway, "_processes", [process])
        yield process
        process.kill()


def test_killed_process_is_named_with_signal_batch_and_a_remedy(java):
    java.send_signal(signal.SIGKILL)
    sentence = describe_jvm_end(Py4JNetworkError("closed"), "during batch 12")
    assert f"The Java process of Spark ({java.pid}) was killed by SIGKILL during batch 12." in sentence
    assert "memory" in sentence
    assert "spark.driver.memory" in sentence


def test_other_signals_have_no_hint_about_memory(java):
    java.send_signal(signal.SIGTERM)
    assert describe_jvm_end(ConnectionResetError()) == f"The Java process of Spark ({java.pid}) was killed by SIGTERM."


def test_error_of_a_running_process_stays_as_it_is(java):
    with pytest.raises(ValueError, match="real"), named_jvm_end():
        raise ValueError("real")


def test_error_caused_by_the_end_of_the_process_is_replaced(java):
    java.kill()
    with pytest.raises(TidingsError, match="killed by SIGKILL at noon") as raised, named_jvm_end("at noon"):
        raise Py4JNetworkError("o498.getResult")
    assert raised.value.exit_code == 1


def test_crawler_names_a_process_that_was_killed_while_it_started(java, monkeypatch, tmp_path):
    def fail(master, settings):
        java.kill()
        java.wait()
        raise RuntimeError("JAVA_GATEWAY_EXITED")

    monkeypatch.setattr(crawl_app, "session", fail)
    with pytest.raises(TidingsError, match="killed by SIGKILL while it started"):
        run_crawl(CrawlJob(str(tmp_path), tmp_path / "inbox"))


def test_kills_for_lack_of_memory_are_counted(tmp_path):
    own = tmp_path / "cgroup"
    own.write_text("0::/service\n")
    assert count_oom_kills(tmp_path, own) == 0
    (tmp_path / "memory.events").write_text("oom 1\noom_kill 2\n")
    assert count_oom_kills(tmp_path, own) == 2
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "memory.events").write_text("low 0\noom_kill 3\n")
    assert count_oom_kills(tmp_path, own) == 3
    assert count_oom_kills(tmp_path, tmp_path / "missing") == 0
