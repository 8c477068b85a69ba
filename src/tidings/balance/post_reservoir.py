"""A uniform sample of the posts of a recent window, of bounded size, which survives restarts.

The window consists of *panes*. Every post that was read has a random key; a pane keeps the posts with its smallest
keys. So all kept posts below one key are a uniform sample of the whole window. A batch reports only some of its posts:
these get the keys that the smallest of all its posts would have.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidings.balance.spatial_fit import PostSample
from tidings.private_files import touch_private

PANES = 6
PANE_POSTS = 10_000  # kept in a pane
WINDOW_S = 86_400.0  # a day and a night
_PANE_BYTES = 8 << 20  # of texts
_MAX_CHARACTERS = 4_096  # of a text
_FORMAT = b"tidings-recent-posts-1"
Keys = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pane:
    """A part of the window: posts in ascending order of their keys. Posts with keys up to `reach` are complete."""

    since: float
    seen: int
    reach: float
    keys: Keys
    texts: pa.Array
    positions: NDArray[np.float64]

    @classmethod
    def empty(cls, since: float) -> Pane:
        return cls(since, 0, 1.0, np.zeros(0), pa.array([], pa.large_string()), np.zeros((0, 2)))

    def add(self, posts: PostSample, keys: Keys, seen: int, max_posts: int) -> Pane:
        """Return the pane with some of `seen` further posts. Of all, those with the smallest keys are kept."""
        texts = pa.concat_arrays([self.texts, pc.utf8_slice_codeunits(posts[0], 0, _MAX_CHARACTERS)])
        reach = self.reach if len(keys) == seen else min(self.reach, float(keys.max(initial=0.0)))
        all_keys = np.concatenate([self.keys, keys])
        order = np.argsort(all_keys, kind="stable")
        sizes = np.cumsum(pc.binary_length(texts).to_numpy(zero_copy_only=False)[order])
        kept = order[: min(max_posts, int(np.searchsorted(sizes, _PANE_BYTES, "right")))]
        if len(kept) < len(order):
            reach = min(reach, float(all_keys[order[len(kept)]]))
        positions = np.concatenate([self.positions, posts[1]])[kept]
        return replace(
            self, seen=self.seen + seen, reach=reach, keys=all_keys[kept], texts=texts.take(kept), positions=positions
        )


class PostReservoir:
    """The sample: `add` the sampled posts of every batch, `posts` returns it in random order."""

    def __init__(
        self, file: Path | None = None, window_s: float = WINDOW_S, pane_posts: int = PANE_POSTS, seed: int = 0
    ) -> None:
        """Continue with the posts in `file`, if there are any."""
        self._file, self._pane_s, self._pane_posts, self._seed = file, window_s / PANES, pane_posts, seed
        self._panes = self._load()
        self._unsaved = 0

    @property
    def seen(self) -> int:
        """The number of posts in the window."""
        return sum(pane.seen for pane in self._panes)

    @property
    def count(self) -> int:
        """The number of posts in the sample."""
        return int(self._is_sampled(self._keys()).sum())

    def add(self, posts: PostSample, seen: int, now: float) -> None:
        """Add a random sample of `seen` posts that a batch has read."""
        if not len(posts[0]):
            return
        seen = max(seen, len(posts[0]))
        if not self._panes or self._is_full(self._panes[-1], now):
            self._panes = [*self._panes[1 - PANES :], Pane.empty(now)]
        rng = np.random.default_rng([self._seed, self.seen])  # a batch that is repeated gets the same keys
        keys = draw_smallest_keys(rng, len(posts[0]), seen)
        self._panes[-1] = self._panes[-1].add(posts, keys, seen, self._pane_posts)
        self._unsaved += seen

    def posts(self) -> PostSample:
        """Return the sample: uniform, unless fewer posts than a pane keeps would be left of it."""
        keys = self._keys()
        rows = np.flatnonzero(self._is_sampled(keys))
        rows = rows[np.argsort(keys[rows], kind="stable")]
        texts = pa.concat_arrays([pa.array([], pa.large_string()), *(pane.texts for pane in self._panes)])
        positions = np.concatenate([np.zeros((0, 2)), *(pane.positions for pane in self._panes)])
        return texts.take(rows), positions[rows]

    def save(self) -> None:
        """Write the file if posts were added. A crash loses only posts that were added since."""
        if not self._unsaved or self._file is None:
            return
        temporary = self._file.with_name(f".{self._file.name}.partial")
        try:
            touch_private(temporary)
            pq.write_table(self._to_table(), temporary, compression="zstd", write_page_checksum=True)
            os.replace(temporary, self._file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._unsaved = 0

    def _is_full(self, pane: Pane, now: float) -> bool:
        return pane.seen >= self._pane_posts and not pane.since <= now < pane.since + self._pane_s

    def _keys(self) -> Keys:
        return np.concatenate([np.zeros(0), *(pane.keys for pane in self._panes)])

    def _is_sampled(self, keys: Keys) -> NDArray[np.bool_]:
        is_sampled = keys <= min((pane.reach for pane in self._panes), default=1.0)
        least = min(self._pane_posts, len(keys))
        if np.count_nonzero(is_sampled) < least:
            is_sampled = keys <= np.partition(keys, least - 1)[least - 1]
        return np.asarray(is_sampled)

    def _to_table(self) -> pa.Table:
        panes = [{"since": pane.since, "seen": pane.seen, "reach": pane.reach} for pane in self._panes]
        positions = np.concatenate([np.zeros((0, 2)), *(pane.positions for pane in self._panes)])
        columns = {
            "pane": np.repeat(np.arange(len(panes)), [len(pane.keys) for pane in self._panes]),
            "key": self._keys(),
            "text": pa.concat_arrays([pa.array([], pa.large_string()), *(pane.texts for pane in self._panes)]),
            "lon": positions[:, 0],
            "lat": positions[:, 1],
        }
        return pa.table(columns).replace_schema_metadata({_FORMAT: json.dumps(panes)})

    def _load(self) -> list[Pane]:
        """Return the panes of the file; none if it is missing or damaged."""
        if self._file is None:
            return []
        try:
            table = pq.ParquetFile(self._file, page_checksum_verification=True).read()
            panes = json.loads((table.schema.metadata or {})[_FORMAT])
            pane_of = table.column("pane").to_numpy()
            return [_to_pane(table.filter(pane_of == number), **pane) for number, pane in enumerate(panes)]
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            return []


def draw_smallest_keys(rng: np.random.Generator, count: int, total: int) -> Keys:
    """Draw the `count` smallest of `total` uniform random numbers between 0 and 1, in random order."""
    sums = np.cumsum(rng.exponential(size=count))
    rest = rng.gamma(total + 1 - count)
    return np.asarray(rng.permutation(sums / (sums[-1] + rest))) if count else np.zeros(0)


def _to_pane(table: pa.Table, since: float, seen: int, reach: float) -> Pane:
    texts = table.column("text").cast(pa.large_string()).combine_chunks()
    positions = np.column_stack([table.column(name).to_numpy() for name in ("lon", "lat")])
    return Pane(float(since), int(seen), float(reach), table.column("key").to_numpy(), texts, positions)
