"""A plan that is refreshed while the stream runs: a crash at the switch loses and repeats no match."""

from __future__ import annotations

import pytest
from tests.cli.runs import run_command
from tests.stream.process import QUERIES, PostFeed, expected_matches, run_to_kill, stored_matches, subscribe

from tidings.balance.refresh_policy import MIN_POSTS, RefreshPolicy
from tidings.failpoints import PLAN_FAILPOINTS
from tidings.store import open_store
from tidings.testing.log import captured_events
from tidings.testing.stream import StreamHarness

OPTIONS = {"execution_mode": "partitioned", "matchers": 3, "refresh_policy": RefreshPolicy(min_posts=500)}
TOPICS, WORDS_PER_TOPIC = 10, 5
TOPIC_WORDS = tuple(f"topic{number}" for number in range(TOPICS * WORDS_PER_TOPIC))
LATER_QUERY = "the OR in OR a OR storm OR fire OR match"


def add_topic(step: int):
    """Return a change of posts: three words of a topic. The topics divide the same words in a way given by `step`."""

    def change(row):
        topic, first = row["id"] % TOPICS, row["id"] // TOPICS
        numbers = (topic * step + (first + n) % WORDS_PER_TOPIC * (TOPICS if step == 1 else 1) for n in range(3))
        return {**row, "text": " ".join([row["text"], *(TOPIC_WORDS[number] for number in numbers)])}

    return change


FIRST_TOPICS, LATER_TOPICS = add_topic(1), add_topic(WORDS_PER_TOPIC)


def plan_versions(state) -> list[int]:
    with open_store(state) as store:
        return [batch.plan_version for batch in store.batches.recent()]


@pytest.fixture(scope="module")
def messages():
    with captured_events() as messages:
        yield messages


@pytest.fixture(scope="module")
def story(spark, messages, tmp_path_factory):
    """Posts exist at the start; one crash before and one after the switch. Then topics change and a user asks."""
    folder = tmp_path_factory.mktemp("refresh")
    state, feed = folder / "state", PostFeed(folder / "in", posts_per_file=300)
    subscribe(state, *QUERIES, *TOPIC_WORDS)
    feed.add_files(4, FIRST_TOPICS)
    harness = StreamHarness(spark, feed.folder, state, **OPTIONS)
    for point in PLAN_FAILPOINTS:
        harness.crash(point)
    harness.run()
    messages.clear()
    later = None
    with harness.running_stream() as stream:
        read = len(feed.rows)
        feed.add_files(4, LATER_TOPICS)
        first = stream.wait_for_posts(len(feed.rows) - read).plan_version
        request = run_command("plan", "refresh", "--state", state)
        while stream.wait_for_posts(len(feed.rows) - read).plan_version == first:
            assert feed.files < 40, "the plan is not replaced"
            feed.add_files(1, LATER_TOPICS)
            if later is None:
                stream.wait_for_posts(len(feed.rows) - read)
                later, since = subscribe(state, LATER_QUERY)[0], len(feed.rows)
        feed.add_files()
        stream.wait_for_posts(len(feed.rows) - read)
    return state, feed, first, request, (later, since), harness.snapshot


def test_the_first_plan_is_learned_from_posts_that_exist_before_the_first_batch(story):
    state, _, first, *_ = story
    assert first == 2
    assert set(plan_versions(state)[:4]) == {2}


def test_a_requested_plan_is_used_between_two_batches(story, messages):
    state, _, first, request, *_ = story
    assert request.code == 0
    assert "switches to it between two batches" in request.out
    versions = plan_versions(state)
    assert versions == sorted(versions)
    assert set(versions) == {first, first + 1}
    assert any(message.startswith("plan refresh started") and "reason=requested" in message for message in messages)
    assert any(message.startswith(f"plan switched plan_version={first + 1} ") for message in messages)
    with open_store(state) as store:
        assert store.plan_refresh.pending_requests() == 0


def test_no_match_is_lost_or_repeated_even_of_a_subscription_added_meanwhile(story):
    state, feed, _, _, (later, since), _ = story
    later_matches = expected_matches(feed.rows[since:], [LATER_QUERY], later)
    assert stored_matches(state) == expected_matches(feed.rows, (*QUERIES, *TOPIC_WORDS)) | later_matches


def test_the_status_shows_the_plan(story):
    state, _, first, _, _, snapshot = story
    assert (snapshot.execution_mode, snapshot.partitioner, snapshot.placement) == ("partitioned", "salb+", "anchor")
    assert snapshot.plan_version == first + 1
    assert "partitioned, version 3, words by salb+" in run_command("status", "--state", state).out


def test_a_replicated_stream_has_no_plan_to_refresh(spark, tmp_path):
    feed = PostFeed(tmp_path / "in", posts_per_file=5)
    feed.add_files()
    subscribe(tmp_path / "state", "storm")
    StreamHarness(spark, feed.folder, tmp_path / "state").run()
    result = run_command("plan", "refresh", "--state", tmp_path / "state")
    assert result.code == 2
    assert "Run it with --plan partitioned" in " ".join(result.err.split())


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_process_killed_at_the_switch_loses_and_repeats_nothing(spark, tmp_path):
    state, feed = tmp_path / "state", PostFeed(tmp_path / "in", posts_per_file=MIN_POSTS)
    subscribe(state, *QUERIES, *TOPIC_WORDS)
    feed.add_files(2, FIRST_TOPICS)
    for point in PLAN_FAILPOINTS:
        run_to_kill(feed.folder, state, f"{point}@any", "--plan", "partitioned", "--matchers", "3")
    StreamHarness(spark, feed.folder, state, **OPTIONS).run()
    assert stored_matches(state) == expected_matches(feed.rows, (*QUERIES, *TOPIC_WORDS))
