"""Make up a layout for models without a diagram: pools below one another, each with its flow from left to right."""

from collections.abc import Iterator, Sequence

from verblint.draw.figures import (
    EVENT_SIZE,
    GATEWAY_SIZE,
    TASK_HEIGHT,
    TASK_WIDTH,
    DrawnContent,
    Figure,
)
from verblint.draw.geometry import Box, Spot, simplify
from verblint.draw.layout.connect import connect
from verblint.draw.layout.grid import Band, lay_out_flow
from verblint.draw.node_svg import NAME_SIZE
from verblint.draw.wrap import LINE, text_width, wrap

_PAD, _TOP = 25.0, 35.0  # inside of an open subprocess: all sides, and above where its name is
# In pixels, as modelers draw them: the band with the name of a pool, and the room between pools.
_BAND = 30.0
_POOL_GAP = 60.0
_CLOSED_POOL = 60.0
_MESSAGE_TRACK, _PORT = 9.0, 20.0
_LEAST_POOL, _LEAST_LANE = 300.0, 90.0
_NOTE_WIDTH, _MOST_NOTE_LINES = 140.0, 12


def lay_out(content: DrawnContent) -> None:
    """Give every figure and line a place."""
    top, pools, used = 0.0, list(content.pools), set[Figure]()
    width = _LEAST_POOL
    for pool in pools:
        scope = next((content.find(ref) for ref in pool.members if ref), None)
        is_open = scope is not None and scope.kind == "process" and scope not in used
        size = (width, _CLOSED_POOL)
        if scope is not None and is_open:
            used.add(scope)
            pool.is_expanded = True
            size = _place_pool(pool, scope, Spot(0, top))
        pool.box = Box(0, top, *size)
        width = max(width, size[0])
        top += size[1] + _POOL_GAP
    for pool in pools:
        _widen(pool, content, width)
    for scope in content.processes:
        if scope not in used and scope.children:
            area = lay_out_flow(scope, _size)
            _settle_content(scope, Spot(0, top))
            top += area.height + _POOL_GAP
    _route_messages(content)
    for line in content.lines:
        source, target = content.find(line.source), content.find(line.target)
        if not line.points and source is not None and target is not None and source.box and target.box:
            line.points = connect(source, source.box, target, target.box)


def place_scope(figure: Figure) -> tuple[float, float]:
    """Lay out the inside of a subprocess relative to it, and return its size."""
    area = lay_out_flow(figure, _size)
    figure.is_expanded = True
    name = min(text_width(figure.name, NAME_SIZE) + 40, 300.0)
    width = max(area.width + 2 * _PAD, name, TASK_WIDTH)
    _shift_content(figure, (width - area.width) / 2, _TOP)
    return width, max(area.height + _PAD + _TOP, TASK_HEIGHT)


def settle(figure: Figure) -> None:
    """Turn the places inside of a figure, which are relative to it, into those of the picture."""
    pending = [figure]
    while pending:
        scope = pending.pop()
        if scope.box is not None and scope.is_scope and scope.is_expanded:
            _shift_content(scope, scope.box.x, scope.box.y)
            pending += scope.children


def usual_size(figure: Figure) -> tuple[float, float]:
    """Return the size of a figure that contains no others."""
    if figure.form == "circle":
        return EVENT_SIZE, EVENT_SIZE
    if figure.form == "diamond":
        return GATEWAY_SIZE, GATEWAY_SIZE
    if figure.kind == "dataStoreReference":
        return 50.0, 50.0
    if figure.is_data:
        return 36.0, 50.0
    if figure.kind == "textAnnotation":
        lines = wrap(figure.name, _NOTE_WIDTH - 10, _MOST_NOTE_LINES, NAME_SIZE)
        return _NOTE_WIDTH, max(len(lines), 1) * NAME_SIZE * LINE + 10
    return TASK_WIDTH, TASK_HEIGHT


def _size(figure: Figure) -> tuple[float, float]:
    return place_scope(figure) if figure.is_scope and figure.children else usual_size(figure)


def _settle_content(scope: Figure, at: Spot) -> None:
    """Place the content of a process, which has no shape of its own."""
    _shift_content(scope, at.x, at.y)
    for child in scope.children:
        settle(child)


def _shift_content(scope: Figure, dx: float, dy: float) -> None:
    """Move what a scope contains, without what is inside of nested scopes."""
    for figure in scope.children:
        figure.box = figure.box.shift(dx, dy) if figure.box is not None else None
        figure.label = figure.label.shift(dx, dy) if figure.label is not None else None
    for line in scope.lines:
        line.points = [Spot(spot.x + dx, spot.y + dy) for spot in line.points]
        line.label = line.label.shift(dx, dy) if line.label is not None else None


def _place_pool(pool: Figure, scope: Figure, at: Spot) -> tuple[float, float]:
    """Lay out a process in its pool, and return the size of the pool."""
    area = lay_out_flow(scope, _size)
    depth = _depth(scope.lanes)
    left = at.x + _BAND * (1 + depth) + _PAD
    head = _PAD if not scope.lanes else 0.0
    _settle_content(scope, Spot(left, at.y + head))
    width = left - at.x + area.width + _PAD
    height = max(area.height + 2 * head, _LEAST_LANE)
    if scope.lanes:
        height = max(height, area.height)
        _place_lanes(scope.lanes, iter(area.bands), Spot(at.x + _BAND, at.y), width - _BAND)
    return max(width, _LEAST_POOL), height


def _depth(lanes: Sequence[Figure]) -> int:
    """Return how deep lanes are nested."""
    return 1 + max(_depth(lane.lanes) for lane in lanes) if lanes else 0


def _place_lanes(lanes: Sequence[Figure], bands: Iterator[Band], at: Spot, width: float) -> Band:
    """Place lanes along the bands of the grid, and return the band that they take together."""
    taken: list[Band] = []
    for lane in lanes:
        if lane.lanes:
            band = _place_lanes(lane.lanes, bands, Spot(at.x + _BAND, at.y), width - _BAND)
        else:
            inner = next(bands)
            band = Band(at.y + inner.top, at.y + inner.bottom)
        lane.box = Box(at.x, band.top, width, band.bottom - band.top)
        taken.append(band)
    return Band(taken[0].top, taken[-1].bottom)


def _route_messages(content: DrawnContent) -> None:
    """Lead the messages between pools through the space between them."""
    owners = {content.find(pool.members[0]): pool for pool in content.pools if pool.is_expanded}
    counts: dict[Box, int] = {}
    messages = [line for line in content.lines if line.kind == "messageFlow"]
    for number, line in enumerate(messages):
        ends = [content.find(line.source), content.find(line.target)]
        boxes = [figure.box for figure in ends if figure is not None and figure.box is not None]
        pools = [_pool_box(figure, owners) for figure in ends if figure is not None]
        if len(boxes) == 2 and pools[0] is not None and pools[1] is not None and pools[0] != pools[1]:
            is_down = pools[0].y < pools[1].y
            x = [_next_port(box, counts) for box in boxes]
            for end, other in ((0, 1), (1, 0)):
                if boxes[end] == pools[end]:
                    # A pool without a flow of its own is met right below or above the other end.
                    x[end] = x[other]
            middle = max(pools[0].y, pools[1].y) - _POOL_GAP / 2 + _spread(number) * _MESSAGE_TRACK
            start = Spot(x[0], boxes[0].bottom if is_down else boxes[0].y)
            end_spot = Spot(x[1], boxes[1].y if is_down else boxes[1].bottom)
            line.points = simplify([start, Spot(x[0], middle), Spot(x[1], middle), end_spot])


def _next_port(box: Box, counts: dict[Box, int]) -> float:
    """Return the x where the next message meets a figure: the middle, then to its right and left."""
    counts[box] = counts.get(box, -1) + 1
    # Round and pointed figures have one corner above and below.
    return box.centre.x + (_spread(counts[box]) * _PORT if box.width >= TASK_WIDTH else 0.0)


def _spread(number: int) -> int:
    """Return 0, 1, -1, 2, -2 and again from 0 on."""
    return (0, 1, -1, 2, -2)[number % 5]


def _pool_box(figure: Figure, owners: dict[Figure | None, Figure]) -> Box | None:
    """Return the place of the pool that a figure is in, or is."""
    scope: Figure | None = figure
    while scope is not None and scope not in owners:
        if scope.kind == "participant":
            return scope.box
        scope = scope.parent
    return owners[scope].box if scope is not None else None


def _widen(pool: Figure, content: DrawnContent, width: float) -> None:
    """Let a pool and its lanes end at the common width; all pools start at 0."""
    scope = content.find(pool.members[0]) if pool.is_expanded else None
    pending = [pool, *(scope.lanes if scope is not None else ())]
    while pending:
        figure = pending.pop()
        assert figure.box is not None, "pools and lanes are placed"
        figure.box = Box(figure.box.x, figure.box.y, width - figure.box.x, figure.box.height)
        pending += figure.lanes
