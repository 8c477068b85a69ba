"""Circles and polygons at borders, poles and the antimeridian; the contains_compiled test agrees; invalid regions."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely import Point
from shapely.geometry import MultiPolygon, Polygon

from tidings.config import MAX_REGION_CORNERS
from tidings.errors import QueryError
from tidings.matching.explain import explain
from tidings.query.dnf import Circle, Conjunction, Has, Polygons, Rectangle, Region
from tidings.query.geo.column import parse_region
from tidings.query.geo.containment import distance_km, region_contains
from tidings.query.geo.geometry import bounding_areas, bounding_boxes, contains, encode_region
from tidings.query.geo.polygon import make_polygons, polygons_from_numbers
from tidings.query.geo.region import make_rectangle
from tidings.query.parse import parse

SQUARE = ((0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0), (0.0, 0.0))
TOUCHES_POLE = Polygons(((((0.0, 80.0), (10.0, 80.0), (5.0, 90.0), (0.0, 80.0)),),))
HOLE = ((2.0, 2.0), (2.0, 4.0), (4.0, 4.0), (4.0, 2.0), (2.0, 2.0))
TRIANGLE = ((-180.0, -90.0), (180.0, -90.0), (0.0, 90.0), (-180.0, -90.0))
FIJI = (
    ((177.0, -19.0), (180.0, -19.0), (180.0, -16.0), (177.0, -16.0), (177.0, -19.0)),
    ((-180.0, -19.0), (-178.0, -19.0), (-178.0, -16.0), (-180.0, -16.0), (-180.0, -19.0)),
)

lons = st.one_of(st.sampled_from([-180.0, -179.9, -1.0, 0.0, 2.0, 3.0, 10.0, 179.9, 180.0]), st.floats(-180, 180))
lats = st.one_of(st.sampled_from([-90.0, -89.9, -1.0, 0.0, 2.0, 3.0, 10.0, 89.9, 90.0]), st.floats(-90, 90))
radii = st.one_of(st.sampled_from([1e-9, 0.1, 111.2, 5000.0, 10_007.6, 20_015.0]), st.floats(1e-6, 20_015))
circles = st.builds(Circle, lats, lons, radii)
rectangles = st.builds(
    lambda west, east, sides: make_rectangle(west, sides[0], east, sides[1]),
    lons,
    lons,
    st.tuples(lats, lats).map(sorted),
)


@st.composite
def stars(draw: st.DrawFn) -> Polygons:
    """Polygons with corners around one or two centers: valid, often not convex."""
    rings = []
    for center in draw(st.lists(st.tuples(st.integers(-150, 150), st.integers(-70, 70)), min_size=1, max_size=2)):
        reach = draw(st.lists(st.integers(1, 20), min_size=3, max_size=9))
        turns = [2 * math.pi * number / len(reach) for number in range(len(reach))]
        ring = [(center[0] + r * math.cos(t), center[1] + r * math.sin(t)) for r, t in zip(reach, turns, strict=True)]
        rings.append(((*ring, ring[0]),))
    return make_polygons(rings)


def contains_compiled(region: Region, lat: float, lon: float) -> bool:
    return bool(contains(np.array(encode_region(region)).ravel(), 0, lon, lat))


@settings(max_examples=300, deadline=None)
@given(circles, lats, lons)
def test_a_circle_contains_points_by_their_distance(circle, lat, lon):
    distance = distance_km(circle.lat, circle.lon, lat, lon)
    assert contains_compiled(circle, lat, lon) == region_contains(circle, lat, lon)
    if abs(distance - circle.radius_km) > 0.02:  # asin is rough at the other end of the Earth
        assert region_contains(circle, lat, lon) == (distance < circle.radius_km)


def test_distance_from_london_to_paris():
    london_paris = distance_km(51.5074, -0.1278, 48.8566, 2.3522)
    assert london_paris == pytest.approx(343.6, abs=0.2)
    assert region_contains(Circle(51.5074, -0.1278, 344), 48.8566, 2.3522)
    assert not region_contains(Circle(51.5074, -0.1278, 343), 48.8566, 2.3522)


@pytest.mark.parametrize(
    ("circle", "lat", "lon", "is_in"),
    [
        (Circle(0, 0, math.pi / 180 * 6371.0088), 1.0, 0.0, True),  # on the border
        (Circle(0, 0, math.pi / 180 * 6371.0088), 0.0, -1.0, True),
        (Circle(0, 179.9, 30), 0.0, -179.95, True),  # across the antimeridian
        (Circle(0, 180, 1), 0.0, -180.0, True),
        (Circle(0, -180, 30), 0.0, 179.8, True),
        (Circle(90, 0, 100), 89.5, 123.0, True),  # around a pole
        (Circle(89.9, 0, 30), 89.9, 180.0, True),
        (Circle(-89.9, 0, 20), -89.9, 180.0, False),
        (Circle(12, 34, 20_016), -12.0, -146.0, True),  # everywhere
        (Circle(60, 0, 100), 60.0, 1.79, True),  # a degree of longitude is short at this latitude
        (Circle(60, 0, 100), 60.7, 1.5, False),  # in the bounding box, not in the circle
        (Circle(80, 0, math.pi / 18 * 6371.0088), 90.0, 120.0, True),  # the pole is on the border
        (Circle(-80, 0, 1110), -90.0, 0.0, False),
        (Circle(90, 77, 1), 90.0, -120.0, True),
    ],
)
def test_circles_at_borders_poles_and_the_antimeridian(circle, lat, lon, is_in):
    assert region_contains(circle, lat, lon) == contains_compiled(circle, lat, lon) == is_in


@pytest.mark.parametrize(
    ("rectangle", "lat", "lon", "is_in"),
    [
        (Rectangle(0, 80, 10, 90), 90.0, 120.0, True),
        (Rectangle(0, 80, 10, 90), 89.9, 120.0, False),
        (Rectangle(0, 80, 10, 90), -90.0, 5.0, False),
        (Rectangle(0, -90, 10, -80), -90.0, -120.0, True),
        (Rectangle(0, 90, 0, 90), 90.0, -180.0, True),
        (Rectangle(0, 80, 10, 89.9), 89.9, 120.0, False),
        (Rectangle(170, -20, -170, 20), 0.0, 180.0, True),
        (Rectangle(170, -20, -170, 20), 0.0, -180.0, True),
        (Rectangle(170, -20, -170, 20), 20.0, -170.0, True),
        (Rectangle(170, -20, -170, 20), 0.0, 169.9, False),
        (Rectangle(170, -20, -170, 20), 0.0, 0.0, False),
        (Rectangle(170, -20, -170, 20), 20.1, 175.0, False),
        (Rectangle(180, -90, -180, 20), -90.0, 0.0, True),
    ],
)
def test_rectangles_at_poles_and_across_the_antimeridian(rectangle, lat, lon, is_in):
    assert region_contains(rectangle, lat, lon) == contains_compiled(rectangle, lat, lon) == is_in


@settings(max_examples=500, deadline=None)
@given(st.one_of(rectangles, circles, stars(), st.just(TOUCHES_POLE)), lats, lons)
def test_the_compiled_test_agrees_with_the_reference(region, lat, lon):
    assert contains_compiled(region, lat, lon) == region_contains(region, lat, lon)


@settings(max_examples=300, deadline=None)
@given(st.one_of(rectangles, circles, stars(), st.just(TOUCHES_POLE)), st.sampled_from([-90.0, 90.0]), lons, lons)
def test_a_pole_is_one_point(region, pole, lon, other_lon):
    assert region_contains(region, pole, lon) == region_contains(region, pole, other_lon)


@settings(max_examples=300, deadline=None)
@given(rectangles, lats, lons)
def test_a_rectangle_across_the_antimeridian_is_its_two_sides(rectangle, lat, lon):
    west, south, east, north = rectangle.west, rectangle.south, rectangle.east, rectangle.north
    sides = [(west, east)] if west <= east else [(west, 180.0), (-180.0, east)]
    expected = any(region_contains(Rectangle(left, south, right, north), lat, lon) for left, right in sides)
    assert region_contains(rectangle, lat, lon) == expected


@pytest.mark.parametrize("lon", [-180.0, 0.0, 50.0, 180.0])
def test_explain_finds_the_pole_at_every_longitude(lon):
    assert explain("storm within:0,80,10,90", None, "storm", 90.0, lon).is_match
    assert explain("storm within:170,-90,-170,0", None, "storm", -90.0, lon).is_match
    assert not explain("storm within:0,80,10,90", None, "storm", -90.0, lon).is_match
    across = explain("storm within:170,-20,-170,0", None, "storm", -10.0, 180.0)
    assert across.is_match
    assert "within:170,-20,-170,0" in str(across.to_dict())


@settings(max_examples=300, deadline=None)
@given(st.one_of(rectangles, circles, stars(), st.just(TOUCHES_POLE)), lats, lons)
def test_the_bounding_boxes_cover_a_region(region, lat, lon):
    rows = np.array(encode_region(region))
    boxes, which = bounding_boxes(rows, np.array([0]))
    assert (which == 0).all()
    in_boxes = any(west <= lon <= east and south <= lat <= north for west, south, east, north in boxes.tolist())
    assert in_boxes or not region_contains(region, lat, lon)
    assert bounding_areas(rows)[0] == pytest.approx(sum((e - w) * (n - s) for w, s, e, n in boxes.tolist()))


@settings(max_examples=300, deadline=None)
@given(stars(), lats, lons)
def test_polygons_contain_the_same_points_as_in_shapely(region, lat, lon):
    whole = [Polygon(polygon[0], polygon[1:]) for polygon in region.polygons]
    assert contains_compiled(region, lat, lon) == region_contains(region, lat, lon)
    if min(polygon.boundary.distance(Point(lon, lat)) for polygon in whole) > 1e-6:
        assert region_contains(region, lat, lon) == any(polygon.covers(Point(lon, lat)) for polygon in whole)


@pytest.mark.parametrize("corner", SQUARE)
def test_polygons_include_their_corners_and_borders(corner):
    region = make_polygons([(SQUARE, HOLE)])
    points = [corner, (5.0, 0.0), (10.0, 3.3), (2.0, 3.0), (3.0, 4.0), (4.0, 4.0), (1.0, 3.0), (10.00000001, 5.0)]
    assert all(region_contains(region, lat, lon) and contains_compiled(region, lat, lon) for lon, lat in points)
    outside = [(3.0, 3.0), (2.0000001, 3.0), (10.0000001, 5.0), (-0.0000001, 0.0), (math.nan, 3.0)]
    assert not any(region_contains(region, lat, lon) or contains_compiled(region, lat, lon) for lon, lat in outside)


def test_the_largest_polygon_does_not_overflow():
    world = make_polygons([(TRIANGLE,)])
    for lon, lat, is_in in [
        (0, 90, True),
        (180, -90, True),
        (180, 90, True),
        (180, 89.9, False),
        (-180, 89.9, False),
        (179.9999999, -90, True),
    ]:
        assert region_contains(world, lat, lon) == contains_compiled(world, lat, lon) == is_in


def test_a_multipolygon_spans_the_antimeridian():
    fiji = make_polygons([(ring,) for ring in FIJI])
    assert all(
        region_contains(fiji, -17.0, lon) and contains_compiled(fiji, -17.0, lon)
        for lon in (178.0, 180.0, -180.0, -178.5)
    )
    assert not contains_compiled(fiji, -17.0, -170.0)
    assert not contains_compiled(fiji, -17.0, 0.0)


def test_near_is_a_literal():
    circle = Circle(51.5, -0.13, 10.0)
    assert parse("cat near:51.5,-0.13,10").conjunctions == (Conjunction(frozenset({Has("cat"), circle})),)
    assert parse("NEAR:51.5,-0.13,10").conjunctions == (Conjunction(frozenset({circle})),)
    assert parse("within:near:51.5,-0.13,1e1").conjunctions == (Conjunction(frozenset({circle})),)
    assert circle in parse("cat -near:51.5,-0.13,10").conjunctions[0].forbidden
    explanation = explain("cat near:51.5,-0.13,10", post_text="cats", lat=51.5, lon=-0.1).render()
    assert "near:51.5,-0.13,10: latitude 51.5, longitude -0.1" in explanation


def test_explain_shows_the_number_of_corners():
    explanation = explain("cat", make_polygons([(SQUARE, HOLE)]), "cats", lat=5, lon=5)
    assert explanation.is_match
    assert "cat within:(a polygon of 8 corners)" in explanation.render()


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("near:1,2", "three numbers"),
        ("near:1,2,3,4", "three numbers"),
        ("near:", "three numbers"),
        ("near:1,b,3", "not a number"),
        ("near:91,0,1", "latitude must be between"),
        ("near:0,181,1", "longitude must be between"),
        ("near:0,0,0", "greater than 0"),
        ("near:0,0,-1", "greater than 0"),
        ("near:0,0,20017", "at most 20,016"),
        ("near:0,0,1e999", "finite"),
        ("near:London", "Place names are not supported"),
    ],
)
def test_an_invalid_circle_is_reported_at_its_position(word, words):
    with pytest.raises(QueryError) as caught:
        parse(f"cat {word}")
    assert (caught.value.position, words in caught.value.reason) == (4, True), caught.value


@pytest.mark.parametrize(
    ("rings", "words"),
    [
        ([], "no ring"),
        ([SQUARE[:3]], "at least four"),
        ([SQUARE[:-1]], "not closed"),
        ([((0, 0), (181, 0), (5, 5), (0, 0))], "leaves the globe at position 2"),
        ([((0, 0), (math.nan, 0), (5, 5), (0, 0))], "leaves the globe at position 2"),
        ([((0, 0), (10, 10), (10, 0), (0, 10), (0, 0))], "self-intersection near longitude and latitude 5 5"),
        ([SQUARE, ((20, 20), (21, 20), (21, 21), (20, 20))], "hole lies outside"),
        ([tuple((number / 100, number % 2) for number in range(MAX_REGION_CORNERS + 2))], "at most 10,000 are allowed"),
    ],
)
def test_an_invalid_polygon_is_reported_with_a_remedy(rings, words):
    with pytest.raises(QueryError) as caught:
        parse("cat", Polygons((tuple(rings),)))
    assert words in caught.value.reason
    assert caught.value.reason.count(". ") == 1
    assert caught.value.reason.endswith(".")


def test_geojson_is_read_as_object_as_text_and_with_heights():
    shape = {"type": "Polygon", "coordinates": [[[lon, lat, 7] for lon, lat in SQUARE], [list(p) for p in HOLE]]}
    expected = make_polygons([(SQUARE, HOLE)])
    for written in (shape, json.dumps(shape), {"type": "Feature", "geometry": shape, "properties": None}):
        assert polygons_from_numbers(parse_region(written)) == expected
    fiji = {"type": "MultiPolygon", "coordinates": [[[list(p) for p in ring]] for ring in FIJI]}
    assert polygons_from_numbers(parse_region(fiji)) == make_polygons([(ring,) for ring in FIJI])
    assert parse_region(parse_region(fiji)) == parse_region(fiji)


@pytest.mark.parametrize(
    "written",
    [
        {"type": "Point", "coordinates": [1, 2]},
        {"type": "Polygon"},
        {"type": "Polygon", "coordinates": [1, 2]},
        {"type": "Polygon", "coordinates": [[[1, "2"]]]},
        {"type": "Polygon", "coordinates": [[[True, 2]]]},
        {"type": 7},
        '{"type": "Polygon", "coordinates": ',
        "{}",
    ],
)
def test_other_geojson_is_invalid(written):
    with pytest.raises(ValueError, match="the region must be four numbers"):
        parse_region(written)


@pytest.mark.parametrize(
    "numbers", [[1.0] * 11, [1.0, 1, 4, 0, 0, 1, 0, 1, 1], [1.0, 1.0, -3.0, *range(9)], [1e300] * 12]
)
def test_numbers_that_do_not_encode_polygons_are_invalid(numbers):
    with pytest.raises(QueryError):
        polygons_from_numbers(numbers)


def test_region_objects_are_validated():
    for invalid in (Circle(100, 0, 1), Rectangle(0, 5, 1, 4), Polygons(())):
        with pytest.raises(QueryError):
            parse("cat", invalid)
    assert MultiPolygon([Polygon(ring) for ring in FIJI]).is_valid
