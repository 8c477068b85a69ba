"""The map of a plan: valid SVG, every matcher in it, on real coasts."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from tests.contract.test_space_partitioners import learned, many

from tidings.balance.spatial_registry import SPACE_PARTITIONERS
from tidings.cli.plan_map import WorkerTold, plan_map
from tidings.cli.world_map import WORLD, Sheet, coasts


def test_the_coasts_have_land_where_there_is_land():
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


def test_a_sheet_has_its_corners_where_they_belong():
    sheet = Sheet(WORLD, 360.0, 10.0, 20.0)
    assert (sheet.x(-180), sheet.y(90)) == (10.0, 20.0)
    assert (sheet.x(180), sheet.y(-90)) == pytest.approx((370.0, 20.0 + sheet.height))


@pytest.mark.parametrize("name", SPACE_PARTITIONERS)
def test_every_plan_has_a_map_with_all_its_matchers(name):
    plan = learned(name, *many(), 4)
    told = [WorkerTold(10 * n, n, float(n)) for n in range(4)]
    drawn = plan_map(plan, told, np.arange(len(plan.area_of_cell), dtype=np.float64))
    root = ET.fromstring(drawn)
    texts = ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0].startswith(f"{name}: 4 matchers")
    assert all(f"{10 * n} posts, {n} subs" in texts for n in range(4))
    assert "nan" not in drawn
    assert ET.fromstring(plan_map(plan)) is not None, "without loads"
