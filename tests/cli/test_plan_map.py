"""The map of a spatial plan is valid SVG with all matchers and correct coastlines."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from tests.contract.test_spatial_partitioners import fit_towns

from tidings.balance.spatial_registry import SPATIAL_PARTITIONERS
from tidings.cli.plan_map import MatcherStats, draw_plan
from tidings.cli.world_map import WORLD, MapProjection, coasts


def test_coastlines_separate_land_from_sea():
    from shapely import Point, Polygon

    rings = [Polygon(ring).buffer(0) for ring in coasts()]
    for lon, lat, is_land in [
        (2.35, 48.86, True),
        (-100, 40, True),
        (134, -25, True),
        (-30, 30, False),
        (-150, 0, False),
    ]:
        assert (sum(ring.contains(Point(lon, lat)) for ring in rings) % 2 == 1) == is_land


def test_projection_maps_the_corners():
    projection = MapProjection(WORLD, 360.0, 10.0, 20.0)
    assert (projection.x(-180), projection.y(90)) == (10.0, 20.0)
    assert (projection.x(180), projection.y(-90)) == pytest.approx((370.0, 20.0 + projection.height))


@pytest.mark.parametrize("name", SPATIAL_PARTITIONERS)
def test_map_of_every_spatial_plan_has_all_matchers(name):
    plan = fit_towns(name, 4)
    stats = [MatcherStats(10 * n, n, float(n)) for n in range(4)]
    drawn = draw_plan(plan, stats, np.arange(len(plan.area_of_cell), dtype=np.float64))
    root = ET.fromstring(drawn)
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0].startswith(f"{name}: 4 matchers")
    assert all(f"{10 * n} posts, {n} subs" in texts for n in range(4))
    assert "nan" not in drawn
    assert ET.fromstring(draw_plan(plan)) is not None, "without loads"
