"""Points, boxes and polylines of a picture."""

from collections.abc import Iterable, Sequence
from math import hypot
from typing import NamedTuple

_ROUND = 5.0  # radius of the corners of a line
_CLOSE = 1.0  # a waypoint this near to a border is on it


class Spot(NamedTuple):
    """A point; y grows downwards."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle by its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of the right border."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of the lower border."""
        return self.y + self.height

    @property
    def centre(self) -> Spot:
        """The middle."""
        return Spot(self.x + self.width / 2, self.y + self.height / 2)

    def shift(self, dx: float, dy: float) -> "Box":
        """Return the box moved by a distance."""
        return Box(self.x + dx, self.y + dy, self.width, self.height)

    def grow(self, by: float) -> "Box":
        """Return the box with every border moved outwards."""
        return Box(self.x - by, self.y - by, self.width + 2 * by, self.height + 2 * by)

    def holds(self, spot: Spot) -> bool:
        """Return whether a point is inside or on the border."""
        return self.x <= spot.x <= self.right and self.y <= spot.y <= self.bottom


def enclose(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around all boxes; of none, a box without size."""
    known = list(boxes)
    if not known:
        return Box(0, 0, 0, 0)
    x, y = min(box.x for box in known), min(box.y for box in known)
    return Box(x, y, max(box.right for box in known) - x, max(box.bottom for box in known) - y)


def number(value: float) -> str:
    """Write a coordinate with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def border_spot(box: Box, form: str, toward: Spot) -> Spot:
    """Return where the ray from the centre of a shape to a point leaves the shape.

    The form is "circle", "diamond" or anything else for a rectangle.
    """
    centre = box.centre
    dx, dy = toward.x - centre.x, toward.y - centre.y
    half_width, half_height = box.width / 2, box.height / 2
    across, along = abs(dx) / half_width, abs(dy) / half_height
    if across == along == 0:
        return Spot(box.right, centre.y)
    if form == "circle":
        reach = hypot(across, along)
    elif form == "diamond":
        reach = across + along
    else:
        reach = max(across, along)
    return Spot(round(centre.x + dx / reach, 3), round(centre.y + dy / reach, 3))


def is_within(box: Box, form: str, spot: Spot) -> bool:
    """Return whether a point is inside a shape and not on its border."""
    centre = box.centre
    across, along = abs(spot.x - centre.x) / (box.width / 2), abs(spot.y - centre.y) / (box.height / 2)
    slack = 1 - 2 * _CLOSE / max(min(box.width, box.height), 4 * _CLOSE)
    if form == "circle":
        return hypot(across, along) < slack
    return (across + along if form == "diamond" else max(across, along)) < slack


def crop(points: Sequence[Spot], box: Box, form: str) -> list[Spot]:
    """Return a line without the part at its beginning that is inside a shape."""
    inside = 0
    while inside < len(points) and is_within(box, form, points[inside]):
        inside += 1
    if inside == 0 or inside == len(points):
        return list(points)
    return [_border_between(box, form, points[inside - 1], points[inside]), *points[inside:]]


def _border_between(box: Box, form: str, inner: Spot, outer: Spot) -> Spot:
    """Return a point of the border between a point inside and one outside, by halving."""
    for _ in range(24):
        middle = Spot((inner.x + outer.x) / 2, (inner.y + outer.y) / 2)
        centre = box.centre
        across, along = abs(middle.x - centre.x) / (box.width / 2), abs(middle.y - centre.y) / (box.height / 2)
        reach = {"circle": hypot(across, along), "diamond": across + along}.get(form, max(across, along))
        inner, outer = (middle, outer) if reach < 1 else (inner, middle)
    return Spot(round(outer.x, 3), round(outer.y, 3))


def simplify(points: Iterable[Spot]) -> list[Spot]:
    """Return a line without repeated points and without points in the middle of a straight part."""
    kept: list[Spot] = []
    for spot in points:
        if kept and abs(spot.x - kept[-1].x) < 0.01 and abs(spot.y - kept[-1].y) < 0.01:
            continue
        if len(kept) > 1 and _is_straight(kept[-2], kept[-1], spot):
            kept.pop()
        kept.append(spot)
    return kept


def _is_straight(first: Spot, middle: Spot, last: Spot) -> bool:
    turn = (middle.x - first.x) * (last.y - middle.y) - (middle.y - first.y) * (last.x - middle.x)
    ahead = (middle.x - first.x) * (last.x - middle.x) + (middle.y - first.y) * (last.y - middle.y)
    return abs(turn) < 0.01 and ahead > 0


def distance(one: Spot, other: Spot) -> float:
    """Return the distance of two points."""
    return hypot(other.x - one.x, other.y - one.y)


def ahead(start: Spot, end: Spot, by: float) -> Spot:
    """Return the point at a distance from the start in the direction of the end."""
    length = distance(start, end) or 1.0
    return Spot(start.x + (end.x - start.x) * by / length, start.y + (end.y - start.y) * by / length)


def rounded_path(points: Sequence[Spot]) -> str:
    """Return the path data of a line with rounded corners."""
    parts = [f"M{number(points[0].x)} {number(points[0].y)}"]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        radius = min(_ROUND, distance(before, corner) / 2, distance(corner, after) / 2)
        first, last = ahead(corner, before, radius), ahead(corner, after, radius)
        parts.append(
            f"L{number(first.x)} {number(first.y)}"
            f"Q{number(corner.x)} {number(corner.y)} {number(last.x)} {number(last.y)}"
        )
    parts.append(f"L{number(points[-1].x)} {number(points[-1].y)}")
    return "".join(parts)
