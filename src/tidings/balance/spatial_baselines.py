"""Spatial partitioning that ignores terms: a uniform grid, a kd-tree, an R-tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidings.balance.kdt_tree import GridWorkload, KdtNode
from tidings.balance.leaf_assignment import merge_nodes
from tidings.extras import import_extra

GRID_CELLS = 64  # along each side of the extent, as in the paper
LEAVES_PER_MATCHER = 16  # of the R-tree

# (the area of each cell by row and column, the matcher of each area)
CellOwners = tuple[NDArray[np.int64], NDArray[np.int64]]


def split_kd_tree(root: KdtNode, matchers: int) -> list[tuple[KdtNode, int]]:
    """Return one leaf per matcher, with nearly equal numbers of posts."""
    return [(node, matcher) for matcher, node in enumerate(root.split_by_space(matchers))]


def assign_grid(grid: GridWorkload, matchers: int) -> CellOwners:
    """Make every cell an area. Cells with posts are merged like nodes; an empty cell joins the nearest of them."""
    columns, rows = grid.lines.columns, grid.lines.rows
    posts = grid.workload.located
    cell = grid.post_cells[posts, 1] * columns + grid.post_cells[posts, 0]
    used = np.unique(cell)
    coordinates = np.column_stack([used % columns, used // columns])
    nodes = [
        KdtNode(grid, (c, r, c + 1, r + 1), posts[cell == number], _find_touching(grid, c, r, c, r))
        for (c, r), number in zip(coordinates.tolist(), used.tolist(), strict=True)
    ]
    chosen = merge_nodes(nodes, matchers)[0] if nodes else np.zeros(0, np.int64)
    owners = _spread_to_nearest(coordinates, chosen, columns, rows)
    return np.arange(rows * columns).reshape(rows, columns), owners.ravel()


def assign_rtree(grid: GridWorkload, matchers: int) -> CellOwners:
    """Merge the leaves of a packed R-tree over the posts like nodes; a cell belongs to the leaf of its posts."""
    posts = grid.workload.located
    if not len(posts):
        return np.zeros((grid.lines.rows, grid.lines.columns), np.int64), np.zeros(1, np.int64)
    leaf_of = _pack_rtree(grid.workload.positions[posts], max(4, len(posts) // (LEAVES_PER_MATCHER * matchers)))
    owner = _assign_cells_to_leaves(grid, posts, leaf_of)
    nodes = [_build_leaf_node(grid, posts[leaf_of == leaf], owner == leaf) for leaf in range(int(leaf_of.max()) + 1)]
    return owner, merge_nodes(nodes, matchers)[0]


def _pack_rtree(points: NDArray[np.float64], capacity: int) -> NDArray[np.int64]:
    """Return the leaf of each point in an R-tree that the rtree library packs (sort-tile-recursive)."""
    index = import_extra("rtree.index")
    stream = ((number, (lon, lat, lon, lat), None) for number, (lon, lat) in enumerate(points.tolist()))
    tree = index.Index(stream, properties=index.Property(leaf_capacity=capacity))
    leaf_of = np.zeros(len(points), np.int64)
    for leaf, (_, rows, _) in enumerate(tree.leaves()):
        leaf_of[rows] = leaf
    return leaf_of


def _assign_cells_to_leaves(
    grid: GridWorkload, posts: NDArray[np.intp], leaf_of: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each cell the leaf of most of its posts; for an empty cell that of the nearest cell with posts."""
    columns, rows = grid.lines.columns, grid.lines.rows
    cells = grid.post_cells[posts, 1] * columns + grid.post_cells[posts, 0]
    pairs, counts = np.unique(cells << 32 | leaf_of, return_counts=True)
    order = np.lexsort((counts, pairs >> 32))
    last = np.flatnonzero(np.diff(pairs[order] >> 32, append=-1))
    chosen = pairs[order][last]
    coordinates = np.column_stack([(chosen >> 32) % columns, (chosen >> 32) // columns])
    return _spread_to_nearest(coordinates, chosen & 0xFFFFFFFF, columns, rows)


def _spread_to_nearest(
    coordinates: NDArray[np.int64], values: NDArray[np.int64], columns: int, rows: int
) -> NDArray[np.int64]:
    """Return for every cell (row, column) the value of the nearest coordinates (column, row), or 0 without any."""
    cells = np.zeros((rows, columns), np.int64)
    if not len(coordinates):
        return cells
    for row in range(rows):
        distance = (coordinates[:, 1] - row) ** 2 + (coordinates[:, 0] - np.arange(columns)[:, None]) ** 2
        cells[row] = values[np.argmin(distance, axis=1)]
    return cells


def _find_touching(grid: GridWorkload, left: int, low: int, right: int, high: int) -> NDArray[np.intp]:
    """Return the conjunctions whose box touches these cells, from the first to the last inclusive."""
    box = grid.box_cells
    in_columns = (box[:, 0] <= right) & (box[:, 2] >= left)
    return np.flatnonzero(in_columns & (box[:, 1] <= high) & (box[:, 3] >= low))


def _build_leaf_node(grid: GridWorkload, posts: NDArray[np.intp], is_member: NDArray[np.bool_]) -> KdtNode:
    """Build a node from any set of cells. Its conjunctions are estimated by its bounding box."""
    rows, columns = np.nonzero(is_member)
    if not len(rows):
        return KdtNode(grid, (0, 0, 0, 0), posts, np.zeros(0, np.intp))
    corners = (int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max()))
    cells = (corners[0], corners[1], corners[2] + 1, corners[3] + 1)
    return KdtNode(grid, cells, posts, _find_touching(grid, *corners))
