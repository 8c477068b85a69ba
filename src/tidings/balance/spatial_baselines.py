"""Space partitioning without an eye on words: a uniform grid, a kd-tree, an R-tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings.balance.kdt_tree import Ground, Node
from tidings.balance.leaf_assignment import merge_nodes

GRID_CELLS = 64  # along each side of the extent, as in the paper
LEAVES_A_WORKER = 16  # of the R-tree

# (the area of each cell by row and column, the worker of each area)
Owned = tuple[NDArray[np.int64], NDArray[np.int64]]


def kd_leaves(root: Node, workers: int) -> list[tuple[Node, int]]:
    """One leaf a worker, of nearly equally many posts."""
    return [(node, worker) for worker, node in enumerate(root.by_space(workers))]


def grid_cells(ground: Ground, workers: int) -> Owned:
    """Every cell is an area; those with posts are merged as nodes are, each other goes where the nearest of them is."""
    columns, rows = ground.lines.columns, ground.lines.rows
    posts = ground.workload.located
    cell = ground.post_cells[posts, 1] * columns + ground.post_cells[posts, 0]
    used = np.unique(cell)
    places = np.column_stack([used % columns, used // columns])
    nodes = [
        Node(ground, (c, r, c + 1, r + 1), posts[cell == number], _touching(ground, c, r, c, r))
        for (c, r), number in zip(places.tolist(), used.tolist(), strict=True)
    ]
    chosen = merge_nodes(nodes, workers)[0] if nodes else np.zeros(0, np.int64)
    return np.arange(rows * columns).reshape(rows, columns), _nearest(places, chosen, columns, rows).ravel()


def rtree_leaves(ground: Ground, workers: int) -> Owned:
    """The leaves of a packed R-tree over the posts are merged as nodes are; a cell belongs to the leaf of its posts."""
    posts = ground.workload.located
    if not len(posts):
        return np.zeros((ground.lines.rows, ground.lines.columns), np.int64), np.zeros(1, np.int64)
    leaf_of = _packed(ground.workload.positions[posts], max(4, len(posts) // (LEAVES_A_WORKER * workers)))
    owner = _leaf_of_cells(ground, posts, leaf_of)
    nodes = [_leaf_node(ground, posts[leaf_of == leaf], owner == leaf) for leaf in range(int(leaf_of.max()) + 1)]
    return owner, merge_nodes(nodes, workers)[0]


def _packed(points: NDArray[np.float64], capacity: int) -> NDArray[np.int64]:
    """The leaf each point is in, in an R-tree that the rtree library packs (sort-tile-recursive)."""
    from rtree import index

    stream = ((number, (lon, lat, lon, lat), None) for number, (lon, lat) in enumerate(points.tolist()))
    tree = index.Index(stream, properties=index.Property(leaf_capacity=capacity))
    leaf_of = np.zeros(len(points), np.int64)
    for leaf, (_, rows, _) in enumerate(tree.leaves()):  # type: ignore[no-untyped-call]
        leaf_of[rows] = leaf
    return leaf_of


def _leaf_of_cells(ground: Ground, posts: NDArray[np.intp], leaf_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """The leaf most posts of a cell are in; of a cell without posts that of the nearest cell with some."""
    columns, rows = ground.lines.columns, ground.lines.rows
    cells = ground.post_cells[posts, 1] * columns + ground.post_cells[posts, 0]
    pairs, counts = np.unique(cells << 32 | leaf_of, return_counts=True)
    order = np.lexsort((counts, pairs >> 32))
    last = np.flatnonzero(np.diff(pairs[order] >> 32, append=-1))
    chosen = pairs[order][last]
    places = np.column_stack([(chosen >> 32) % columns, (chosen >> 32) // columns])
    return _nearest(places, chosen & 0xFFFFFFFF, columns, rows)


def _nearest(places: NDArray[np.int64], values: NDArray[np.int64], columns: int, rows: int) -> NDArray[np.int64]:
    """For every cell (row, column) the value of the nearest place (column, row); 0 where there are none."""
    found = np.zeros((rows, columns), np.int64)
    if not len(places):
        return found
    for row in range(rows):
        away = (places[:, 1] - row) ** 2 + (places[:, 0] - np.arange(columns)[:, None]) ** 2
        found[row] = values[np.argmin(away, axis=1)]
    return found


def _touching(ground: Ground, left: int, low: int, right: int, high: int) -> NDArray[np.intp]:
    """The boxes that touch these cells, the last ones included."""
    box = ground.box_cells
    in_columns = (box[:, 0] <= right) & (box[:, 2] >= left)
    return np.flatnonzero(in_columns & (box[:, 1] <= high) & (box[:, 3] >= low))


def _leaf_node(ground: Ground, posts: NDArray[np.intp], is_own: NDArray[np.bool_]) -> Node:
    """A node of any set of cells: what touches its bounding box is a good enough guess of what is asked for there."""
    rows, columns = np.nonzero(is_own)
    if not len(rows):
        return Node(ground, (0, 0, 0, 0), posts, np.zeros(0, np.intp))
    corners = (int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max()))
    cells = (corners[0], corners[1], corners[2] + 1, corners[3] + 1)
    return Node(ground, cells, posts, _touching(ground, *corners))
