"""Messages: bounded, whole JSON whatever posts say, and the same whenever they are made again."""

from __future__ import annotations

import json
import time

from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier

from tidings.delivery.webhooks.message import MAX_BYTES, MAX_MATCHES, headers, message
from tidings.store.rows import StoredMatch
from tidings.store.webhooks import new_secret

TEXT = st.text(st.characters(), max_size=20)
PLACE = st.none() | st.floats()
POSTS = st.lists(
    st.tuples(
        TEXT | st.integers(), TEXT | st.integers(1, 3 * MAX_BYTES).map("é".__mul__), PLACE, st.lists(TEXT, max_size=2)
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
def test_whatever_posts_say_a_message_is_json_within_bounds_and_the_same_when_made_again(posts):
    matches = [match(cursor, *post) for cursor, post in enumerate(posts, 1)]
    made = message("abc", 3, matches)
    told = json.loads(made.body)["data"]
    assert [one["cursor"] for one in told["matches"]] == list(range(1, made.matches + 1))
    assert (told["subscription"], told["cursor"], made.until, made.id) == (
        3,
        made.until,
        made.matches,
        f"msg_abc_{made.until}",
    )
    assert made.matches == 1 or len(made.body) < MAX_BYTES + 1_000
    assert message("abc", 3, matches[: made.matches], is_fixed=True) == made


def test_a_message_takes_as_much_as_goes_in_and_one_at_least():
    assert message("a", 1, [match(cursor) for cursor in range(1, 300)]).matches == MAX_MATCHES
    half = "x" * (MAX_BYTES // 2 - 1_000)
    assert message("a", 1, [match(cursor, text=half) for cursor in range(1, 9)]).matches == 2
    assert message("a", 1, [match(cursor, text=half * 5) for cursor in range(1, 9)]).matches == 1


@settings(deadline=None)
@given(TEXT)
def test_what_is_signed_is_what_the_library_verifies(text):
    secret = new_secret()
    made = message("abc", 3, [match(1, text=text)])
    assert Verifier(secret).verify(made.body, headers(made, [new_secret(), secret], time.time()))
