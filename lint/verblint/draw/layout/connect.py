"""Connect two figures whose line has no waypoints."""

from verblint.draw.figures import Figure
from verblint.draw.geometry import Box, Spot, border_spot, simplify

_REACH = 20.0  # pixels that a line goes straight before it turns, so that its arrow is seen


def connect(source: Figure, first: Box, target: Figure, last: Box) -> list[Spot]:
    """Return a line between two figures: with right angles where one is beside or below the other, else straight."""
    if source is target:
        return _loop(first)
    if source.is_artifact or target.is_artifact:
        return _straight(source, first, target, last)
    if last.x - first.right >= _REACH:
        middle = (first.right + last.x) / 2
        start, end = Spot(first.right, first.centre.y), Spot(last.x, last.centre.y)
        return simplify([start, Spot(middle, start.y), Spot(middle, end.y), end])
    for upper, lower in ((first, last), (last, first)):
        if lower.y - upper.bottom >= _REACH:
            middle = (upper.bottom + lower.y) / 2
            start, end = Spot(upper.centre.x, upper.bottom), Spot(lower.centre.x, lower.y)
            points = simplify([start, Spot(start.x, middle), Spot(end.x, middle), end])
            return points if upper is first else points[::-1]
    return _straight(source, first, target, last)


def _straight(source: Figure, first: Box, target: Figure, last: Box) -> list[Spot]:
    ends = [border_spot(first, source.form, last.centre), border_spot(last, target.form, first.centre)]
    return ends if ends[0] != ends[1] else []


def _loop(box: Box) -> list[Spot]:
    centre = box.centre
    return [
        Spot(box.right, centre.y),
        Spot(box.right + _REACH, centre.y),
        Spot(box.right + _REACH, box.y - _REACH),
        Spot(centre.x, box.y - _REACH),
        Spot(centre.x, box.y),
    ]
