"""What must hold for every picture of a model: it is read back from the SVG and compared with the model."""

from collections import Counter
from itertools import combinations
from xml.etree.ElementTree import Element, fromstring

from verblint.bpmn.assembly import assemble
from verblint.bpmn.model import FlowNode, NodeKind, Scope
from verblint.bpmn.reader import read
from verblint.draw import Picture
from verblint.draw.geometry import Box, Spot

SVG = "{http://www.w3.org/2000/svg}"
_NEAR = 0.5
# What a picture may have; nothing of it runs or loads anything, or could meet the ids of a page.
_TAGS = {"svg", "title", "desc", "style", "g", "path", "rect", "circle", "polygon", "text", "tspan"}
_ATTRIBUTES = {
    *("class", "role", "viewBox", "width", "height", "data-theme", "data-element-id", "tabindex", "transform"),
    *("d", "x", "y", "rx", "cx", "cy", "r", "points"),
}


def parse(picture: Picture) -> Element:
    """The elements of a picture, which is well-formed and has neither scripts nor references."""
    root = fromstring(picture.svg)
    assert root.tag == f"{SVG}svg"
    for part in root.iter():
        assert part.tag.removeprefix(SVG) in _TAGS, part.tag
        assert set(part.keys()) <= _ATTRIBUTES, part.attrib
    assert picture.svg.count("<style>") <= 1
    assert root.get("viewBox", "").count(" ") == 3
    return root


def drawn_ids(root: Element) -> Counter[str]:
    """How often each element of the model is drawn."""
    return Counter(id for group in root.iter(f"{SVG}g") if (id := group.get("data-element-id")))


def check_picture(content: bytes, picture: Picture) -> None:
    """Every element is drawn once, inside of the view; a made-up layout has no overlaps and no loose ends."""
    drawn = drawn_ids(parse(picture))
    root = read(content)
    written = Counter(element.id for element in root.walk())
    assert drawn <= written, drawn - written
    assert set(picture.shapes) | set(picture.edges) == set(drawn)
    for id, box in picture.shapes.items():
        assert _contains(picture.view, box), f"{id} is outside of the view"
    model = assemble(root)
    scopes = [scope for process in model.processes for scope in process.scope.scopes()]
    ids = {node.id for scope in scopes for node in scope.nodes if node.id}
    if any(written[id] > 1 for id in ids) or not picture.is_made_up:
        return
    assert ids <= set(drawn)
    for scope in scopes:
        _check_scope(scope, picture)


def _check_scope(scope: Scope, picture: Picture) -> None:
    nodes = [node for node in scope.nodes if node.id]
    for one, other in combinations(nodes, 2):
        if NodeKind.BOUNDARY_EVENT not in (one.kind, other.kind):
            boxes = picture.shapes[one.id], picture.shapes[other.id]
            assert not _overlap(*boxes), f"{one.id} and {other.id} overlap: {boxes}"
    for node in nodes:
        if node.scope is not None:
            for inner in node.scope.nodes:
                assert not inner.id or _contains(picture.shapes[node.id], picture.shapes[inner.id]), inner.id
        host = scope.by_id.get(node.attached_to) if node.kind is NodeKind.BOUNDARY_EVENT else None
        if host is not None and host.kind is not NodeKind.BOUNDARY_EVENT:
            assert abs(picture.shapes[node.id].centre.y - picture.shapes[host.id].bottom) < _NEAR
    for flow in scope.flows:
        source, target = scope.by_id.get(flow.source), scope.by_id.get(flow.target)
        if flow.id in picture.edges and source is not None and target is not None:
            points = picture.edges[flow.id]
            assert _is_at_border(source, picture.shapes[source.id], points[0]), f"{flow.id} starts off its shape"
            assert _is_at_border(target, picture.shapes[target.id], points[-1]), f"{flow.id} ends off its shape"


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.x < other.right - _NEAR
        and other.x < one.right - _NEAR
        and one.y < other.bottom - _NEAR
        and other.y < one.bottom - _NEAR
    )


def _contains(outer: Box, inner: Box) -> bool:
    spots = (Spot(inner.x, inner.y), Spot(inner.right, inner.bottom))
    # Boundary events are half outside.
    return all(outer.grow(20).holds(spot) for spot in spots)


def _is_at_border(node: FlowNode, box: Box, spot: Spot) -> bool:
    centre = box.centre
    across, along = abs(spot.x - centre.x) / (box.width / 2), abs(spot.y - centre.y) / (box.height / 2)
    reach = max(across, along)
    if node.kind.is_event:
        reach = (across**2 + along**2) ** 0.5
    elif node.kind.is_gateway:
        reach = across + along
    return abs(reach - 1) < 0.02
