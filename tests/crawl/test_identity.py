"""Which articles are new: whatever feeds do to guids and links, an article is told once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.crawl.article import Article
from tidings.crawl.identity import MAX_KNOWN, any_same_link, news, packed, same_link, unpacked

SITE = "https://site.example/"
NOW = 1_790_000_000.0


def article(n: int, **changes) -> Article:
    made = Article(f"g{n}", f"{SITE}{n}", f"Title {n}", f"Text {n}", "Ann", NOW - n * 3_600, ("t",))
    return replace(made, **changes)


def told(*documents, site=SITE):
    """The titles that are new in each document, one read after the other, and how many were updates."""
    known, found = (), []
    for number, document in enumerate(documents):
        one = news(known, document, site, NOW + number)
        known = unpacked(packed(one.known))
        found.append(([new.article.title for new in one.new], one.updated))
    return found


FIRST = [article(1), article(2)]
ALL_NEW = (["Title 1", "Title 2"], 0)


def test_an_article_is_new_once():
    assert told(FIRST, FIRST, [article(3), *FIRST]) == [ALL_NEW, ([], 0), (["Title 3"], 0)]


def test_moved_links_are_updates():
    moved = [article(n, link=f"https://new.example/blog/{n}") for n in (1, 2)]
    assert told(FIRST, moved, moved) == [ALL_NEW, ([], 2), ([], 0)]


def test_guids_that_change_every_time_make_nothing_new():
    for version in range(3):
        assert told(FIRST, [article(n, guid=f"random {version} {n}") for n in (1, 2)])[1] == ([], 0)


def test_guids_and_links_that_move_together_make_nothing_new():
    moved = [article(n, guid=f"https://new.example/{n}", link=f"https://new.example/{n}") for n in (1, 2)]
    assert told(FIRST, moved)[1] == ([], 2)


def test_guids_that_change_with_the_title_make_nothing_new():
    assert told(FIRST, [article(n, guid=f"x{n}", title=f"Corrected {n}") for n in (1, 2)])[1] == ([], 2)


def test_guids_that_change_with_the_date_make_nothing_new():
    assert told(FIRST, [article(n, guid=f"x{n}", published_at=NOW) for n in (1, 2)])[1] == ([], 0)


def test_a_feed_that_gives_up_its_guids_repeats_nothing():
    assert told(FIRST, [article(n, guid="") for n in (1, 2)], FIRST) == [ALL_NEW, ([], 0), ([], 0)]


def test_one_guid_for_all_identifies_nobody():
    same = [article(n, guid="https://site.example") for n in (1, 2)]
    third = article(3, guid="https://site.example")
    assert told(same, [third, *same]) == [ALL_NEW, (["Title 3"], 0)]


def test_articles_that_all_link_to_the_front_page_are_told_apart():
    one, two, three = (article(n, guid="", link=SITE) for n in (1, 2, 3))
    assert told([one, two], [three, one, two]) == [ALL_NEW, (["Title 3"], 0)]
    assert told([one], [three]) == [(["Title 1"], 0), (["Title 3"], 0)]


def test_articles_with_one_title_are_told_apart_by_guid_or_date():
    days = [article(n, title="Open thread", text="Talk!") for n in (1, 2, 3)]
    assert told(days[1:], days) == [(["Open thread"] * 2, 0), (["Open thread"], 0)]
    bare = [replace(one, guid="", link="") for one in days]
    assert told(bare[1:], bare) == [(["Open thread"] * 2, 0), (["Open thread"], 0)]


def test_articles_without_guid_link_and_date_are_known_by_what_they_say():
    bare = [Article(title="A", text="first"), Article(title="A", text="second"), Article(text="only text")]
    assert [new for new, _ in told(bare[:2], bare)] == [["A", "A"], [""]]
    assert told(bare, bare)[1] == ([], 0)


def test_what_is_written_twice_in_a_document_is_one_article():
    assert told([article(1), article(1)]) == [(["Title 1"], 0)]


def test_an_article_that_was_away_is_not_new_when_it_comes_back():
    assert told(FIRST, [article(2)], FIRST)[1:] == [([], 0), ([], 0)]


def test_known_articles_are_bounded_and_the_longest_gone_are_forgotten():
    known = ()
    for page in range(0, MAX_KNOWN + 300, 100):
        known = news(known, [article(page + n) for n in range(100)], SITE, NOW).known
    assert len(known) == MAX_KNOWN + 100
    recent = [article(MAX_KNOWN + n) for n in range(100)]
    assert news(known, recent, SITE, NOW).new == ()
    assert len(news(known, [article(1)], SITE, NOW).new) == 1


def test_a_document_without_anything_known_may_have_torn_off():
    known = news((), FIRST, SITE, NOW).known
    assert news(known, [article(7)], SITE, NOW).is_torn
    assert not news(known, [article(7), article(2)], SITE, NOW).is_torn
    assert not news((), FIRST, SITE, NOW).is_torn


def test_links_are_compared_without_what_moves():
    links = ["http://www.a.example/x/?utm_source=rss&id=1", "https://a.example/x?id=1&fbclid=9"]
    assert len({same_link(link) for link in links}) == 1
    assert same_link("https://a.example/log#v2") != same_link("https://a.example/log#v1")
    assert same_link("https://a.example/?p=1") != same_link("https://a.example/?p=2")


NUMBERS = st.lists(st.integers(0, 30), max_size=12, unique=True)


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS, max_size=8), st.integers(0, 7), st.booleans(), st.booleans())
def test_every_article_is_told_exactly_once_whatever_moves(documents, when, move_links, change_guids):
    """The definition: the new articles of each document are those in no document before."""
    seen: set[int] = set()
    shown, expected = [], []
    for number, numbers in enumerate(documents):
        changes = {}
        if number >= when:
            changes = {"link": "https://new.example/{}"} if move_links else {}
            changes |= {"guid": f"{number}-{{}}"} if change_guids and not move_links else {}
        shown.append([article(n, **{key: value.format(n) for key, value in changes.items()}) for n in numbers])
        expected.append([f"Title {n}" for n in numbers if n not in seen])
        seen |= set(numbers)
    assert [new for new, _ in told(*shown)] == expected


@settings(deadline=None)
@given(st.from_regex(r"https?://(www\.)?[A-Za-z0-9.-]{1,12}(/[A-Za-z0-9%/:@!$&'()*+,;=~_.-]{0,20})?", fullmatch=True))
def test_a_plain_link_is_known_by_what_any_link_is_known_by(link):
    assert same_link(link) == any_same_link(link)
