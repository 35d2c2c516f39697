"""Read the diagram interchange of a file: the places that a modeler gave to shapes, lines and labels.

The reader of models leaves diagrams out, so this is a second pass over the bytes of a file that the reader accepted.
"""

from dataclasses import dataclass, field
from math import isfinite
from pyexpat import ParserCreate

from verblint.bpmn.diagram import TAG
from verblint.bpmn.element import SEPARATOR, name_of
from verblint.draw.geometry import Box, Spot

FARTHEST = 100_000.0
"""The largest coordinate and size that is drawn; a shape beyond counts as one without a place."""


@dataclass(slots=True)
class PlacedShape:
    """The place of a figure; None where the diagram leaves something open."""

    element: str
    box: Box | None = None
    label: Box | None = None
    is_horizontal: bool | None = None
    is_expanded: bool | None = None
    is_marker_visible: bool | None = None


@dataclass(slots=True)
class PlacedEdge:
    """The waypoints of a line."""

    element: str
    message: str = ""
    points: list[Spot] = field(default_factory=list)
    label: Box | None = None


@dataclass(slots=True)
class Plane:
    """One diagram: that of a process, a collaboration or a collapsed subprocess."""

    element: str
    name: str = ""
    shapes: list[PlacedShape] = field(default_factory=list)
    edges: list[PlacedEdge] = field(default_factory=list)


def read_planes(content: bytes) -> list[Plane]:
    """Return the diagrams of a file in document order."""
    reading = _Planes()
    parser = ParserCreate("utf-8", SEPARATOR)
    parser.StartElementHandler = reading.start
    parser.EndElementHandler = reading.end
    parser.Parse(content, True)
    parser.StartElementHandler = parser.EndElementHandler = None
    return reading.planes


class _Planes:
    """The callbacks of the parser."""

    def __init__(self) -> None:
        self.planes: list[Plane] = []
        self._depth = 0
        self._name = ""
        self._current: PlacedShape | PlacedEdge | None = None
        self._is_label = False

    def start(self, name: str, values: dict[str, str]) -> None:
        """Take note of a start tag."""
        if not self._depth:
            if name == TAG:
                self._depth, self._name = 1, values.get("name", "")
            return
        self._depth += 1
        local = name_of(name)[1]
        if local == "BPMNPlane":
            self.planes.append(Plane(values.get("bpmnElement", ""), self._name))
        elif local == "BPMNLabel":
            self._is_label = True
        elif self.planes:
            self._place(local, values)

    def end(self, name: str) -> None:
        """Take note of an end tag."""
        if not self._depth:
            return
        self._depth -= 1
        local = name_of(name)[1]
        if local == "BPMNLabel":
            self._is_label = False
        elif local in ("BPMNShape", "BPMNEdge"):
            self._current = None

    def _place(self, local: str, values: dict[str, str]) -> None:
        plane = self.planes[-1]
        ref = values.get("bpmnElement", "")
        if local == "BPMNShape":
            self._current = PlacedShape(
                ref,
                is_horizontal=_truth(values.get("isHorizontal")),
                is_expanded=_truth(values.get("isExpanded")),
                is_marker_visible=_truth(values.get("isMarkerVisible")),
            )
            plane.shapes.append(self._current)
        elif local == "BPMNEdge":
            self._current = PlacedEdge(ref, values.get("messageVisibleKind", ""))
            plane.edges.append(self._current)
        elif local == "Bounds" and self._current is not None:
            box = _bounds(values)
            if self._is_label:
                self._current.label = box
            elif isinstance(self._current, PlacedShape):
                self._current.box = box
        elif local == "waypoint" and isinstance(self._current, PlacedEdge):
            x, y = _coordinate(values.get("x")), _coordinate(values.get("y"))
            if x is not None and y is not None:
                self._current.points.append(Spot(x, y))


def _bounds(values: dict[str, str]) -> Box | None:
    """Return a box of a size, or None if something is missing or out of range."""
    x, y = _coordinate(values.get("x")), _coordinate(values.get("y"))
    width, height = _coordinate(values.get("width")), _coordinate(values.get("height"))
    if x is None or y is None or width is None or height is None or width <= 0 or height <= 0:
        return None
    return Box(x, y, width, height)


def _coordinate(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if isfinite(value) and abs(value) <= FARTHEST else None


def _truth(text: str | None) -> bool | None:
    return None if text is None else text.strip() in ("true", "1")
