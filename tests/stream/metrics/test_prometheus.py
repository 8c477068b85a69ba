"""The metrics as Prometheus reads them over HTTP, with its own parser."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from dataclasses import replace
from urllib.error import URLError
from urllib.request import urlopen

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidings.errors import InputError
from tidings.matching.load import MatcherLoad
from tidings.stream.metrics.correlations import CorrelationMetrics
from tidings.stream.metrics.prometheus import serve_metrics
from tidings.stream.metrics.snapshot import StreamSnapshot

SNAPSHOT = StreamSnapshot(
    pid=1,
    host="here",
    stream='a "stream"\n',
    source="posts/",
    started_at=100.0,
    updated_at=160.0,
    batches=3,
    posts=1_000,
    matches=40,
    rejected=2,
    batch_seconds=0.25,
    pending_files=4,
    durations_ms={"triggerExecution": 250, "addBatch": 200},
    index_version=7,
    plan_value=3.5,
    shed="subscription",
    shed_level=2,
    backlog_posts=500,
    shed_posts=70,
    shed_by_owner={"ann": 9, "": 1},
    matchers=(MatcherLoad(0, 600, 10, 1.5, 70), MatcherLoad(3, 400, 30, 2.5)),
    batch_matchers=(MatcherLoad(0, 6, 1, 0.1), MatcherLoad(3, 4, 3, 0.3)),
    disk_bytes={"index": 12_345, "store": 99},
)


@contextmanager
def metrics_server(snapshot, port=0, correlations=lambda: None):
    server = serve_metrics(port, snapshot, correlations)
    try:
        yield server
    finally:
        server.close()


def samples(port):
    """Return all samples: name and labels → value."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    assert all(family.documentation for family in families)
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_all_metrics_are_served_by_name():
    with metrics_server(lambda: SNAPSHOT) as server:
        served = samples(server.port)
    expected = {
        ("tidings_up",): 1,
        ("tidings_posts_total",): 1_000,
        ("tidings_matches_total",): 40,
        ("tidings_rejected_total",): 2,
        ("tidings_batches_total",): 3,
        ("tidings_batch_seconds",): 0.25,
        ("tidings_batch_part_seconds", "part=addBatch"): 0.2,
        ("tidings_pending_files",): 4,
        ("tidings_plan_value",): 3.5,
        ("tidings_shed_level",): 2,
        ("tidings_backlog_posts",): 500,
        ("tidings_shed_posts_total",): 70,
        ("tidings_matcher_shed_posts_total", "matcher=0"): 70,
        ("tidings_owner_shed_matches_total", "owner=ann"): 9,
        ("tidings_owner_shed_matches_total", "owner="): 1,
        ("tidings_index_version",): 7,
        ("tidings_started_timestamp_seconds",): 100,
        ("tidings_matcher_posts_total", "matcher=3"): 400,
        ("tidings_matcher_matches_total", "matcher=0"): 10,
        ("tidings_matcher_seconds_total", "matcher=3"): 2.5,
        ("tidings_disk_bytes", "part=index"): 12_345,
    }
    assert {name: served[name] for name in expected} == expected
    assert served["tidings_matcher_imbalance_ratio",] == pytest.approx(1.5)
    assert served["tidings_bookkeeping_ratio",] == pytest.approx(0.2)
    assert (
        "tidings_stream_info",
        "execution_mode=replicated",
        "host=here",
        "source=posts/",
        'stream=a "stream"\n',
    ) in served


def test_unknown_values_are_left_out():
    with metrics_server(lambda: SNAPSHOT) as server:
        assert ("tidings_pending_posts",) not in samples(server.port)


def test_each_request_gets_the_latest_snapshot():
    latest = [None]
    with metrics_server(lambda: latest[0]) as server:
        assert samples(server.port) == {("tidings_up",): 0}
        latest[0] = SNAPSHOT
        assert samples(server.port)["tidings_posts_total",] == 1_000
        latest[0] = replace(SNAPSHOT, posts=2_000, state="stopped")
        served = samples(server.port)
        assert (served["tidings_posts_total",], served["tidings_up",]) == (2_000, 0)


def test_two_servers_in_one_process_are_independent():
    before = list(prometheus_client.REGISTRY._names_to_collectors)
    with metrics_server(lambda: SNAPSHOT) as one, metrics_server(lambda: replace(SNAPSHOT, posts=5)) as two:
        assert one.port != two.port
        assert samples(one.port)["tidings_posts_total",] == 1_000
        assert samples(two.port)["tidings_posts_total",] == 5
    assert list(prometheus_client.REGISTRY._names_to_collectors) == before


def test_a_port_in_use_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"^--metrics-port {port}: already in use. Choose another port, or 0"):
            serve_metrics(port, lambda: None)


def test_a_port_out_of_range_is_reported():
    with pytest.raises(InputError, match=r"^--metrics-port 70000: out of range\. Choose 1 to 65535"):
        serve_metrics(70_000, lambda: None)


def test_a_closed_server_releases_its_port():
    with metrics_server(lambda: SNAPSHOT) as server:
        samples(server.port)
    with pytest.raises(URLError):
        urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=5)
    with metrics_server(lambda: SNAPSHOT, server.port) as reopened:
        assert reopened.port == server.port


def test_metrics_of_correlations_are_served_if_there_are_any():
    correlations = CorrelationMetrics(
        3_600_000_000,
        60_000_000,
        "ds+scl",
        8,
        tagged=70,
        late=3,
        capped=1,
        partitions=4,
        communication=1.5,
        gini=0.1,
        max_load=0.25,
        additions=6,
        repartitions={"load": 2, "scaling": 1},
        window_end_us=5_000_000,
        coefficients=90,
    )
    with metrics_server(lambda: SNAPSHOT, correlations=lambda: correlations) as server:
        served = samples(server.port)
    expected = {
        ("tidings_correlations_up",): 1,
        ("tidings_correlations_tagged_posts_total",): 70,
        ("tidings_correlations_coefficients_total",): 90,
        ("tidings_correlations_single_additions_total",): 6,
        ("tidings_correlations_dropped_posts_total", "reason=late"): 3,
        ("tidings_correlations_dropped_posts_total", "reason=ahead"): 0,
        ("tidings_correlations_capped_posts_total",): 1,
        ("tidings_correlations_repartitions_total", "reason=load"): 2,
        ("tidings_correlations_repartitions_total", "reason=scaling"): 1,
        ("tidings_correlations_partitions",): 4,
        ("tidings_correlations_communication",): 1.5,
        ("tidings_correlations_gini",): 0.1,
        ("tidings_correlations_max_load_ratio",): 0.25,
        ("tidings_correlations_window_end_timestamp_seconds",): 5,
        ("tidings_correlations_info", "algorithm=ds+scl", "max_partitions=8"): 1,
    }
    assert expected.items() <= served.items()
    assert ("tidings_correlations_newest_post_timestamp_seconds",) not in served
    with metrics_server(lambda: SNAPSHOT) as server:
        assert not any(name.startswith("tidings_correlations") for name, *_ in samples(server.port))
