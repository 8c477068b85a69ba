"""The index that a stream starts with."""

from __future__ import annotations

import pytest

from tidings.balance.refresh_policy import RefreshPolicy
from tidings.index import manifest
from tidings.store import open_store
from tidings.stream.index_bootstrap import open_or_build_index
from tidings.stream.options import StreamOptions


@pytest.mark.parametrize(
    ("chosen", "ignored"),
    [
        ({}, None),
        ({"partitioner": "hash"}, "--partitioner"),
        ({"matchers": 4, "refresh_policy": RefreshPolicy(3_600.0)}, '"--matchers --refresh-plan-every"'),
        ({"partitioner": "hash", "execution_mode": "partitioned"}, None),
    ],
)
def test_partitioning_options_without_effect_are_logged(tmp_path, events, chosen, ignored):
    with open_store(tmp_path) as store:
        updater, spec = open_or_build_index(StreamOptions("posts", str(tmp_path), tmp_path, **chosen), store)
        updater.close()
    assert (spec is None) == ("execution_mode" not in chosen)
    expected = [] if ignored is None else [f'options have no effect options={ignored} reason="the index is replicated"']
    assert events == expected


def test_an_index_of_an_older_format_is_built_again(tmp_path, monkeypatch):
    options = StreamOptions("posts", str(tmp_path), tmp_path, execution_mode="replicated")
    with open_store(tmp_path) as store:
        store.subscriptions.add("storm")
        with monkeypatch.context() as patch:
            patch.setattr(manifest, "FORMAT_VERSION", manifest.FORMAT_VERSION - 1)
            open_or_build_index(options, store)
        updater, _ = open_or_build_index(options, store)
        assert updater.index.manifest.subscriptions == 1
        assert manifest.list_versions(tmp_path / "index") == [updater.index.version]
