"""The SVG of figures: outlines, signs, markers and names."""

from collections.abc import Iterator
from html import escape

from verblint.bpmn.model import NodeKind
from verblint.draw.figures import EVENT_SIZE, GATEWAY_SIZE, Figure
from verblint.draw.geometry import Box, Spot, number
from verblint.draw.icons import (
    COLLECTION,
    DATA_ICONS,
    GATEWAY_ICONS,
    MARKER_ICONS,
    TASK_ICONS,
    Icon,
    event_icon,
)
from verblint.draw.wrap import LINE, text_width, wrap

NAME_SIZE, LABEL_SIZE = 12.0, 11.0
"""Font sizes: names inside of shapes, and beside them."""

# In pixels, as modelers draw: the width of a name beside a shape, and what a task has room for.
LABEL_WIDTH = 90.0
_MOST_LABEL_LINES = 6
_BAND = 30.0  # where pools and lanes have their names
_MARKER_ROOM = 16.0
_THROWING = (NodeKind.END_EVENT, NodeKind.THROW_EVENT)
_DOUBLE = (NodeKind.CATCH_EVENT, NodeKind.THROW_EVENT, NodeKind.BOUNDARY_EVENT)


def node_svg(figure: Figure, box: Box) -> Iterator[str]:
    """Yield the parts of a figure at its place."""
    if figure.node is None:
        yield from _other(figure, box)
    elif figure.node.is_event:
        yield from _event(figure, box)
    elif figure.node.is_gateway:
        yield from _gateway(figure, box)
    else:
        yield from _activity(figure, box)
    if figure.has_outer_label and figure.name:
        yield from _outer_label(figure, box)


def place_icon(icon: Icon, at: Spot, scale: float = 1.0) -> str:
    """Return a sign around a point."""
    size = "" if scale == 1 else f" scale({number(scale)})"
    parts = "".join(f'<path class="{classes}" d="{data}"/>' for classes, data in icon)
    return f'<g transform="translate({number(at.x)} {number(at.y)}){size}">{parts}</g>' if parts else ""


def text_svg(lines: list[str], at: Spot, size: float, classes: str = "") -> str:
    """Return lines of text, centred at x, the first one below y."""
    if not lines:
        return ""
    named = f' class="{classes}"' if classes else ""
    x, y = number(at.x), at.y + size * 0.95
    if len(lines) == 1:
        return f'<text{named} x="{x}" y="{number(y)}">{escape(lines[0])}</text>'
    spans = "".join(
        f'<tspan x="{x}" y="{number(y + index * size * LINE)}">{escape(line)}</tspan>'
        for index, line in enumerate(lines)
    )
    return f"<text{named}>{spans}</text>"


def _rectangle(box: Box, radius: float, classes: str = "shape") -> str:
    corners = f' rx="{number(min(radius, box.width / 4, box.height / 4))}"' if radius else ""
    size = f'width="{number(box.width)}" height="{number(box.height)}"'
    return f'<rect class="{classes}" x="{number(box.x)}" y="{number(box.y)}" {size}{corners}/>'


def _event(figure: Figure, box: Box) -> Iterator[str]:
    centre = box.centre
    radius = min(box.width, box.height) / 2
    yield _circle(centre, radius, "shape")
    if figure.node in _DOUBLE:
        yield _circle(centre, max(radius - 3.5, 1), "inner")
    icon = event_icon(figure.symbol, is_throwing=figure.node in _THROWING)
    # The inner circle leaves less room; a clock is small enough.
    is_small = figure.node in _DOUBLE and figure.symbol != "timer"
    yield place_icon(icon, centre, radius / (EVENT_SIZE / 2) * (0.88 if is_small else 1))


def _circle(centre: Spot, radius: float, classes: str) -> str:
    return f'<circle class="{classes}" cx="{number(centre.x)}" cy="{number(centre.y)}" r="{number(radius)}"/>'


def _gateway(figure: Figure, box: Box) -> Iterator[str]:
    centre = box.centre
    corners = (
        Spot(centre.x, box.y), Spot(box.right, centre.y), Spot(centre.x, box.bottom), Spot(box.x, centre.y)
    )  # fmt: skip
    points = " ".join(f"{number(corner.x)},{number(corner.y)}" for corner in corners)
    yield f'<polygon class="shape" points="{points}"/>'
    if figure.kind != NodeKind.EXCLUSIVE_GATEWAY or figure.has_cross:
        icon = GATEWAY_ICONS[figure.symbol or figure.kind]
        yield place_icon(icon, centre, min(box.width, box.height) / GATEWAY_SIZE)


def _activity(figure: Figure, box: Box) -> Iterator[str]:
    yield _rectangle(box, 10)
    if figure.node is NodeKind.TRANSACTION:
        yield _rectangle(box.grow(-min(4, box.width / 8, box.height / 8)), 7, "inner")
    icon = TASK_ICONS.get(figure.kind, ())
    if icon:
        yield place_icon(icon, Spot(box.x + 15, box.y + 15))
    markers = [*figure.markers]
    if not figure.is_expanded and (figure.is_scope or figure.node is NodeKind.CALL_ACTIVITY):
        markers.append("collapsed")
    start = box.centre.x - (len(markers) - 1) * 9
    for index, marker in enumerate(markers):
        yield place_icon(MARKER_ICONS[marker], Spot(start + index * 18, box.bottom - 10))
    if figure.is_expanded:
        yield _top_name(figure, box)
    else:
        yield _inner_name(figure.name, box, icon_room=18 if icon else 0, marker_room=_MARKER_ROOM * bool(markers))


def _inner_name(name: str, box: Box, icon_room: float, marker_room: float) -> str:
    """Return the name in the middle of a box, below its sign if there is no room beside it."""
    width, step = max(box.width - 10, 4), NAME_SIZE * LINE
    room = max(box.height - 6 - marker_room, step)
    lines = wrap(name, width, int(room / step), NAME_SIZE)
    height = len(lines) * step
    top = box.y + (box.height - height) / 2
    if marker_room and top + height > box.bottom - marker_room - 2:
        top = max(box.bottom - marker_room - 2 - height, box.y + 2)
    if icon_room and top < box.y + icon_room + 4:
        lowest = box.bottom - marker_room - 2 - height
        top = max(min(box.y + icon_room + 4, lowest), box.y + 2)
    return text_svg(lines, Spot(box.centre.x, top), NAME_SIZE)


def _top_name(figure: Figure, box: Box) -> str:
    lines = wrap(figure.name, max(box.width - 20, 4), 2, NAME_SIZE)
    return text_svg(lines, Spot(box.centre.x, box.y + 7), NAME_SIZE)


def _outer_label(figure: Figure, box: Box) -> Iterator[str]:
    """Yield the name of an event, a gateway or data, beside its shape."""
    if figure.label is None:
        lines = wrap(figure.name, LABEL_WIDTH, _MOST_LABEL_LINES, LABEL_SIZE)
        at = Spot(box.centre.x, box.bottom + 5)
    else:
        lines = label_lines(figure.name, figure.label)
        at = Spot(figure.label.centre.x, figure.label.y)
    yield text_svg(lines, at, LABEL_SIZE, "small halo")


def label_lines(name: str, label: Box) -> list[str]:
    """Return the lines of a name in the box that a modeler gave to it."""
    # Modelers measure with another font: a box for one line must hold that line.
    return wrap(name, max(label.width + 4, LABEL_WIDTH), _MOST_LABEL_LINES, LABEL_SIZE)


def label_size(name: str) -> tuple[float, float]:
    """Return width and height of a name beside its shape."""
    lines = wrap(name, LABEL_WIDTH, _MOST_LABEL_LINES, LABEL_SIZE)
    return max((text_width(line, LABEL_SIZE) for line in lines), default=0.0), len(lines) * LABEL_SIZE * LINE


def _other(figure: Figure, box: Box) -> Iterator[str]:
    """Yield pools, lanes, data, notes, groups and boxes for what is unknown."""
    match figure.kind:
        case "participant" | "lane":
            yield from _band(figure, box)
        case "textAnnotation":
            yield from _note(figure, box)
        case "group":
            yield _rectangle(box, 10)
            yield _top_name(figure, box)
        case "dataStoreReference":
            yield _store(box)
        case "dataObjectReference" | "dataObject" | "dataInput" | "dataOutput":
            yield from _data(figure, box)
        case _:
            yield _rectangle(box, 0)
            yield _inner_name(figure.name or figure.id or figure.kind, box, 0, 0)


def _band(figure: Figure, box: Box) -> Iterator[str]:
    """Yield a pool or lane: its name runs along the left border, or along the upper one of a vertical pool."""
    yield _rectangle(box, 0)
    middle = box.centre
    if figure.kind == "participant" and not figure.is_expanded:
        yield _inner_name(figure.name, box, 0, 0)
        return
    if figure.is_horizontal:
        if figure.kind == "participant":
            yield f'<path class="inner" d="M{number(box.x + _BAND)} {number(box.y)}V{number(box.bottom)}"/>'
        lines = wrap(figure.name, max(box.height - 6, 4), 2, NAME_SIZE)
        at = Spot(middle.x, box.x + (_BAND - len(lines) * NAME_SIZE * LINE) / 2)
        turned = text_svg(lines, Spot(-middle.y, at.y), NAME_SIZE)
        yield f'<g transform="rotate(-90)">{turned}</g>' if turned else ""
        return
    if figure.kind == "participant":
        yield f'<path class="inner" d="M{number(box.x)} {number(box.y + _BAND)}H{number(box.right)}"/>'
    lines = wrap(figure.name, max(box.width - 6, 4), 2, NAME_SIZE)
    yield text_svg(lines, Spot(middle.x, box.y + (_BAND - len(lines) * NAME_SIZE * LINE) / 2), NAME_SIZE)


def _note(figure: Figure, box: Box) -> Iterator[str]:
    x, reach = box.x, min(10.0, box.width)
    bracket = f"M{number(x + reach)} {number(box.y)}H{number(x)}V{number(box.bottom)}h{number(reach)}"
    yield f'<path class="shape" d="{bracket}"/>'
    lines = wrap(figure.name, max(box.width - 10, 4), max(int(box.height / NAME_SIZE / LINE), 1), NAME_SIZE)
    yield text_svg(lines, Spot(x + 6, box.y + 4), NAME_SIZE, "left")


def _store(box: Box) -> str:
    x, y, width, height = box
    dip = height / 7
    lid = f"c0 {number(dip * 1.4)} {number(width)} {number(dip * 1.4)} {number(width)} 0"
    cylinder = (
        f"M{number(x)} {number(y + dip)}c0 {number(-dip * 1.4)} {number(width)} {number(-dip * 1.4)} {number(width)} 0"
        f"V{number(box.bottom - dip)}c0 {number(dip * 1.4)} {number(-width)} {number(dip * 1.4)} {number(-width)} 0Z"
    )
    rings = "".join(f"M{number(x)} {number(y + dip * step)}{lid}" for step in (1, 1.7, 2.4))
    return f'<path class="shape" d="{cylinder}"/><path class="inner" d="{rings}"/>'


def _data(figure: Figure, box: Box) -> Iterator[str]:
    fold = min(10.0, box.width / 3, box.height / 3)
    x, y, right, bottom = (number(value) for value in (box.x, box.y, box.right, box.bottom))
    inner, lower = number(box.right - fold), number(box.y + fold)
    yield f'<path class="shape" d="M{x} {y}H{inner}L{right} {lower}V{bottom}H{x}Z"/>'
    yield f'<path class="inner" d="M{inner} {y}V{lower}H{right}"/>'
    icon = DATA_ICONS.get(figure.kind)
    if icon:
        yield place_icon(icon, Spot(box.x + 11, box.y + 10), 0.6)
    if "collection" in figure.markers:
        yield place_icon(COLLECTION, Spot(box.centre.x, box.bottom - 8))
