"""Lay out one flow in a grid: columns by the order of the flow, rows by its branches, lines between them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from verblint.bpmn.model import NodeKind
from verblint.draw.figures import Figure, FlowLine
from verblint.draw.geometry import Box, Spot, simplify
from verblint.draw.layout.branch_rows import Rows
from verblint.draw.layout.edge_routes import EdgeRouter, Route, Track
from verblint.draw.layout.layers import Layers
from verblint.draw.node_svg import LABEL_SIZE, label_size
from verblint.draw.wrap import text_width

# In pixels: what keeps shapes apart, and the room that lines and their names have between them.
_COLUMN_GAP, _ROW_GAP, _LANE_GAP = 50.0, 30.0, 30.0
_COLUMN_TRACK, _ROW_TRACK = 12.0, 18.0  # between rows there is room for the name of a line
_LABEL_GAP = 5.0
_WIDEST_FLOW_LABEL = 110.0
_BOUNDARY_STEP, _LABELLED_STEP = 48.0, 76.0
_LEAST_BAND = 90.0
_SHELF = 700.0

Sizes = Callable[[Figure], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Band:
    """The part of the height that a lane has."""

    top: float
    bottom: float


@dataclass(slots=True)
class Area:
    """The room of a flow, and of its lanes."""

    width: float
    height: float
    bands: list[Band] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class _Cell:
    """A figure of the grid with its boundary events, and the room around its middle."""

    figure: Figure
    width: float
    height: float
    boundaries: list[Figure] = field(default_factory=list)
    lane: int = 0
    above: float = 0.0
    below: float = 0.0


@dataclass(slots=True)
class _Flow:
    """A line between two cells; `boundary` is the event it leaves from."""

    line: FlowLine
    source: int
    target: int
    boundary: Figure | None


def lay_out_flow(scope: Figure, size: Sizes) -> Area:
    """Place the children and lines of a scope relative to its upper left corner."""
    cells = _cells(scope, size)
    flows, beside = _flows(scope, cells)
    leaves = list(_leaves(scope.lanes))
    _choose_lanes(cells, leaves, [*((flow.source, flow.target) for flow in flows), *beside.items()])
    linked = {end for flow in flows for end in (flow.source, flow.target)}
    linked |= {node for node, host in beside.items() if host in linked}
    if leaves:
        linked = set(range(len(cells)))
    grid = _Grid([cells[index] for index in sorted(linked)], len(leaves))
    number = {index: at for at, index in enumerate(sorted(linked))}
    for flow in flows:
        flow.source, flow.target = number[flow.source], number[flow.target]
    area = grid.lay_out(flows, {number[a]: number[b] for a, b in beside.items() if a in number and b in number})
    _fill_shelf([cell for index, cell in enumerate(cells) if index not in linked], area)
    return area


def _leaves(lanes: Sequence[Figure]) -> Iterator[Figure]:
    for lane in lanes:
        if lane.lanes:
            yield from _leaves(lane.lanes)
        else:
            yield lane


def _choose_lanes(cells: list[_Cell], lanes: Sequence[Figure], links: list[tuple[int, int]]) -> None:
    """Give cells the lanes that name them, and all others the lane of a neighbour."""
    if not lanes:
        return
    members = {member: index for index, lane in enumerate(lanes) for member in lane.members}
    neighbours: list[list[int]] = [[] for _ in cells]
    for source, target in links:
        neighbours[source].append(target)
        neighbours[target].append(source)
    known = {index: members[cell.figure.id] for index, cell in enumerate(cells) if cell.figure.id in members}
    reached = list(known)
    # The list grows while it is walked.
    for index in reached:
        for other in neighbours[index]:
            if other not in known:
                known[other] = known[index]
                reached.append(other)
    for index, cell in enumerate(cells):
        cell.lane = known.get(index, 0)


def _cells(scope: Figure, size: Sizes) -> list[_Cell]:
    """Return the figures of a scope that are no boundary events, with room for theirs."""
    ids = {figure.id for figure in scope.children if figure.id and not figure.is_boundary}
    attached: dict[str, list[Figure]] = {}
    cells, known = [], set[str]()
    for figure in scope.children:
        if figure.is_boundary and figure.host in ids:
            attached.setdefault(figure.host, []).append(figure)
        else:
            cells.append(_Cell(figure, *size(figure)))
    for cell in cells:
        if cell.figure.id not in known:
            known.add(cell.figure.id)
            cell.boundaries = attached.get(cell.figure.id, [])
        _measure(cell)
    return cells


def _measure(cell: _Cell) -> None:
    figure, count = cell.figure, len(cell.boundaries)
    step = _boundary_step(cell)
    cell.width = max(cell.width, count * step)
    cell.above = cell.below = cell.height / 2
    if count:
        cell.below += 18 + max(label_size(event.name)[1] for event in cell.boundaries)
    if figure.has_outer_label and figure.name:
        room = label_size(figure.name)[1] + _LABEL_GAP
        if figure.form == "diamond":
            cell.above += room
        else:
            cell.below += room


def _boundary_step(cell: _Cell) -> float:
    return _LABELLED_STEP if any(event.name for event in cell.boundaries) else _BOUNDARY_STEP


def _flows(scope: Figure, cells: list[_Cell]) -> tuple[list[_Flow], dict[int, int]]:
    """Return the lines that order the grid, and the artifacts that belong beside a node, by their numbers."""
    owners: dict[str, tuple[int, Figure | None]] = {}
    for index, cell in enumerate(cells):
        if cell.figure.id:
            owners.setdefault(cell.figure.id, (index, None))
        for event in cell.boundaries:
            if event.id:
                owners.setdefault(event.id, (index, event))
    flows: list[_Flow] = []
    beside: dict[int, int] = {}
    for line in scope.lines:
        if line.source not in owners or line.target not in owners:
            continue
        (source, boundary), (target, entered) = owners[line.source], owners[line.target]
        is_note, is_noted = cells[source].figure.is_artifact, cells[target].figure.is_artifact
        if is_note or is_noted:
            if is_note != is_noted:
                beside.setdefault(*((source, target) if is_note else (target, source)))
        elif entered is None and (line.kind == "sequenceFlow" or boundary is not None):
            flows.append(_Flow(line, source, target, boundary))
    return flows, beside


class _Grid:
    """Cells in columns and rows, and the lines between them."""

    def __init__(self, cells: list[_Cell], lane_count: int) -> None:
        self._cells = cells
        self._has_lanes = lane_count > 0
        self._lane_count = max(lane_count, 1)

    def lay_out(self, flows: list[_Flow], beside: dict[int, int]) -> Area:
        """Place all cells and lines, and return the room they take."""
        if not self._cells and not self._has_lanes:
            return Area(0, 0)
        cells = self._cells
        starts = [index for index, cell in enumerate(cells) if cell.figure.node is NodeKind.START_EVENT]
        layers = Layers(len(cells), [(flow.source, flow.target) for flow in flows], starts)
        lower = {index for index, flow in enumerate(flows) if flow.boundary is not None}
        rows = Rows(layers, [cell.lane for cell in cells], self._lane_count, lower)
        rows.place_all([index for index in range(len(cells)) if index not in beside])
        for node, host in beside.items():
            rows.place_beside(node, host)
        heights = [max(count, 1) for count in rows.counts]
        offsets = [0, *accumulate(heights)]
        places = [(layers.columns[index], offsets[cell.lane] + rows.row(index)) for index, cell in enumerate(cells)]
        self._places = places
        corners = {index for index, cell in enumerate(cells) if cell.figure.form == "diamond"}
        router = EdgeRouter(places, corners, {index for index, cell in enumerate(cells) if cell.boundaries})
        routes = self._routes(router, flows, layers.back)
        counts = router.number_tracks()
        self._columns = self._column_spans(flows, counts)
        self._rows = self._row_spans(counts, offsets)
        tops = {flow.source for flow, route in zip(flows, routes, strict=True) if route.leave == "top"}
        tops |= {flow.target for flow, route in zip(flows, routes, strict=True) if route.enter == "top"}
        for index, cell in enumerate(cells):
            self._place(cell, *places[index])
            if index in tops and cell.figure.form == "diamond" and cell.figure.label is not None:
                # The name makes way for the line above.
                cell.figure.label = cell.figure.label.shift(-cell.figure.label.width / 2 - 6, 0)
        for flow, route in zip(flows, routes, strict=True):
            flow.line.points = self._points(flow, route)
            # Several lines may share the part that leaves the corner of a gateway.
            flow.line.marked_part = int(route.leave != "right" and len(flow.line.points) > 2)
            flow.line.label = _flow_label(flow.line)
        return Area(self._columns.end, self._rows.end, self._bands(offsets))

    def _routes(self, router: EdgeRouter, flows: list[_Flow], back: set[int]) -> list[Route]:
        """Choose the ways, short ones first, so that long ones lead around them."""

        def length(index: int) -> tuple[bool, int]:
            (column, row), (other, below) = self._places[flows[index].source], self._places[flows[index].target]
            return index in back, abs(other - column) + abs(below - row)

        chosen: dict[int, Route] = {}
        for index in sorted(range(len(flows)), key=length):
            flow = flows[index]
            chosen[index] = router.route(flow.source, flow.target, is_lower=flow.boundary is not None)
        return [chosen[index] for index in range(len(flows))]

    def _column_spans(self, flows: list[_Flow], counts: dict[tuple[bool, int], int]) -> "_Spans":
        count = max((column for column, _ in self._places), default=0) + 1
        halves = [0.0] * count
        gaps = [0.0, *[_COLUMN_GAP] * (count - 1), 0.0]
        for cell, (column, _) in zip(self._cells, self._places, strict=True):
            named = label_size(cell.figure.name)[0] - 30 if cell.figure.has_outer_label else 0.0
            halves[column] = max(halves[column], cell.width / 2, named / 2)
        for flow in flows:
            column = self._places[flow.source][0]
            if flow.line.name and column + 1 < count:
                wanted = min(text_width(flow.line.name, LABEL_SIZE), _WIDEST_FLOW_LABEL) + 30
                gaps[column + 1] = max(gaps[column + 1], wanted)
        tracks = [counts.get((True, channel), 0) for channel in range(count + 1)]
        return _Spans(halves, halves, gaps, tracks, _COLUMN_TRACK)

    def _row_spans(self, counts: dict[tuple[bool, int], int], offsets: list[int]) -> "_Spans":
        count = offsets[-1]
        above, below = [0.0] * count, [0.0] * count
        for cell, (_, row) in zip(self._cells, self._places, strict=True):
            above[row], below[row] = max(above[row], cell.above), max(below[row], cell.below)
        gaps = [0.0, *[_ROW_GAP] * (count - 1), 0.0]
        if self._has_lanes:
            for border in offsets:
                room = (counts.get((False, border), 0) + 1) * _ROW_TRACK
                gaps[border] = max(_LANE_GAP * (1 if border in (0, count) else 2), room + _LANE_GAP / 2)
            for row in range(count):
                above[row], below[row] = max(above[row], _LEAST_BAND / 4), max(below[row], _LEAST_BAND / 4)
        tracks = [counts.get((False, channel), 0) for channel in range(count + 1)]
        return _Spans(above, below, gaps, tracks, _ROW_TRACK)

    def _bands(self, offsets: list[int]) -> list[Band]:
        borders = [self._rows.channel_middle(row) for row in offsets]
        borders[0], borders[-1] = 0.0, self._rows.end
        return [Band(top, bottom) for top, bottom in pairwise(borders)]

    def _place(self, cell: _Cell, column: int, row: int) -> None:
        """Place a figure in the middle of its column and row, its boundary events at its lower border."""
        x, y = self._columns.middles[column], self._rows.middles[row]
        place_figure(cell, Box(x - cell.width / 2, y - cell.height / 2, cell.width, cell.height))

    def _points(self, flow: _Flow, route: Route) -> list[Spot]:
        source, target = self._cells[flow.source].figure.box, self._cells[flow.target].figure.box
        origin = flow.boundary.box if flow.boundary is not None else source
        assert origin is not None, "all cells are placed"
        assert target is not None, "all cells are placed"
        points = [_port(origin, route.leave)]
        is_level = route.leave == "right"
        for turn in route.turns:
            spans = self._columns if is_level else self._rows
            value = spans.track(turn) if isinstance(turn, Track) else spans.middles[turn.index]
            points.append(Spot(value, points[-1].y) if is_level else Spot(points[-1].x, value))
            is_level = not is_level
        points.append(_port(target, route.enter))
        return simplify(points)


class _Spans:
    """Where the columns or rows of a grid are, and the channels between them."""

    def __init__(
        self, before: list[float], after: list[float], gaps: list[float], tracks: list[int], step: float
    ) -> None:
        self._step = step
        self.middles: list[float] = []
        self._starts: list[float] = []
        self._sizes: list[float] = []
        self._counts = tracks
        at = 0.0
        for index, gap in enumerate(gaps):
            room = (tracks[index] + 1) * step if tracks[index] else 0.0
            self._starts.append(at)
            self._sizes.append(max(gap, room))
            at += self._sizes[-1]
            if index < len(before):
                self.middles.append(at + before[index])
                at += before[index] + after[index]
        self.end = at

    def track(self, track: Track) -> float:
        """Return the place of a track; all tracks of a channel are around its middle."""
        return self.channel_middle(track.channel) + (track.number - (self._counts[track.channel] - 1) / 2) * self._step

    def channel_middle(self, channel: int) -> float:
        """Return the middle of a channel."""
        return self._starts[channel] + self._sizes[channel] / 2


def place_figure(cell: _Cell, box: Box) -> None:
    """Place a figure with its name and its boundary events."""
    figure = cell.figure
    figure.box = box
    if figure.has_outer_label and figure.name:
        width, height = label_size(figure.name)
        top = box.y - height - _LABEL_GAP if figure.form == "diamond" else box.bottom + _LABEL_GAP
        figure.label = Box(box.centre.x - width / 2, top, width, height)
    step = box.width / max(len(cell.boundaries), 1)
    for index, event in enumerate(cell.boundaries):
        middle = box.x + step * (index + 0.5)
        event.box = Box(middle - 18, box.bottom - 18, 36, 36)
        if event.name:
            width, height = label_size(event.name)
            event.label = Box(middle + 6, box.bottom + 18, width, height)


def _fill_shelf(cells: list[_Cell], area: Area) -> None:
    """Place what has no flow in rows below the grid."""
    if not cells:
        return
    widest = max(area.width, _SHELF, sum(cell.width * (cell.above + cell.below) for cell in cells) ** 0.5 * 1.4)
    x, y = 0.0, area.height + (_ROW_GAP if area.height else 0.0)
    height = 0.0
    for cell in cells:
        width = max(cell.width, label_size(cell.figure.name)[0] if cell.figure.has_outer_label else 0.0)
        if x and x + width > widest:
            x, y, height = 0.0, y + height + _ROW_GAP, 0.0
        place_figure(cell, Box(x + (width - cell.width) / 2, y + cell.above - cell.height / 2, cell.width, cell.height))
        height = max(height, cell.above + cell.below)
        x += width + _COLUMN_GAP
        area.width = max(area.width, x - _COLUMN_GAP)
    area.height = y + height


def _port(box: Box, side: str) -> Spot:
    centre = box.centre
    match side:
        case "right":
            return Spot(box.right, centre.y)
        case "left":
            return Spot(box.x, centre.y)
        case "top":
            return Spot(centre.x, box.y)
        case _:
            return Spot(centre.x, box.bottom)


def _flow_label(line: FlowLine) -> Box | None:
    """Return the place of a name above the first level part of a line of its own that is long enough."""
    if not line.name.strip():
        return None
    width, height = label_size(line.name)
    parts = list(pairwise(line.points))
    # Lines that leave a node on the same side share their first part.
    for start, end in parts[1:] + parts[:1]:
        if start.y == end.y and abs(end.x - start.x) >= width + 24:
            left = start.x + 14 if end.x > start.x else start.x - 14 - width
            return Box(left, start.y - height - 4, width, height)
    return None
