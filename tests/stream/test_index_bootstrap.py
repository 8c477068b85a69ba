"""The index a stream begins with."""

from __future__ import annotations

import pytest

from tidings.balance.refresh_policy import Rules
from tidings.store import open_store
from tidings.stream.index_bootstrap import followed
from tidings.stream.options import StreamRequest


@pytest.mark.parametrize(
    ("chosen", "told"),
    [
        ({}, None),
        ({"partitioner": "hash"}, "--partitioner will"),
        ({"matchers": 4, "relearn": Rules(3_600.0)}, "--matchers and --relearn will"),
        ({"partitioner": "hash", "plan": "partitioned"}, None),
    ],
)
def test_a_choice_about_matchers_is_not_passed_over_in_silence_where_there_are_none(tmp_path, chosen, told):
    with open_store(tmp_path) as store:
        request = StreamRequest("posts", str(tmp_path), tmp_path, **chosen)
        said: list[str] = []
        followed(request, store, said.append).follower.close()
    assert said == [] if told is None else told in said[0]
