"""The comparison after a fault test finds every kind of damage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.batches import posts, run_batch

from tidings.store import open_store
from tidings.testing.fault_load import CRAWL_MARKER, MARKER
from tidings.testing.fault_oracle import FaultOutcome, find_problems

POOL = [{"text": "a storm"}, {"text": "the sun"}]
IDS = ["api:tester:0", "api:tester:1", "api:tester:2"]
ROWS = [0, 1, 0]
ARTICLES = [f"{CRAWL_MARKER} article 0-{number}" for number in range(3)]
ALL, CRAWLED, STORM, LATE, REMOVED = range(1, 6)
MATCHES = [
    *((ALL, row) for row in range(3)),
    *((CRAWLED, row) for row in range(3, 6)),
    (STORM, 0),
    (STORM, 2),
    (LATE, 2),
]


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path) as opened:
        opened.subscriptions.add_many([(query,) for query in (MARKER, CRAWL_MARKER, "storm", "storm", "storm")])
        opened.subscriptions.remove(REMOVED)
        yield opened


OUTCOME = FaultOutcome(
    pool=POOL,
    texts=dict(zip(IDS, ROWS, strict=True)),
    acknowledged=set(IDS),
    final={IDS[2]},
    stable={ALL: MARKER, CRAWLED: CRAWL_MARKER, STORM: "storm"},
    feeds=[0],
    delivered=IDS,
    bodies={"msg_1": {b"{}"}},
)


def commit(store, matches):
    texts = [f"{POOL[row]['text']} {MARKER}" for row in ROWS] + ARTICLES
    run_batch(store, 0, posts([*IDS, "feed:0", "feed:1", "feed:2"], text=texts), sorted(matches))


def test_complete_store_has_no_problem(store):
    commit(store, MATCHES)
    assert find_problems(store, OUTCOME) == []


@pytest.mark.parametrize(
    ("matches", "problem"),
    [
        ([pair for pair in MATCHES if pair != (STORM, 0)], f"1 missing: ({STORM}, '{IDS[0]}')"),
        ([pair for pair in MATCHES if pair != (LATE, 2)], f"1 missing: ({LATE}, '{IDS[2]}')"),
        ([*MATCHES, (STORM, 1)], f"1 wrong: ({STORM}, '{IDS[1]}')"),
        ([pair for pair in MATCHES if pair != (CRAWLED, 5)], f"1 articles are missing: {ARTICLES[2]}"),
    ],
)
def test_damaged_store_has_a_problem(store, matches, problem):
    commit(store, matches)
    assert find_problems(store, OUTCOME) == [problem]


def test_match_that_is_stored_twice_is_a_problem(store):
    commit(store, MATCHES)
    columns = "era, subscription, cursor + 1000, post, index_version, batch"
    sql = (
        f"INSERT INTO match SELECT {columns} FROM match WHERE subscription = ? AND post = (SELECT min(post) FROM match)"
    )
    store.database.execute(sql, STORM)
    assert find_problems(store, OUTCOME) == [f"1 stored more than once: ({STORM}, '{IDS[0]}')"]


def test_unfinished_batch_is_a_problem(store):
    commit(store, MATCHES)
    store.batches.begin("s", 1, 1, 1)
    assert find_problems(store, OUTCOME) == ["1 batches are unfinished"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"delivered": IDS[1:]}, f"1 not delivered: {IDS[0]}"),
        ({"delivered": [*IDS, IDS[0]]}, f"1 in two messages: {IDS[0]}"),
        ({"bodies": {"msg_1": {b"{}", b"[]"}}}, "1 messages with two bodies: msg_1"),
    ],
)
def test_wrong_webhook_is_a_problem(store, change, problem):
    commit(store, MATCHES)
    assert find_problems(store, replace(OUTCOME, **change)) == [problem]
