"""A batch is stored once, whole, and under the versions it was begun with."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.store.batches import ids, matches, posts, run

from tidings.errors import InputError, StoreError, UnknownSubscription
from tidings.store import BatchChunk, Retention, CommitResult, open_store

NOTHING = pa.table({"reason": pa.array([], pa.string())})


def test_a_match_comes_back_with_its_post(store, clock):
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
    assert run(store, 0, table, [(subscription, 0)], index_version=5) == CommitResult(1, 1, 0, 0)
    (found,) = store.matches.since(subscription)
    assert (found.post_id, found.text, found.title) == (7, "Sturm über 東京 🌧 \"so\", 'so'\n\\N", "")
    assert (found.time, found.author, found.lang) == ("2026-01-01T00:00:00.010000Z", "ann", None)
    assert (found.lat, found.lon, found.tags, found.link) == (51.5, -0.1, ["storm", "wind"], "https://x.example/?a=%s")
    assert (found.index_version, found.batch, found.arrived_at) == (5, 0, clock.now)


def test_ids_keep_type_and_value(store):
    subscription = store.subscriptions.add("a")
    run(store, 0, [7, -3], [(subscription, 0), (subscription, 1)])
    run(store, 1, ["7", "007", "", "７"], [(subscription, row) for row in range(4)])
    big = pa.table({"id": pa.array([10**30], pa.decimal128(38, 0))})
    run(store, 2, big, [(subscription, 0)])
    found = ids(store, subscription)
    assert sorted(map(repr, found)) == sorted(map(repr, [7, -3, "7", "007", "", "７", 10**30]))


def test_ids_of_other_types_are_refused(store):
    subscription = store.subscriptions.add("a")
    with pytest.raises(InputError, match="double cannot be stored"):
        run(store, 0, pa.table({"id": [1.5]}), [(subscription, 0)])


def test_posts_nobody_matches_are_not_stored(store):
    subscription = store.subscriptions.add("a")
    assert run(store, 0, [1, 2, 3], [(subscription, 1)]).posts == 1
    assert run(store, 1, [4, 5], []) == CommitResult(0, 0, 0, 0)
    assert store.sizes().posts == 1


def test_a_replayed_batch_changes_nothing(store):
    subscription = store.subscriptions.add("a")
    run(store, 0, [1, 2], [(subscription, 0), (subscription, 1)])
    before = store.matches.since(subscription)
    assert run(store, 0, [1, 2, 3], [(subscription, 2)]) == CommitResult(0, 0, 1, 0)
    assert store.matches.since(subscription) == before
    assert store.batches.recent()[0].matches == 2


def test_the_same_posts_from_another_stream_add_nothing(store):
    first, second = store.subscriptions.add_many([("a",), ("b",)])
    pairs = [(first, 0), (first, 1), (second, 1)]
    run(store, 0, [1, 2], pairs)
    assert run(store, 0, [1, 2], pairs, stream="again") == CommitResult(0, 0, 3, 0)
    assert ids(store, first) == [1, 2]
    assert store.sizes().posts == 2


def test_a_match_of_an_old_post_gets_a_new_cursor(store):
    first = store.subscriptions.add("a")
    run(store, 0, [1, 2, 3], [(first, row) for row in range(3)])
    second = store.subscriptions.add("b")
    run(store, 1, [4], [(second, 0)])
    read_to = store.matches.since(second)[-1].cursor
    assert run(store, 2, [2, 5], [(first, 0), (second, 0), (second, 1)]) == CommitResult(1, 2, 1, 0)
    assert ids(store, second, since=read_to) == [2, 5]
    assert run(store, 3, [2], [(first, 0), (second, 0)]) == CommitResult(0, 0, 2, 0)
    assert ids(store, first) == [1, 2, 3]


def test_an_id_twice_in_a_batch_is_one_post_and_the_first_stays(store):
    subscription, other = store.subscriptions.add_many([("a",), ("b",)])
    table = posts(["b", "a", "b"], text=["first", "x", "second"])
    assert run(store, 0, table, [(subscription, 0), (subscription, 2), (other, 2), (other, 1)]) == CommitResult(2, 3, 1, 0)
    assert {m.post_id: m.text for m in store.matches.since(other)} == {"a": "x", "b": "first"}


def test_matches_of_removed_and_unknown_subscriptions_are_dropped_with_their_posts(store):
    gone, kept = store.subscriptions.add_many([("a",), ("b",)])
    store.batches.begin("s", 0, 1, 1)
    store.subscriptions.remove(gone)
    stored = store.batches.commit("s", 0, posts([1, 2]), matches([(gone, 0), (kept, 1), (99, 0)]))
    assert stored == CommitResult(1, 1, 2, 0)
    assert ids(store, kept) == [2]
    with pytest.raises(UnknownSubscription, match="was removed"):
        store.matches.since(gone)


def test_a_replay_gets_the_versions_recorded_first(where):
    with open_store(where) as store:
        assert store.batches.begin("s", 3, 10, 20) == (10, 20, False, False, "")
    with open_store(where) as store:
        assert store.batches.begin("s", 3, 11, 21) == (10, 20, False, True, "")
        store.batches.commit("s", 3, posts([]), matches([]))
        assert store.batches.begin("s", 3, 12, 22) == (10, 20, True, True, "")
        assert store.batches.begin("t", 3, 12, 22) == (12, 22, False, False, "")


def test_a_batch_that_was_never_begun_is_refused(store):
    with pytest.raises(StoreError, match="never begun"):
        store.batches.commit("s", 0, posts([]), matches([]))


def test_the_ledger_tells_what_each_batch_did(store, clock):
    subscription = store.subscriptions.add("a")
    bad = pa.table({"source": ["f.jsonl"], "source_row": [17], "reason": ["no text"], "excerpt": ["x" * 999]})
    run(store, 0, [1], [(subscription, 0)], rejected=bad, figures={"read_ms": 12.5})
    clock.now += 1
    store.batches.begin("s", 1, 2, 1)
    first, second = store.batches.recent("s")
    assert (first.state, first.posts, first.matches, first.rejected) == ("done", 1, 1, 1)
    assert first.metrics == {"read_ms": 12.5}
    assert (second.state, second.index_version, second.finished_at) == ("begun", 2, None)
    assert store.batches.recent(limit=1) == [second]
    assert store.batches.recent("other") == []
    (row,) = store.batches.rejected()
    assert (row.source, row.source_row, row.reason, len(row.excerpt or "")) == ("f.jsonl", 17, "no text", 200)


def test_one_bad_row_never_stops_a_batch(store):
    subscription = store.subscriptions.add("a")
    author = pa.array([b"caf\xe9", b"a\x00b", None], pa.binary()).view(pa.string())
    table = posts(["x" * 5_000, "ok", "ok2"], author=author)
    assert run(store, 0, table, [(subscription, row) for row in range(3)]) == CommitResult(2, 2, 1, 1)
    assert {m.post_id: m.author for m in store.matches.since(subscription)} == {"ok": "a\ufffdb", "ok2": None}
    assert store.batches.rejected()[0].reason == "the id is longer than 1,024 bytes"
    assert run(store, 9, pa.table({"id": pa.array([None], pa.string())}), [(subscription, 0)]) == CommitResult(0, 0, 1, 1)
    assert store.batches.rejected()[-1].reason == "the id is missing"
    table = posts(["bad"], author=pa.array([b"caf\xe9"], pa.binary()).view(pa.string()))
    run(store, 1, table, [(subscription, 0)])
    assert store.matches.since(subscription)[-1].author == "caf\ufffd"


def test_reading_in_pages_gives_everything_once(store):
    subscription = store.subscriptions.add("a")
    for batch in range(7):
        run(store, batch, list(range(batch * 10, batch * 10 + 10)), [(subscription, row) for row in range(10)])
    read, since = [], 0
    while page := store.matches.since(subscription, since, limit=9):
        read += [match.post_id for match in page]
        since = page[-1].cursor
    assert sorted(read) == list(range(70))
    assert len(read) == 70


def test_matches_are_found_across_eras(store):
    subscription = store.subscriptions.add("a")
    for batch, number in enumerate((0, 2**18 - 2, 2**18 * 100, 2**18 * 101)):
        store.database.execute("UPDATE counter SET value = ? WHERE name = 'number'", number)
        run(store, batch, [10 + batch * 3 + row for row in range(3)], [(subscription, row) for row in range(3)])
    assert ids(store, subscription) == list(range(10, 22))
    assert ids(store, subscription, since=2**18 * 2) == list(range(16, 22))
    assert ids(store, subscription, limit=7) == list(range(10, 17))
    assert run(store, 0, [11, 14, 20], [(subscription, row) for row in range(3)], stream="again").matches == 0
    store.apply_retention(Retention(max_matches_per_subscription=5))
    assert ids(store, subscription) == list(range(17, 22))


def test_a_batch_in_parts_is_stored_as_in_one(store):
    first, second = store.subscriptions.add_many([("a",), ("b",)])
    store.batches.begin("s", 0, 1, 1)
    parts = [
        BatchChunk(posts([1, 2], text=["one", "two"]), matches([(first, 0), (first, 1)]), NOTHING),
        BatchChunk(posts([]), matches([]), NOTHING),
        BatchChunk(posts([2, 3], text=["again", "three"]), matches([(first, 0), (second, 0), (second, 1)]), NOTHING),
    ]
    assert store.batches.commit_chunks("s", 0, iter(parts)) == CommitResult(3, 4, 1, 0)
    assert ids(store, first) == [1, 2]
    assert {m.post_id: m.text for m in store.matches.since(second)} == {2: "two", 3: "three"}
    assert store.batches.recent()[0].matches == 4


def test_a_batch_whose_parts_break_off_is_not_stored_at_all(store):
    subscription = store.subscriptions.add("a")
    store.batches.begin("s", 0, 1, 1)

    def parts():
        yield BatchChunk(posts([1]), matches([(subscription, 0)]), NOTHING)
        raise OSError("the rest cannot be read")

    with pytest.raises((OSError, StoreError), match="cannot be read"):
        store.batches.commit_chunks("s", 0, parts())
    assert ids(store, subscription) == []
    assert [line.state for line in store.batches.recent()] == ["begun"]


def test_of_all_parts_together_a_thousand_rejected_rows_are_kept(store):
    store.batches.begin("s", 0, 1, 1)
    bad = pa.table({"reason": ["no text"] * 700})
    assert store.batches.commit_chunks("s", 0, [BatchChunk(posts([]), matches([]), bad)] * 3).rejected == 2_100
    assert store.batches.recent()[0].rejected == 2_100
    assert len(store.batches.rejected(limit=10_000)) == 1_000


def test_what_strangers_wrote_is_sanitised_before_it_is_stored_whatever_way_it_came(store):
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
    run(store, 0, table, [(subscription, 0)])
    (match,) = store.matches.since(subscription)
    assert (match.text, match.title, match.author) == ("tea [31m time <b>", "a\nb", "ann ")
    assert (match.link, match.tags, match.time) == (None, ["x y", "z"], "today ")
