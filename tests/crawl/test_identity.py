"""An article is new exactly once, however a feed changes guids and links."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tidings.crawl.article import Article
from tidings.crawl.identity import (
    MAX_KNOWN,
    diff_articles,
    normalize_any_link,
    normalize_link,
    pack_known,
    unpack_known,
)

SITE = "https://site.example/"
NOW = 1_790_000_000.0


def article(n: int, **changes) -> Article:
    made = Article(f"g{n}", f"{SITE}{n}", f"Title {n}", f"Text {n}", "Ann", NOW - n * 3_600, ("t",))
    return replace(made, **changes)


def new_titles(*documents, site=SITE):
    """Return the new titles of each document, read in turn, and the number of updates."""
    known, found = (), []
    for number, document in enumerate(documents):
        one = diff_articles(known, document, site, NOW + number)
        known = unpack_known(pack_known(one.known))
        found.append(([new.article.title for new in one.new], one.updated))
    return found


FIRST = [article(1), article(2)]
ALL_NEW = (["Title 1", "Title 2"], 0)


def test_an_article_is_new_once():
    assert new_titles(FIRST, FIRST, [article(3), *FIRST]) == [ALL_NEW, ([], 0), (["Title 3"], 0)]


def test_moved_links_are_updates():
    moved = [article(n, link=f"https://new.example/blog/{n}") for n in (1, 2)]
    assert new_titles(FIRST, moved, moved) == [ALL_NEW, ([], 2), ([], 0)]


def test_guids_that_change_at_every_visit_are_not_new():
    for version in range(3):
        assert new_titles(FIRST, [article(n, guid=f"random {version} {n}") for n in (1, 2)])[1] == ([], 0)


def test_guids_and_links_that_change_together_are_not_new():
    moved = [article(n, guid=f"https://new.example/{n}", link=f"https://new.example/{n}") for n in (1, 2)]
    assert new_titles(FIRST, moved)[1] == ([], 2)


def test_guids_that_change_with_the_title_are_not_new():
    assert new_titles(FIRST, [article(n, guid=f"x{n}", title=f"Corrected {n}") for n in (1, 2)])[1] == ([], 2)


def test_guids_that_change_with_the_date_are_not_new():
    assert new_titles(FIRST, [article(n, guid=f"x{n}", published_at=NOW) for n in (1, 2)])[1] == ([], 0)


def test_feed_that_drops_its_guids_repeats_nothing():
    assert new_titles(FIRST, [article(n, guid="") for n in (1, 2)], FIRST) == [ALL_NEW, ([], 0), ([], 0)]


def test_guid_of_all_articles_is_ignored():
    same = [article(n, guid="https://site.example") for n in (1, 2)]
    third = article(3, guid="https://site.example")
    assert new_titles(same, [third, *same]) == [ALL_NEW, (["Title 3"], 0)]


def test_articles_with_a_link_to_the_front_page_are_distinguished():
    one, two, three = (article(n, guid="", link=SITE) for n in (1, 2, 3))
    assert new_titles([one, two], [three, one, two]) == [ALL_NEW, (["Title 3"], 0)]
    assert new_titles([one], [three]) == [(["Title 1"], 0), (["Title 3"], 0)]


def test_articles_with_the_same_title_are_distinguished():
    days = [article(n, title="Open thread", text="Talk!") for n in (1, 2, 3)]
    assert new_titles(days[1:], days) == [(["Open thread"] * 2, 0), (["Open thread"], 0)]
    bare = [replace(one, guid="", link="") for one in days]
    assert new_titles(bare[1:], bare) == [(["Open thread"] * 2, 0), (["Open thread"], 0)]


def test_articles_without_guid_link_and_date_are_known_by_text():
    bare = [Article(title="A", text="first"), Article(title="A", text="second"), Article(text="only text")]
    assert [new for new, _ in new_titles(bare[:2], bare)] == [["A", "A"], [""]]
    assert new_titles(bare, bare)[1] == ([], 0)


def test_repeated_article_in_a_document_counts_once():
    assert new_titles([article(1), article(1)]) == [(["Title 1"], 0)]


def test_article_that_comes_back_is_not_new():
    assert new_titles(FIRST, [article(2)], FIRST)[1:] == [([], 0), ([], 0)]


def test_known_articles_are_limited_and_the_oldest_are_dropped():
    known = ()
    for page in range(0, MAX_KNOWN + 300, 100):
        known = diff_articles(known, [article(page + n) for n in range(100)], SITE, NOW).known
    assert len(known) == MAX_KNOWN + 100
    recent = [article(MAX_KNOWN + n) for n in range(100)]
    assert diff_articles(known, recent, SITE, NOW).new == ()
    assert len(diff_articles(known, [article(1)], SITE, NOW).new) == 1


def test_document_without_known_articles_has_a_gap():
    known = diff_articles((), FIRST, SITE, NOW).known
    assert diff_articles(known, [article(7)], SITE, NOW).has_gap
    assert not diff_articles(known, [article(7), article(2)], SITE, NOW).has_gap
    assert not diff_articles((), FIRST, SITE, NOW).has_gap


def test_links_are_normalized():
    links = ["http://www.a.example/x/?utm_source=rss&id=1", "https://a.example/x?id=1&fbclid=9"]
    assert len({normalize_link(link) for link in links}) == 1
    assert normalize_link("https://a.example/log#v2") != normalize_link("https://a.example/log#v1")
    assert normalize_link("https://a.example/?p=1") != normalize_link("https://a.example/?p=2")


NUMBERS = st.lists(st.integers(0, 30), max_size=12, unique=True)


@settings(max_examples=200, deadline=None)
@given(st.lists(NUMBERS, max_size=8), st.integers(0, 7), st.booleans(), st.booleans())
def test_every_article_is_new_exactly_once(documents, when, move_links, change_guids):
    """By definition, the new articles of a document are those in no earlier document."""
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
    assert [new for new, _ in new_titles(*shown)] == expected


@settings(deadline=None)
@given(st.from_regex(r"https?://(www\.)?[A-Za-z0-9.-]{1,12}(/[A-Za-z0-9%/:@!$&'()*+,;=~_.-]{0,20})?", fullmatch=True))
def test_plain_links_are_normalized_like_any_link(link):
    assert normalize_link(link) == normalize_any_link(link)
