"""State that grows and is deleted in groups (a slide or a plan): pages are added to a group and deleted with it.

A batch adds new pages, so it costs what it adds, not what is stored already. A group with many pages is compacted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

_COMPACT_PAGES = 16  # of a group


class StatePage(NamedTuple):
    """Names of tags, one per line, and packed arrays whose tags are line numbers."""

    names: bytes
    blob: bytes


class PageKey(NamedTuple):
    """A group, and the number of a page in it."""

    group: int
    number: int


class PageBackend(Protocol):
    """Where pages are stored."""

    def read(self) -> Iterable[tuple[PageKey, StatePage]]: ...

    def put(self, key: PageKey, page: StatePage) -> None: ...

    def remove(self, key: PageKey) -> None: ...


class StateStore:
    """The pages of a backend. Every change is written to the backend immediately."""

    def __init__(self, backend: PageBackend) -> None:
        self._backend = backend
        self._pages = dict(sorted(backend.read()))

    def __iter__(self) -> Iterator[tuple[int, StatePage]]:
        """Iterate over (group, page), by group and in the order in which its pages were added."""
        return ((key.group, page) for key, page in self._pages.items())

    def pages_of(self, group: int) -> list[StatePage]:
        return [page for page_group, page in self if page_group == group]

    def add(self, group: int, page: StatePage) -> None:
        numbers = [key.number for key in self._pages if key.group == group]
        self._put(PageKey(group, max(numbers, default=-1) + 1), page)

    def delete_groups(self, is_deleted: Callable[[int], bool]) -> None:
        for key in [key for key in self._pages if is_deleted(key.group)]:
            del self._pages[key]
            self._backend.remove(key)

    def groups_to_compact(self) -> list[int]:
        pages = Counter(key.group for key in self._pages)
        return [group for group, count in pages.items() if count >= _COMPACT_PAGES]

    def compact(self, group: int, page: StatePage) -> None:
        """Replace all pages of a group by one."""
        self.delete_groups(lambda page_group: page_group == group)
        self._put(PageKey(group, 0), page)

    def _put(self, key: PageKey, page: StatePage) -> None:
        self._pages[key] = page
        self._backend.put(key, page)


class MemoryBackend(dict[PageKey, StatePage]):
    """Stores pages in this process."""

    def read(self) -> Iterable[tuple[PageKey, StatePage]]:
        return list(self.items())

    def put(self, key: PageKey, page: StatePage) -> None:
        self[key] = page

    def remove(self, key: PageKey) -> None:
        del self[key]
