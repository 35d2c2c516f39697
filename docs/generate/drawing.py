"""Draws a BPMN model as SVG from its diagram: for the pictures of the tutorial."""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from xml.etree import ElementTree

_BPMN = "{http://www.omg.org/spec/BPMN/20100524/MODEL}"
_BPMNDI = "{http://www.omg.org/spec/BPMN/20100524/DI}"
_DC = "{http://www.omg.org/spec/DD/20100524/DC}"
_DI = "{http://www.omg.org/spec/DD/20100524/DI}"
_MARGIN = 30
_LINE = 14
_STYLE = """
    .page { fill: #ffffff; } .node { fill: #eef1fb; stroke: #3f51b5; stroke-width: 1.5; }
    .end { stroke-width: 3.5; } .flow { fill: none; stroke: #455a64; stroke-width: 1.5; marker-end: url(#tip); }
    .mark { fill: none; stroke: #1a237e; stroke-width: 1.5; } .words { fill: #1a237e; font-size: 12px; }
"""


def draw(file: Path) -> str:
    """Return the picture of a model."""
    root = ElementTree.fromstring(file.read_bytes())
    elements = {found.get("id", ""): found for found in root.iter() if found.tag.startswith(_BPMN)}
    shapes = [(elements[shape.get("bpmnElement", "")], shape) for shape in root.iter(f"{_BPMNDI}BPMNShape")]
    edges = [(elements[edge.get("bpmnElement", "")], edge) for edge in root.iter(f"{_BPMNDI}BPMNEdge")]
    boxes = [_bounds(shape) for _, shape in shapes]
    left, top = min(box[0] for box in boxes) - _MARGIN, min(box[1] for box in boxes) - _MARGIN
    width = max(box[0] + box[2] for box in boxes) - left + 2 * _MARGIN
    height = max(box[1] + box[3] for box in boxes) - top + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:g} {top:g} {width:g} {height:g}" role="img"'
        ' font-family="system-ui, sans-serif">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L10 5 L0 10 z" fill="#455a64" /></marker></defs>',
        f'<rect class="page" x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="8" />',
        *(part for element, edge in edges for part in _edge(element, edge)),
        *(part for element, shape in shapes for part in _shape(element, shape)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bounds(shape: ElementTree.Element) -> tuple[float, float, float, float]:
    found = shape.find(f"{_DC}Bounds")
    assert found is not None
    x, y, width, height = (float(found.get(name, "0")) for name in ("x", "y", "width", "height"))
    return x, y, width, height


def _edge(element: ElementTree.Element, edge: ElementTree.Element) -> Iterator[str]:
    points = [(point.get("x"), point.get("y")) for point in edge.iter(f"{_DI}waypoint")]
    yield f'<path class="flow" d="M{" L".join(f"{x} {y}" for x, y in points)}" />'
    yield from _label(element, edge)


def _shape(element: ElementTree.Element, shape: ElementTree.Element) -> Iterator[str]:
    x, y, width, height = _bounds(shape)
    middle, centre = x + width / 2, y + height / 2
    kind = element.tag.removeprefix(_BPMN)
    if kind.endswith("Task"):
        yield f'<rect class="node" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" />'
        if kind == "userTask":
            yield f'<circle class="mark" cx="{x + 15:g}" cy="{y + 12:g}" r="4" />'
            yield f'<path class="mark" d="M{x + 8:g} {y + 24:g} q7 -12 14 0 z" />'
        yield _text(element.get("name", ""), middle, centre)
        return
    if kind.endswith("Gateway"):
        corners = ((x, centre), (middle, y), (x + width, centre), (middle, y + height))
        yield f'<path class="node" d="M{" L".join(f"{across:g} {down:g}" for across, down in corners)} z" />'
        turn = 45 if kind == "exclusiveGateway" else 0
        yield (
            f'<path class="mark" stroke-width="3" transform="rotate({turn} {middle:g} {centre:g})"'
            f' d="M{middle:g} {centre - 11:g} v22 M{middle - 11:g} {centre:g} h22" />'
        )
    else:
        look = "node end" if kind == "endEvent" else "node"
        yield f'<circle class="{look}" cx="{middle:g}" cy="{centre:g}" r="{width / 2:g}" />'
        if kind in ("boundaryEvent", "intermediateCatchEvent"):
            yield f'<circle class="mark" cx="{middle:g}" cy="{centre:g}" r="{width / 2 - 3:g}" />'
        if element.find(f"{_BPMN}timerEventDefinition") is not None:
            yield f'<path class="mark" d="M{middle:g} {centre - 8:g} v8 l5 4" />'
        if element.find(f"{_BPMN}messageEventDefinition") is not None:
            yield f'<path class="mark" d="M{middle - 8:g} {centre - 6:g} h16 v12 h-16 z l8 7 l8 -7" />'
    yield from _label(element, shape)


def _label(element: ElementTree.Element, part: ElementTree.Element) -> Iterator[str]:
    found = part.find(f"{_BPMNDI}BPMNLabel")
    if found is not None and element.get("name"):
        x, y, width, height = _bounds(found)
        yield _text(element.get("name", ""), x + width / 2, y + height / 2)


def _text(words: str, x: float, y: float) -> str:
    """Return a text around a point, in lines of two words."""
    lines: list[str] = []
    for word in words.split():
        if lines and len(lines[-1]) + len(word) < _LINE:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    first = y - 7 * (len(lines) - 1) + 4
    spans = "".join(f'<tspan x="{x:g}" y="{first + 14 * at:g}">{escape(line)}</tspan>' for at, line in enumerate(lines))
    return f'<text class="words" text-anchor="middle">{spans}</text>'
