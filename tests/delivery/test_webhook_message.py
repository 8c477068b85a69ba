"""Messages: limited in size, valid JSON for any post, and reproducible."""

from __future__ import annotations

import json
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier

from tidings.delivery.webhooks.message import MAX_BYTES, MAX_MATCHES, build_message, sign_headers
from tidings.store.rows import StoredMatch
from tidings.store.webhooks import new_secret

TEXT = st.text(st.characters(), max_size=20)
COORDINATE = st.none() | st.floats()
POSTS = st.lists(
    st.tuples(
        TEXT | st.integers(),
        TEXT | st.integers(1, 3 * MAX_BYTES).map("é".__mul__),
        COORDINATE,
        st.lists(TEXT, max_size=2),
    ),
    min_size=1,
    max_size=5,
)


def match(
    cursor: int, identity: int | str = "p", text: str = "tea", lat: float | None = None, tags: object = ()
) -> StoredMatch:
    nothing = (None, None, None)
    return StoredMatch(cursor, identity, text, *nothing, lat, lat, list(tags), None, None, 1_800_000_000.5, 1, 1)


@settings(deadline=None)
@given(POSTS)
def test_a_message_is_valid_json_within_limits_and_reproducible(posts):
    matches = [match(cursor, *post) for cursor, post in enumerate(posts, 1)]
    message = build_message("abc", 3, matches)
    data = json.loads(message.body)["data"]
    assert [item["cursor"] for item in data["matches"]] == list(range(1, message.matches + 1))
    assert (data["subscription"], data["cursor"], message.until, message.id) == (
        3,
        message.until,
        message.matches,
        f"msg_abc_{message.until}",
    )
    assert message.matches == 1 or len(message.body) < MAX_BYTES + 1_000
    assert build_message("abc", 3, matches[: message.matches], is_fixed=True) == message


def test_a_message_has_as_many_matches_as_fit_and_at_least_one():
    assert build_message("a", 1, [match(cursor) for cursor in range(1, 300)]).matches == MAX_MATCHES
    half = "x" * (MAX_BYTES // 2 - 1_000)
    assert build_message("a", 1, [match(cursor, text=half) for cursor in range(1, 9)]).matches == 2
    assert build_message("a", 1, [match(cursor, text=half * 5) for cursor in range(1, 9)]).matches == 1


@settings(deadline=None)
@given(TEXT)
def test_the_library_verifies_the_signature(text):
    secret = new_secret()
    message = build_message("abc", 3, [match(1, text=text)])
    assert Verifier(secret).verify(message.body, sign_headers(message, [new_secret(), secret], time.time()))
