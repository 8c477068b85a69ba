"""A batch is committed once, as a whole, with the versions it was pinned to."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.store.batches import matches, posts, read_ids, run_batch

from tidings.errors import InputError, StoreError, UnknownSubscription
from tidings.store import BatchChunk, CommitResult, Retention, open_store

NO_REJECTED = pa.table({"reason": pa.array([], pa.string())})


def test_a_match_is_read_with_all_fields_of_its_post(store, clock):
    subscription = store.subscriptions.add("storm")
    table = posts(
        [7],
        text=["Sturm über 東京 🌧 \"so\", 'so'\n\\N"],
        time=pa.array([1_767_225_600_010_000], pa.timestamp("us", "UTC")),
        author=["ann"],
        lang=[None],
        lat=[51.5],
        lon=[-0.1],
        tags=[["storm", "wind"]],
        title=[""],
        link=["https://x.example/?a=%s"],
    )
    assert run_batch(store, 0, table, [(subscription, 0)], index_version=5) == CommitResult(1, 1, 0, 0)
    (match,) = store.matches.since(subscription)
    assert (match.post_id, match.text, match.title) == (7, "Sturm über 東京 🌧 \"so\", 'so'\n\\N", "")
    assert (match.time, match.author, match.lang) == ("2026-01-01T00:00:00.010000Z", "ann", None)
    assert (match.lat, match.lon, match.tags, match.link) == (51.5, -0.1, ["storm", "wind"], "https://x.example/?a=%s")
    assert (match.index_version, match.batch, match.arrived_at) == (5, 0, clock.now)


def test_post_ids_keep_type_and_value(store):
    subscription = store.subscriptions.add("a")
    run_batch(store, 0, [7, -3], [(subscription, 0), (subscription, 1)])
    run_batch(store, 1, ["7", "007", "", "７"], [(subscription, row) for row in range(4)])
    big = pa.table({"id": pa.array([10**30], pa.decimal128(38, 0))})
    run_batch(store, 2, big, [(subscription, 0)])
    stored = read_ids(store, subscription)
    assert sorted(map(repr, stored)) == sorted(map(repr, [7, -3, "7", "007", "", "７", 10**30]))


def test_post_ids_of_other_types_are_rejected(store):
    subscription = store.subscriptions.add("a")
    with pytest.raises(InputError, match="double cannot be stored"):
        run_batch(store, 0, pa.table({"id": [1.5]}), [(subscription, 0)])


def test_posts_without_matches_are_not_stored(store):
    subscription = store.subscriptions.add("a")
    assert run_batch(store, 0, [1, 2, 3], [(subscription, 1)]).posts == 1
    assert run_batch(store, 1, [4, 5], []) == CommitResult(0, 0, 0, 0)
    assert store.sizes().posts == 1


def test_a_replayed_batch_changes_nothing(store):
    subscription = store.subscriptions.add("a")
    run_batch(store, 0, [1, 2], [(subscription, 0), (subscription, 1)])
    before = store.matches.since(subscription)
    assert run_batch(store, 0, [1, 2, 3], [(subscription, 2)]) == CommitResult(0, 0, 1, 0)
    assert store.matches.since(subscription) == before
    assert store.batches.recent()[0].matches == 2


def test_posts_repeated_by_another_stream_add_nothing(store):
    first, second = store.subscriptions.add_many([("a",), ("b",)])
    pairs = [(first, 0), (first, 1), (second, 1)]
    run_batch(store, 0, [1, 2], pairs)
    assert run_batch(store, 0, [1, 2], pairs, stream="again") == CommitResult(0, 0, 3, 0)
    assert read_ids(store, first) == [1, 2]
    assert store.sizes().posts == 2


def test_a_late_match_of_a_stored_post_gets_a_new_cursor(store):
    first = store.subscriptions.add("a")
    run_batch(store, 0, [1, 2, 3], [(first, row) for row in range(3)])
    second = store.subscriptions.add("b")
    run_batch(store, 1, [4], [(second, 0)])
    read_to = store.matches.since(second)[-1].cursor
    assert run_batch(store, 2, [2, 5], [(first, 0), (second, 0), (second, 1)]) == CommitResult(1, 2, 1, 0)
    assert read_ids(store, second, cursor=read_to) == [2, 5]
    assert run_batch(store, 3, [2], [(first, 0), (second, 0)]) == CommitResult(0, 0, 2, 0)
    assert read_ids(store, first) == [1, 2, 3]


def test_of_posts_with_the_same_id_in_a_batch_the_first_is_stored(store):
    subscription, other = store.subscriptions.add_many([("a",), ("b",)])
    table = posts(["b", "a", "b"], text=["first", "x", "second"])
    assert run_batch(store, 0, table, [(subscription, 0), (subscription, 2), (other, 2), (other, 1)]) == CommitResult(
        2, 3, 1, 0
    )
    assert {m.post_id: m.text for m in store.matches.since(other)} == {"a": "x", "b": "first"}


def test_matches_of_removed_and_unknown_subscriptions_are_dropped(store):
    removed, live = store.subscriptions.add_many([("a",), ("b",)])
    store.batches.begin("s", 0, 1, 1)
    store.subscriptions.remove(removed)
    stored = store.batches.commit("s", 0, posts([1, 2]), matches([(removed, 0), (live, 1), (99, 0)]))
    assert stored == CommitResult(1, 1, 2, 0)
    assert read_ids(store, live) == [2]
    with pytest.raises(UnknownSubscription, match="was removed"):
        store.matches.since(removed)


def test_a_replayed_batch_gets_the_versions_recorded_first(location):
    with open_store(location) as store:
        assert store.batches.begin("s", 3, 10, 20) == (10, 20, False, False, "")
    with open_store(location) as store:
        assert store.batches.begin("s", 3, 11, 21) == (10, 20, False, True, "")
        store.batches.commit("s", 3, posts([]), matches([]))
        assert store.batches.begin("s", 3, 12, 22) == (10, 20, True, True, "")
        assert store.batches.begin("t", 3, 12, 22) == (12, 22, False, False, "")


def test_a_batch_that_has_not_begun_is_rejected(store):
    with pytest.raises(StoreError, match="has not begun"):
        store.batches.commit("s", 0, posts([]), matches([]))


def test_the_ledger_lists_the_results_of_each_batch(store, clock):
    subscription = store.subscriptions.add("a")
    bad = pa.table({"source": ["f.jsonl"], "source_row": [17], "reason": ["no text"], "excerpt": ["x" * 999]})
    run_batch(store, 0, [1], [(subscription, 0)], rejected=bad, metrics={"read_ms": 12.5})
    clock.now += 1
    store.batches.begin("s", 1, 2, 1)
    first, second = store.batches.recent("s")
    assert (first.state, first.posts, first.matches, first.rejected) == ("done", 1, 1, 1)
    assert first.metrics == {"read_ms": 12.5}
    assert (second.state, second.index_version, second.finished_at) == ("begun", 2, None)
    assert store.batches.recent(limit=1) == [second]
    assert store.batches.recent("other") == []
    (row,) = store.batches.rejected_rows()
    assert (row.source, row.source_row, row.reason, len(row.excerpt or "")) == ("f.jsonl", 17, "no text", 200)


def test_an_invalid_row_does_not_stop_a_batch(store):
    subscription = store.subscriptions.add("a")
    author = pa.array([b"caf\xe9", b"a\x00b", None], pa.binary()).view(pa.string())
    table = posts(["x" * 5_000, "ok", "ok2"], author=author)
    assert run_batch(store, 0, table, [(subscription, row) for row in range(3)]) == CommitResult(2, 2, 1, 1)
    assert {m.post_id: m.author for m in store.matches.since(subscription)} == {"ok": "a\ufffdb", "ok2": None}
    assert store.batches.rejected_rows()[0].reason == "the id is longer than 1,024 bytes"
    assert run_batch(store, 9, pa.table({"id": pa.array([None], pa.string())}), [(subscription, 0)]) == CommitResult(
        0, 0, 1, 1
    )
    assert store.batches.rejected_rows()[-1].reason == "the id is missing"
    table = posts(["bad"], author=pa.array([b"caf\xe9"], pa.binary()).view(pa.string()))
    run_batch(store, 1, table, [(subscription, 0)])
    assert store.matches.since(subscription)[-1].author == "caf\ufffd"


def test_paging_returns_every_match_once(store):
    subscription = store.subscriptions.add("a")
    for batch in range(7):
        run_batch(store, batch, list(range(batch * 10, batch * 10 + 10)), [(subscription, row) for row in range(10)])
    read, cursor = [], 0
    while page := store.matches.since(subscription, cursor, limit=9):
        read += [match.post_id for match in page]
        cursor = page[-1].cursor
    assert sorted(read) == list(range(70))
    assert len(read) == 70


def test_matches_are_found_across_eras(store):
    subscription = store.subscriptions.add("a")
    for batch, number in enumerate((0, 2**18 - 2, 2**18 * 100, 2**18 * 101)):
        store.database.execute("UPDATE counter SET value = ? WHERE name = 'number'", number)
        run_batch(store, batch, [10 + batch * 3 + row for row in range(3)], [(subscription, row) for row in range(3)])
    assert read_ids(store, subscription) == list(range(10, 22))
    assert read_ids(store, subscription, cursor=2**18 * 2) == list(range(16, 22))
    assert read_ids(store, subscription, limit=7) == list(range(10, 17))
    assert run_batch(store, 0, [11, 14, 20], [(subscription, row) for row in range(3)], stream="again").matches == 0
    store.apply_retention(Retention(max_matches_per_subscription=5))
    assert read_ids(store, subscription) == list(range(17, 22))


def test_a_batch_in_chunks_is_stored_like_one_table(store):
    first, second = store.subscriptions.add_many([("a",), ("b",)])
    store.batches.begin("s", 0, 1, 1)
    chunks = [
        BatchChunk(posts([1, 2], text=["one", "two"]), matches([(first, 0), (first, 1)]), NO_REJECTED),
        BatchChunk(posts([]), matches([]), NO_REJECTED),
        BatchChunk(
            posts([2, 3], text=["again", "three"]), matches([(first, 0), (second, 0), (second, 1)]), NO_REJECTED
        ),
    ]
    assert store.batches.commit_chunks("s", 0, iter(chunks)) == CommitResult(3, 4, 1, 0)
    assert read_ids(store, first) == [1, 2]
    assert {m.post_id: m.text for m in store.matches.since(second)} == {2: "two", 3: "three"}
    assert store.batches.recent()[0].matches == 4


def test_a_batch_is_rolled_back_if_reading_its_chunks_fails(store):
    subscription = store.subscriptions.add("a")
    store.batches.begin("s", 0, 1, 1)

    def chunks():
        yield BatchChunk(posts([1]), matches([(subscription, 0)]), NO_REJECTED)
        raise OSError("the rest cannot be read")

    with pytest.raises((OSError, StoreError), match="cannot be read"):
        store.batches.commit_chunks("s", 0, chunks())
    assert read_ids(store, subscription) == []
    assert [line.state for line in store.batches.recent()] == ["begun"]


def test_at_most_a_thousand_rejected_rows_are_stored_per_batch(store):
    store.batches.begin("s", 0, 1, 1)
    bad = pa.table({"reason": ["no text"] * 700})
    assert store.batches.commit_chunks("s", 0, [BatchChunk(posts([]), matches([]), bad)] * 3).rejected == 2_100
    assert store.batches.recent()[0].rejected == 2_100
    assert len(store.batches.rejected_rows(limit=10_000)) == 1_000


def test_text_of_posts_is_sanitized_before_it_is_stored(store):
    subscription = store.subscriptions.add("tea")
    hostile = {
        "text": ["tea\x1b[31m \u202etime <b>"],
        "title": ["a\u2028b"],
        "author": ["ann\x07"],
        "link": [" java\tscript:alert(1)"],
        "tags": [["x\x00y", "\u2066z"]],
        "time": ["today\x9b"],
    }
    table = posts(["one"], **hostile)
    run_batch(store, 0, table, [(subscription, 0)])
    (match,) = store.matches.since(subscription)
    assert (match.text, match.title, match.author) == ("tea [31m time <b>", "a\nb", "ann ")
    assert (match.link, match.tags, match.time) == (None, ["x y", "z"], "today ")
