"""The posts of late, some of them: what a plan is learned anew from."""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from tidings.partition.words.wanted import QUICK_SAMPLE


class RecentTexts:
    """The newest texts, so many at most."""

    def __init__(self, most: int = QUICK_SAMPLE) -> None:
        self._most = most
        self._pieces: deque[pa.Array] = deque()
        self.count = 0

    def add(self, texts: pa.Array) -> None:
        """What is beyond the bound goes, the oldest first."""
        if not len(texts):
            return
        self._pieces.append(texts)
        self.count += len(texts)
        while self.count > self._most:
            oldest, over = self._pieces[0], self.count - self._most
            if len(oldest) <= over:
                self._pieces.popleft()
                self.count -= len(oldest)
            else:
                self._pieces[0] = oldest.slice(over)
                self.count -= over

    def texts(self) -> pa.Array:
        return pa.concat_arrays([pa.array([], pa.large_string()), *self._pieces])
