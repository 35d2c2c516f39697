"""The SVG of lines: flows, messages and associations with their tips, markers and names."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from verblint.draw.figures import Figure, FlowLine
from verblint.draw.geometry import Box, Spot, ahead, distance, number, rounded_path
from verblint.draw.icons import LETTER, SENT_LETTER
from verblint.draw.node_svg import LABEL_SIZE, label_lines, place_icon, text_svg
from verblint.draw.wrap import LINE, text_width, wrap

# In pixels: the name of a flow has the room between two columns, and is cut before it reaches the next row.
_FLOW_LABEL_WIDTH = 110.0
_MOST_LINES = 4
_ASSOCIATIONS = ("association", "dataInputAssociation", "dataOutputAssociation")


def edge_classes(line: FlowLine) -> str:
    """Return the class names of a line's kind."""
    if line.kind == "sequenceFlow":
        return "edge sequence-flow" + " default" * line.is_default + " conditional" * line.is_conditional
    if line.kind == "messageFlow":
        return "edge message-flow"
    return "edge association" if line.kind in _ASSOCIATIONS else "edge"


def edge_svg(line: FlowLine, source: Figure | None) -> Iterator[str]:
    """Yield the parts of a line along its points; there are at least two."""
    points = line.points
    yield f'<path class="flow" d="{rounded_path(points)}"/>'
    if line.kind == "sequenceFlow":
        yield _triangle(points[-2], points[-1], "tip", 10, 4)
        if line.is_default:
            yield _slash(points[line.marked_part :])
        elif line.is_conditional and (source is None or source.form == "rectangle"):
            yield _diamond(points)
    elif line.kind == "messageFlow":
        yield _triangle(points[-2], points[-1], "open-tip", 11, 5.5)
        yield f'<circle class="open-tip" cx="{number(points[0].x)}" cy="{number(points[0].y)}" r="4"/>'
        if line.message:
            middle, _ = _middle(points)
            yield place_icon(SENT_LETTER if line.message == "non_initiating" else LETTER, middle)
    elif line.kind in _ASSOCIATIONS:
        if line.direction in ("One", "Both") or line.kind != "association":
            yield _angle(points[-2], points[-1])
        if line.direction == "Both":
            yield _angle(points[1], points[0])


def edge_label(line: FlowLine) -> str:
    """Return the name of a line, where the diagram has it or at the middle of the longest part."""
    if not line.name.strip():
        return ""
    if line.label is not None:
        lines = label_lines(line.name, line.label)
        return text_svg(lines, Spot(line.label.centre.x, line.label.y), LABEL_SIZE, "small halo")
    box = free_label(line.name, line.points)
    lines = wrap(line.name, _FLOW_LABEL_WIDTH, _MOST_LINES, LABEL_SIZE)
    return text_svg(lines, Spot(box.centre.x, box.y), LABEL_SIZE, "small halo")


def free_label(name: str, points: Sequence[Spot]) -> Box:
    """Return a place for a name: above the longest horizontal part, or to the right of a vertical one."""
    lines = wrap(name, _FLOW_LABEL_WIDTH, _MOST_LINES, LABEL_SIZE)
    width = max((text_width(line, LABEL_SIZE) for line in lines), default=0.0)
    height = len(lines) * LABEL_SIZE * LINE
    middle, is_upright = _middle(points)
    if is_upright:
        return Box(middle.x + 5, middle.y - height / 2, width, height)
    return Box(middle.x - width / 2, middle.y - height - 3, width, height)


def _middle(points: Sequence[Spot]) -> tuple[Spot, bool]:
    """Return the middle of the longest part of a line, and whether that part is more vertical than horizontal."""
    start, end = max(pairwise(points), key=lambda part: distance(*part))
    is_upright = abs(end.y - start.y) > abs(end.x - start.x)
    return Spot((start.x + end.x) / 2, (start.y + end.y) / 2), is_upright


def _triangle(before: Spot, end: Spot, classes: str, length: float, half: float) -> str:
    length = min(length, max(distance(before, end), 1))
    base = ahead(end, before, length)
    across = Spot(-(end.y - base.y) / length * half, (end.x - base.x) / length * half)
    corners = (end, Spot(base.x + across.x, base.y + across.y), Spot(base.x - across.x, base.y - across.y))
    return f'<path class="{classes}" d="M{"L".join(f"{number(c.x)} {number(c.y)}" for c in corners)}Z"/>'


def _angle(before: Spot, end: Spot) -> str:
    base = ahead(end, before, 8)
    across = Spot(-(end.y - base.y) / 2, (end.x - base.x) / 2)
    corners = (Spot(base.x + across.x, base.y + across.y), end, Spot(base.x - across.x, base.y - across.y))
    return f'<path class="line-tip" d="M{"L".join(f"{number(c.x)} {number(c.y)}" for c in corners)}"/>'


def _slash(points: Sequence[Spot]) -> str:
    """Return the mark of a default flow, a short stroke across the beginning."""
    at = ahead(points[0], points[1], 9)
    forward = ahead(Spot(0, 0), Spot(points[1].x - points[0].x, points[1].y - points[0].y), 1)
    dx, dy = 2 * forward.x - 6 * forward.y, 2 * forward.y + 6 * forward.x
    return (
        f'<path class="line-tip" d="M{number(at.x - dx)} {number(at.y - dy)}L{number(at.x + dx)} {number(at.y + dy)}"/>'
    )


def _diamond(points: Sequence[Spot]) -> str:
    """Return the mark of a conditional flow that leaves an activity."""
    start = points[0]
    middle, end = ahead(start, points[1], 8), ahead(start, points[1], 16)
    dx, dy = (middle.y - start.y) / 8 * 4.5, -(middle.x - start.x) / 8 * 4.5
    corners = (start, Spot(middle.x + dx, middle.y + dy), end, Spot(middle.x - dx, middle.y - dy))
    return f'<path class="open-tip" d="M{"L".join(f"{number(c.x)} {number(c.y)}" for c in corners)}Z"/>'
