"""Give figures and lines the places that the diagrams of the file have for them."""

from collections.abc import Sequence

from verblint.bpmn.model import NodeKind
from verblint.draw.figures import TASK_HEIGHT, DrawnContent, Figure, FlowLine
from verblint.draw.geometry import Box, Spot, crop, enclose, simplify
from verblint.draw.interchange import PlacedEdge, PlacedShape, Plane
from verblint.draw.layout.connect import connect
from verblint.draw.layout.made_layout import place_scope, settle, usual_size

# In pixels: planes of subprocesses stand below one another, each under its heading.
_PLANE_GAP = 90.0
_HEADING_ROOM = 40.0
_ROW_GAP = 50.0


def lay_out_by_diagram(content: DrawnContent, planes: Sequence[Plane]) -> bool:
    """Place everything that the diagrams show, and return False if they leave out most of the model."""
    inside: dict[Figure, int] = {}
    below: float | None = None
    for index, plane in enumerate(planes):
        below = _place_plane(content, plane, below, inside, index)
    _fold(content, inside)
    nodes = [figure for figure in content.figures if figure.is_flow_node and not figure.is_hidden]
    if below is None or sum(figure.box is None for figure in nodes) > len(nodes) / 2:
        _forget(content)
        return False
    _place_missing(content, [figure for figure in nodes if _is_left_out(figure)])
    _finish_lines(content)
    return True


def _place_plane(
    content: DrawnContent, plane: Plane, below: float | None, inside: dict[Figure, int], index: int
) -> float | None:
    """Place one diagram below the one before, and return where it ends."""
    shapes: list[tuple[Figure, PlacedShape, Box]] = []
    roots = set(content.processes)
    for shape in plane.shapes:
        figure = content.find(shape.element)
        if figure is not None and shape.box is not None and figure not in inside and figure not in roots:
            inside[figure] = index
            shapes.append((figure, shape, shape.box))
    edges = [
        (line, edge)
        for edge in plane.edges
        if (line := content.find_line(edge.element)) is not None and not line.points
    ]
    if not shapes:
        return below
    frame = enclose(box for _, _, box in shapes)
    dx = dy = 0.0
    if below is not None:
        dx, dy = -frame.x, below + _PLANE_GAP - frame.y
        owner = content.find(plane.element)
        title = (owner.name or owner.id if owner is not None else "") or plane.name
        content.headings.append((Spot(0, below + _PLANE_GAP - _HEADING_ROOM), title))
    for figure, shape, box in shapes:
        _place_figure(figure, shape, box, dx, dy)
    for line, edge in edges:
        _place_line(line, edge, dx, dy)
    return frame.bottom + dy


def _place_figure(figure: Figure, shape: PlacedShape, box: Box, dx: float, dy: float) -> None:
    figure.box = box.shift(dx, dy)
    figure.label = shape.label.shift(dx, dy) if shape.label is not None else None
    figure.is_horizontal = shape.is_horizontal if shape.is_horizontal is not None else _lies(figure, box)
    # A modeler that does not write the attribute means that the cross is not shown; most tools show it all the same.
    figure.has_cross = shape.is_marker_visible is not False
    if figure.kind == "participant":
        figure.is_expanded = bool(figure.members[0]) and shape.is_expanded is not False
    elif figure.is_scope:
        figure.is_expanded = shape.is_expanded is True
        if shape.is_expanded is None:
            figure.is_expanded = box.width > 1.5 * usual_size(figure)[0] and bool(figure.children)
    elif figure.node is NodeKind.CALL_ACTIVITY:
        # Some modelers show the called process inside, as shapes of its own.
        figure.is_expanded = shape.is_expanded is True and box.width > 1.5 * usual_size(figure)[0]


def _lies(figure: Figure, box: Box) -> bool:
    return figure.kind not in ("participant", "lane") or box.width >= box.height or figure.kind == "lane"


def _place_line(line: FlowLine, edge: PlacedEdge, dx: float, dy: float) -> None:
    line.points = [Spot(spot.x + dx, spot.y + dy) for spot in edge.points]
    line.label = edge.label.shift(dx, dy) if edge.label is not None else None
    line.message = edge.message if line.kind == "messageFlow" else ""


def _fold(content: DrawnContent, inside: dict[Figure, int]) -> None:
    """Hide what is in collapsed subprocesses, unless a diagram of its own shows it."""
    for figure in content.figures:
        scope = figure.parent
        if scope is None or not scope.is_scope:
            continue
        is_closed = scope.is_hidden or (scope.box is not None and not scope.is_expanded)
        if is_closed and (figure not in inside or inside[figure] == inside.get(scope, inside[figure])):
            figure.is_hidden, figure.box = True, None


def _is_left_out(figure: Figure) -> bool:
    """Return whether a figure has no place, and is not inside of another one that has none."""
    scope = figure.parent
    return figure.box is None and (scope is None or not scope.is_scope or scope.box is not None)


def _forget(content: DrawnContent) -> None:
    content.headings.clear()
    for figure in content.figures:
        figure.box = figure.label = None
        figure.is_expanded = figure.is_hidden = False
        figure.is_horizontal = figure.has_cross = True
    for line in content.lines:
        line.points, line.label, line.message = [], None, ""


def _place_missing(content: DrawnContent, missing: list[Figure]) -> None:
    """Place figures that no diagram shows: boundary events at their activity, all others in a row below."""
    frame = enclose(figure.box for figure in content.figures if figure.box is not None)
    at = Spot(frame.x, frame.bottom + _ROW_GAP)
    counts: dict[Figure, int] = {}
    for figure in missing:
        width, height = place_scope(figure) if figure.is_scope and figure.children else usual_size(figure)
        host = content.find(figure.host) if figure.is_boundary else None
        if host is not None and host.box is not None:
            number = counts[host] = counts.get(host, 0) + 1
            x = host.box.right - number * (width + 4)
            figure.box = Box(x, host.box.bottom - height / 2, width, height)
            continue
        figure.box = Box(at.x, at.y + max(TASK_HEIGHT - height, 0) / 2, width, height)
        settle(figure)
        at = Spot(at.x + width + _ROW_GAP, at.y)
        if at.x > frame.right + 10 * _ROW_GAP:
            lowest = max(other.box.bottom for other in missing if other.box is not None)
            at = Spot(frame.x, lowest + _ROW_GAP)


def _finish_lines(content: DrawnContent) -> None:
    """Let lines end at the borders of their figures, and connect figures whose line has no waypoints."""
    for line in content.lines:
        source, target = content.find(line.source), content.find(line.target)
        first = source.box if source is not None else None
        last = target.box if target is not None else None
        if len(line.points) < 2:
            line.points = []
            if source is not None and target is not None and first is not None and last is not None:
                line.points = connect(source, first, target, last)
            continue
        if source is not None and first is not None:
            line.points = crop(line.points, first, source.form)
        if target is not None and last is not None:
            line.points = crop(line.points[::-1], last, target.form)[::-1]
        line.points = simplify(line.points)
        if len(line.points) < 2:
            line.points = []
