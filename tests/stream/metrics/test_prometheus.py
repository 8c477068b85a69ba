"""What is served for Prometheus, asked for over HTTP and read by Prometheus's own parser."""

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
from tidings.stream.metrics.correlations import CorrelationFigures
from tidings.stream.metrics.prometheus import serve
from tidings.stream.metrics.snapshot import StreamFigures

FIGURES = StreamFigures(
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
    waiting_files=4,
    durations_ms={"triggerExecution": 250, "addBatch": 200},
    index_version=7,
    plan_value=3.5,
    shed="subscription",
    shed_level=2,
    unread_posts=500,
    withheld=70,
    withheld_owners={"ann": 9, "": 1},
    matchers=(MatcherLoad(0, 600, 10, 1.5, 70), MatcherLoad(3, 400, 30, 2.5)),
    batch_matchers=(MatcherLoad(0, 6, 1, 0.1), MatcherLoad(3, 4, 3, 0.3)),
    disk_bytes={"index": 12_345, "store": 99},
)


@contextmanager
def serving(figures, port=0, tags=lambda: None):
    server = serve(port, figures, tags)
    try:
        yield server
    finally:
        server.close()


def samples(port):
    """Name and labels → value, of all that is served."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    assert all(family.documentation for family in families)
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_all_figures_are_served_under_their_names():
    with serving(lambda: FIGURES) as server:
        told = samples(server.port)
    expected = {
        ("tidings_up",): 1,
        ("tidings_posts_total",): 1_000,
        ("tidings_matches_total",): 40,
        ("tidings_rejected_total",): 2,
        ("tidings_batches_total",): 3,
        ("tidings_batch_seconds",): 0.25,
        ("tidings_batch_part_seconds", "part=addBatch"): 0.2,
        ("tidings_waiting_files",): 4,
        ("tidings_plan_value",): 3.5,
        ("tidings_shed_level",): 2,
        ("tidings_unread_posts",): 500,
        ("tidings_withheld_total",): 70,
        ("tidings_matcher_withheld_posts_total", "matcher=0"): 70,
        ("tidings_owner_withheld_total", "owner=ann"): 9,
        ("tidings_owner_withheld_total", "owner="): 1,
        ("tidings_index_version",): 7,
        ("tidings_started_timestamp_seconds",): 100,
        ("tidings_matcher_posts_total", "matcher=3"): 400,
        ("tidings_matcher_matches_total", "matcher=0"): 10,
        ("tidings_matcher_seconds_total", "matcher=3"): 2.5,
        ("tidings_disk_bytes", "what=index"): 12_345,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["tidings_matcher_imbalance_ratio",] == pytest.approx(1.5)
    assert told["tidings_bookkeeping_ratio",] == pytest.approx(0.2)
    assert ("tidings_stream_info", "host=here", "plan=replicated", "source=posts/", 'stream=a "stream"\n') in told


def test_what_the_source_cannot_tell_is_left_out():
    with serving(lambda: FIGURES) as server:
        assert ("tidings_waiting_posts",) not in samples(server.port)


def test_each_request_gets_the_newest_figures():
    newest = [None]
    with serving(lambda: newest[0]) as server:
        assert samples(server.port) == {("tidings_up",): 0}
        newest[0] = FIGURES
        assert samples(server.port)["tidings_posts_total",] == 1_000
        newest[0] = replace(FIGURES, posts=2_000, state="stopped")
        told = samples(server.port)
        assert (told["tidings_posts_total",], told["tidings_up",]) == (2_000, 0)


def test_two_streams_of_one_process_do_not_meet():
    before = list(prometheus_client.REGISTRY._names_to_collectors)
    with serving(lambda: FIGURES) as one, serving(lambda: replace(FIGURES, posts=5)) as two:
        assert one.port != two.port
        assert samples(one.port)["tidings_posts_total",] == 1_000
        assert samples(two.port)["tidings_posts_total",] == 5
    assert list(prometheus_client.REGISTRY._names_to_collectors) == before


def test_a_port_in_use_is_told_in_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"^Port {port} is in use already; choose another for the metrics, or 0"):
            serve(port, lambda: None)


def test_a_port_that_is_none_is_told_in_one_sentence():
    with pytest.raises(InputError, match=r"choose one from 1 to 65535"):
        serve(70_000, lambda: None)


def test_a_closed_server_gives_its_port_back():
    with serving(lambda: FIGURES) as server:
        samples(server.port)
    with pytest.raises(URLError):
        urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=5)
    with serving(lambda: FIGURES, server.port) as again:
        assert again.port == server.port


def test_the_figures_of_correlating_are_served_where_there_are_any():
    tags = CorrelationFigures(
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
    with serving(lambda: FIGURES, tags=lambda: tags) as server:
        told = samples(server.port)
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
        ("tidings_correlations_info", "algorithm=ds+scl", "most_partitions=8"): 1,
    }
    assert expected.items() <= told.items()
    assert ("tidings_correlations_newest_post_timestamp_seconds",) not in told
    with serving(lambda: FIGURES) as server:
        assert not any(name.startswith("tidings_correlations") for name, *_ in samples(server.port))
