"""The posts of late, some of them: what a plan is learned anew from."""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from tidings.balance.spatial_fit import Located
from tidings.balance.spec import QUICK_SAMPLE


class RecentPosts:
    """The newest texts, each with its position, so many at most."""

    def __init__(self, most: int = QUICK_SAMPLE) -> None:
        self._most = most
        self._pieces: deque[Located] = deque()
        self.count = 0

    def add(self, some: Located) -> None:
        """What is beyond the bound goes, the oldest first."""
        if not len(some[0]):
            return
        self._pieces.append(some)
        self.count += len(some[0])
        while self.count > self._most:
            (texts, positions), over = self._pieces[0], self.count - self._most
            if len(texts) <= over:
                self._pieces.popleft()
                self.count -= len(texts)
            else:
                self._pieces[0] = texts.slice(over), positions[over:]
                self.count -= over

    def posts(self) -> Located:
        texts = pa.concat_arrays([pa.array([], pa.large_string()), *(texts for texts, _ in self._pieces)])
        return texts, np.concatenate([np.zeros((0, 2)), *(positions for _, positions in self._pieces)])
