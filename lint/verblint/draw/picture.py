"""Draw a model: from the bytes or the elements of a file to the text of an SVG."""

from collections.abc import Collection, Iterator, Mapping
from html import escape
from itertools import chain
from re import compile as pattern
from types import MappingProxyType

from verblint.bpmn.element import Element
from verblint.bpmn.model import NodeKind
from verblint.bpmn.reader import read
from verblint.draw.description import describe, kind_in_words, name_in_words, title_of
from verblint.draw.edge_svg import edge_classes, edge_label, edge_svg, free_label
from verblint.draw.figures import DrawnContent, Figure, FlowLine, read_content
from verblint.draw.geometry import Box, Spot, enclose, number
from verblint.draw.interchange import read_planes
from verblint.draw.layout.drawn_layout import lay_out_by_diagram
from verblint.draw.layout.made_layout import lay_out
from verblint.draw.node_svg import LABEL_WIDTH, label_size, node_svg
from verblint.draw.stylesheet import HEAT_LEVELS, STATES, STYLESHEET
from verblint.draw.wrap import printable, text_width
from verblint.startup.value import value

THEMES = ("auto", "light", "dark")
_MARGIN = 20.0  # pixels around everything, so that lines at the edge are whole
_LONGEST_NOTE = 2_000  # characters of a tooltip
_LONGEST_LABEL = 24
_PILL_HEIGHT, _PILL_SIZE = 14.0, 10.0
_BOLD = 1.15  # how much wider bold letters are
_NO_MARKS: Mapping[str, Collection[str]] = MappingProxyType({})
_NO_NOTES: Mapping[str, str] = MappingProxyType({})
_KNOWN_STATES = frozenset((*STATES, *(f"heat-{level}" for level in range(1, HEAT_LEVELS + 1))))
_SIGNS = {"incident": "!", "waiting": "…", "active": ""}
_CAPITAL = pattern(r"(?<=[a-z])(?=[A-Z])")
_CLASS_NAME = pattern(r"[a-z][a-z-]*")
_BACK = ("participant", "lane")
_FRONT = len(_BACK) + 2
_INTERMEDIATE = (NodeKind.CATCH_EVENT, NodeKind.THROW_EVENT, NodeKind.BOUNDARY_EVENT)


@value
class Picture:
    """A drawn model: its SVG, its view box, and the places of its elements by id.

    `is_made_up` says that the layout is our own, because the file has no diagram of the model. `description` is the
    text alternative that the SVG has too.
    """

    svg: str
    view: Box
    shapes: Mapping[str, Box]
    edges: Mapping[str, tuple[Spot, ...]]
    is_made_up: bool
    title: str
    description: str


def draw(
    model: Element | bytes,
    *,
    marks: Mapping[str, Collection[str]] = _NO_MARKS,
    notes: Mapping[str, str] = _NO_NOTES,
    labels: Mapping[str, str] = _NO_NOTES,
    theme: str = "auto",
    has_style: bool = True,
    is_focusable: bool | Collection[str] = False,
) -> Picture:
    """Draw a model, given as bytes or as the root element that `verblint.read` returned.

    `marks` gives elements states by id: `taken`, `done`, `active`, `waiting`, `incident`, `heat-1` to `heat-5`. `notes`
    are texts by id that are shown with the title of the element, and `labels` short ones, such as a count, that are
    always shown above it. The theme is `light`, `dark` or, with `auto`, that of the reader's system. Without
    `has_style` the page must bring `STYLESHEET`. With `is_focusable` every element of the flow, or each of these ids,
    can be reached by the keyboard.

    Raises ModelError for bytes that the reader rejects, and ValueError for an unknown state or theme.
    """
    unknown = {state for states in marks.values() for state in states} - _KNOWN_STATES
    if unknown:
        raise ValueError(f"no such state: {', '.join(sorted(unknown))}")
    if theme not in THEMES:
        raise ValueError(f"no such theme: {theme}")
    given = _Given(marks, notes, labels)
    style = _Style(theme, has_style, is_focusable)
    if isinstance(model, bytes):
        root = read(model)
        try:
            return _draw(root, _Canvas(read_content(root), given, style))
        finally:
            root.document.take_apart()
    return _draw(model, _Canvas(read_content(model), given, style))


def _draw(root: Element, canvas: "_Canvas") -> Picture:
    is_made_up = not lay_out_by_diagram(canvas.content, read_planes(root.document.source.content))
    if is_made_up:
        lay_out(canvas.content)
    return canvas.picture(is_made_up=is_made_up)


@value
class _Style:
    """How a picture is written."""

    theme: str
    has_rules: bool
    is_focusable: bool | Collection[str]

    def has_focus(self, figure: Figure) -> bool:
        """Return whether the keyboard reaches a figure."""
        if isinstance(self.is_focusable, bool):
            return self.is_focusable and figure.is_flow_node
        return bool(figure.id) and figure.id in self.is_focusable


@value
class _Given:
    """What a caller has to say about elements, by id."""

    marks: Mapping[str, Collection[str]]
    notes: Mapping[str, str]
    labels: Mapping[str, str]


class _Canvas:
    """Writes the elements of a content that has places."""

    def __init__(self, content: DrawnContent, given: _Given, style: _Style) -> None:
        self.content = content
        self._given = given
        self._style = style

    def picture(self, *, is_made_up: bool) -> Picture:
        """Return the whole picture."""
        view = self._view()
        title, description = title_of(self.content), describe(self.content)
        box = " ".join(number(value) for value in view)
        size = f'width="{number(view.width)}" height="{number(view.height)}"'
        role = "img" if self._style.is_focusable is False else "graphics-document"
        theme = f' data-theme="{self._style.theme}"' if self._style.theme != "auto" else ""
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="bpmn" role="{role}"{theme} viewBox="{box}" {size}>',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f"<style>\n{STYLESHEET}</style>" if self._style.has_rules else "",
            f'<rect class="page" x="{number(view.x)}" y="{number(view.y)}" {size}/>',
            *self._elements(),
            "</svg>\n",
        ]
        return Picture(
            "\n".join(part for part in parts if part),
            view,
            self._shapes(),
            {line.id: tuple(line.points) for line in self.content.lines if line.id and line.points},
            is_made_up,
            title,
            description,
        )

    def _shapes(self) -> dict[str, Box]:
        """Return the places of shapes by id in the order of the file; of two with the same id, the first."""
        shapes: dict[str, Box] = {}
        for figure in self.content.figures:
            if figure.id and figure.box is not None:
                shapes.setdefault(figure.id, figure.box)
        return shapes

    def _view(self) -> Box:
        content = self.content
        boxes = chain.from_iterable(_extent(figure) for figure in content.figures)
        lines = chain.from_iterable(_line_extent(line) for line in content.lines)
        headings = (Box(spot.x, spot.y, 300, 20) for spot, _ in content.headings)
        return enclose(chain(boxes, lines, headings)).grow(_MARGIN)

    def _elements(self) -> Iterator[str]:
        """Yield what is behind first: pools, lanes, groups, open scopes, other shapes, lines, boundary events."""
        shown: list[list[str]] = [[] for _ in range(_FRONT + 1)]
        for figure in self.content.figures:
            if figure.box is not None:
                shown[_depth(figure)].append(self._figure(figure, figure.box))
        for spot, text in self.content.headings:
            place = f'x="{number(spot.x)}" y="{number(spot.y + 14)}"'
            yield f'<text class="heading" {place}>{escape(printable(text[:200]))}</text>'
        yield from chain.from_iterable(shown[:_FRONT])
        # A line that crosses a shape must be seen, and so must its name.
        yield from (self._line(line) for line in self.content.lines if line.points)
        yield from shown[_FRONT]

    def _figure(self, figure: Figure, box: Box) -> str:
        states = self._states(figure.id)
        title = f"{name_in_words(figure)} ({kind_in_words(figure)})"
        focus = ' tabindex="0" role="graphics-symbol"' if self._style.has_focus(figure) else ""
        body = "".join(node_svg(figure, box)) + _badge(box, states)
        label = self._given.labels.get(figure.id, "") if figure.id else ""
        return self._group(figure.id, figure_classes(figure), states, title, body + _pill(figure, box, label), focus)

    def _line(self, line: FlowLine) -> str:
        source, target = self.content.find(line.source), self.content.find(line.target)
        ends = [name_in_words(figure) if figure is not None else "?" for figure in (source, target)]
        title = " → ".join(ends)
        if line.name.strip():
            title = f"{' '.join(printable(line.name[:200]).split())}: {title}"
        body = "".join(edge_svg(line, source)) + edge_label(line)
        return self._group(line.id, edge_classes(line), self._states(line.id), title, body, "")

    def _states(self, id: str) -> list[str]:
        return sorted(self._given.marks.get(id, ())) if id else []

    def _group(self, id: str, classes: str, states: list[str], title: str, body: str, more: str) -> str:
        named = f' data-element-id="{escape(id)}"' if id else ""
        if states:
            classes += "".join(f" is-{state}" for state in states)
            title += "\n" + ", ".join(states)
        note = self._given.notes.get(id, "") if id else ""
        if note:
            title += "\n" + printable(note[:_LONGEST_NOTE])
        return f'<g class="{classes}"{named}{more}><title>{escape(title)}</title>{body}</g>'


def figure_classes(figure: Figure) -> str:
    """Return the class names of a figure: its family, its kind and what changes its outline."""
    kind = _CAPITAL.sub("-", figure.kind).lower()
    if not _CLASS_NAME.fullmatch(kind):
        kind = "unknown"
    classes = [kind]
    if figure.node is not None:
        classes.insert(0, "event" if figure.node.is_event else "gateway" if figure.node.is_gateway else "activity")
        if figure.node in _INTERMEDIATE:
            classes.append("intermediate")
        if not figure.is_interrupting:
            classes.append("dashed")
        if figure.node is NodeKind.CALL_ACTIVITY:
            classes.append("thick")
        if figure.is_event_scope:
            classes.append("event-scope")
        if figure.is_expanded:
            classes.append("scope")
    elif figure.is_data:
        classes.append("data")
    elif figure.is_flow_node and "unknown" not in classes:
        classes.append("unknown")
    return " ".join(classes)


def _depth(figure: Figure) -> int:
    """Return how far in front a figure is drawn; lines are right behind the boundary events."""
    if figure.kind in _BACK:
        return _BACK.index(figure.kind)
    if figure.kind == "group" or figure.is_expanded:
        return len(_BACK)
    return _FRONT if figure.is_boundary else _FRONT - 1


def _extent(figure: Figure) -> Iterator[Box]:
    """Yield the boxes that a figure covers, its name included."""
    if figure.box is None:
        return
    yield figure.box
    if figure.has_outer_label and figure.name:
        width, height = label_size(figure.name)
        if figure.label is None:
            yield Box(figure.box.centre.x - width / 2, figure.box.bottom + 5, width, height)
        else:
            width = max(width, min(figure.label.width, LABEL_WIDTH))
            yield Box(figure.label.centre.x - width / 2, figure.label.y, width, height)


def _line_extent(line: FlowLine) -> Iterator[Box]:
    if not line.points:
        return
    yield from (Box(spot.x, spot.y, 0, 0) for spot in line.points)
    if line.name.strip():
        box = free_label(line.name, line.points)
        yield Box(line.label.centre.x - box.width / 2, line.label.y, box.width, box.height) if line.label else box


def _badge(box: Box, states: list[str]) -> str:
    """Return a sign at the upper right corner: states are not shown by colour alone."""
    state = next((state for state in _SIGNS if state in states), None)
    if state is None:
        return ""
    x, y = number(box.right - 4), number(box.y + 4)
    sign = f'<text class="sign" x="{x}" y="{number(box.y + 8)}">{_SIGNS[state]}</text>' if _SIGNS[state] else ""
    return f'<circle class="badge" cx="{x}" cy="{y}" r="9"/>{sign}'


def _pill(figure: Figure, box: Box, label: str) -> str:
    """Return a short text above a figure, at its left."""
    text = " ".join(printable(label[:_LONGEST_LABEL]).split())
    if not text:
        return ""
    width = text_width(text, _PILL_SIZE) * _BOLD + 10
    # Its right end leaves room for the sign of a state.
    x = box.x + 6 if figure.form == "rectangle" else box.centre.x + 6 - width
    y = box.y - _PILL_HEIGHT + (3 if figure.form == "rectangle" else -1)
    size = f'width="{number(width)}" height="{number(_PILL_HEIGHT)}" rx="7"'
    middle = f'x="{number(x + width / 2)}" y="{number(y + 10.5)}"'
    return (
        f'<rect class="pill" x="{number(x)}" y="{number(y)}" {size}/><text class="count" {middle}>{escape(text)}</text>'
    )
