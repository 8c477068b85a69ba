"""State that grows and is forgotten group by group: pages that are added to a group, and go with it.

A group is a slide, or a plan. What a batch brings becomes new pages, so that it costs what it brings and not what is
there already; a group with many pages is written anew as one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

_CROWDED = 16  # pages of a group


class Page(NamedTuple):
    """Names of tags, a line each, and packed arrays in which tags are places among them."""

    names: bytes
    blob: bytes


class Place(NamedTuple):
    """A group, and the number of a page in it."""

    group: int
    number: int


class Shelf(Protocol):
    """Where pages are kept."""

    def read(self) -> Iterable[tuple[Place, Page]]: ...

    def put(self, place: Place, page: Page) -> None: ...

    def remove(self, place: Place) -> None: ...


class Book:
    """The pages of a shelf; every change goes to the shelf at once."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._pages = dict(sorted(shelf.read()))

    def __iter__(self) -> Iterator[tuple[int, Page]]:
        """By group, in the order in which pages were added to it."""
        return ((place.group, page) for place, page in self._pages.items())

    def of(self, group: int) -> list[Page]:
        return [page for one, page in self if one == group]

    def add(self, group: int, page: Page) -> None:
        numbers = [place.number for place in self._pages if place.group == group]
        self._put(Place(group, max(numbers, default=-1) + 1), page)

    def forget(self, is_gone: Callable[[int], bool]) -> None:
        """Remove the groups that are gone."""
        for place in [place for place in self._pages if is_gone(place.group)]:
            del self._pages[place]
            self._shelf.remove(place)

    def crowded(self) -> list[int]:
        """The groups that should be written anew."""
        pages = Counter(place.group for place in self._pages)
        return [group for group, count in pages.items() if count >= _CROWDED]

    def rewrite(self, group: int, page: Page) -> None:
        """One page instead of all the group has."""
        self.forget(lambda one: one == group)
        self._put(Place(group, 0), page)

    def _put(self, place: Place, page: Page) -> None:
        self._pages[place] = page
        self._shelf.put(place, page)


class Memory(dict[Place, Page]):
    """A shelf in this process."""

    def read(self) -> Iterable[tuple[Place, Page]]:
        return list(self.items())

    def put(self, place: Place, page: Page) -> None:
        self[place] = page

    def remove(self, place: Place) -> None:
        del self[place]
