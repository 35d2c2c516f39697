"""What a picture shows: the figures and lines of a model, before they have a place.

Like the typed model, this never fails: what is unknown is a figure of its own kind, and a line whose ends do not exist
is only drawn if the diagram has its waypoints.
"""

from dataclasses import dataclass, field

from verblint.bpmn.assembly import NOT_NODES
from verblint.bpmn.element import BPMN, Element
from verblint.bpmn.model import NodeKind
from verblint.draw.geometry import Box, Spot

_KINDS = {kind.value: kind for kind in NodeKind if kind is not NodeKind.UNKNOWN}
_NESTED = frozenset((NodeKind.SUB_PROCESS, NodeKind.TRANSACTION, NodeKind.AD_HOC_SUB_PROCESS))
_DATA = frozenset(("dataObjectReference", "dataStoreReference", "dataObject", "dataInput", "dataOutput"))
_ARTIFACTS = frozenset(("textAnnotation", "group", "dataObjectReference", "dataStoreReference"))
_LINES = frozenset(("sequenceFlow", "messageFlow", "association", "conversationLink"))
_DATA_LINES = frozenset(("dataInputAssociation", "dataOutputAssociation"))
_ROOTS = frozenset(("process", "collaboration", "choreography", "globalConversation"))
_FRAMES = _ROOTS | {"participant", "lane"}
# Children of a collaboration that have no shape.
_SHAPELESS = NOT_NODES | {
    *("participantAssociation", "messageFlowAssociation", "conversationAssociation", "correlationKey"),
    *("choreographyRef", "dataState", "message", "artifact"),
}
_DEFINITION = "EventDefinition"
# The sizes in pixels that every modeler gives new shapes.
EVENT_SIZE = 36.0
GATEWAY_SIZE = 50.0
TASK_WIDTH, TASK_HEIGHT = 100.0, 80.0


@dataclass(eq=False, slots=True)
class Figure:
    """One element that is a shape, or a process that is none. `parent` is the figure that contains it."""

    element: Element
    kind: str
    name: str = ""
    parent: "Figure | None" = None
    node: NodeKind | None = None
    symbol: str = ""
    is_interrupting: bool = True
    is_event_scope: bool = False
    markers: tuple[str, ...] = ()
    host: str = ""
    members: tuple[str, ...] = ()
    children: list["Figure"] = field(default_factory=list)
    lanes: list["Figure"] = field(default_factory=list)
    lines: list["FlowLine"] = field(default_factory=list)
    box: Box | None = None
    label: Box | None = None
    is_expanded: bool = False
    is_hidden: bool = False
    is_horizontal: bool = True
    has_cross: bool = True

    @property
    def id(self) -> str:
        """The id of the element, or an empty string."""
        return self.element.id

    @property
    def form(self) -> str:
        """The outline: circle, diamond or rectangle."""
        if self.node is None:
            return "rectangle"
        return "circle" if self.node.is_event else "diamond" if self.node.is_gateway else "rectangle"

    @property
    def is_data(self) -> bool:
        """Whether this is a data object, a data store or the like."""
        return self.kind in _DATA

    @property
    def is_artifact(self) -> bool:
        """Whether this is a note, a group or data: no part of the flow."""
        return self.kind in _ARTIFACTS or self.is_data

    @property
    def is_scope(self) -> bool:
        """Whether this contains a flow of its own."""
        return self.node in _NESTED

    @property
    def is_flow_node(self) -> bool:
        """Whether this is an event, an activity, a gateway or of an unknown kind."""
        return not self.is_artifact and self.kind not in _FRAMES

    @property
    def has_outer_label(self) -> bool:
        """Whether the name stands beside the shape instead of inside."""
        return self.form != "rectangle" or self.is_data

    @property
    def is_boundary(self) -> bool:
        """Whether this is attached to an activity."""
        return self.node is NodeKind.BOUNDARY_EVENT


@dataclass(eq=False, slots=True)
class FlowLine:
    """One element that is a line between two figures."""

    element: Element
    kind: str
    source: str
    target: str
    name: str = ""
    is_default: bool = False
    is_conditional: bool = False
    direction: str = ""
    message: str = ""
    marked_part: int = 0
    points: list[Spot] = field(default_factory=list)
    label: Box | None = None

    @property
    def id(self) -> str:
        """The id of the element, or an empty string."""
        return self.element.id


@dataclass(eq=False, slots=True)
class DrawnContent:
    """All figures and lines of a file, and the scopes that contain them."""

    processes: list[Figure] = field(default_factory=list)
    pools: list[Figure] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    lines: list[FlowLine] = field(default_factory=list)
    outer_lines: list[FlowLine] = field(default_factory=list)
    by_id: dict[str, Figure] = field(default_factory=dict)
    lines_by_id: dict[str, FlowLine] = field(default_factory=dict)
    headings: list[tuple[Spot, str]] = field(default_factory=list)

    def find(self, ref: str) -> Figure | None:
        """Return the figure with an id, which may be written with a prefix."""
        return self.by_id.get(ref) or self.by_id.get(ref.rpartition(":")[2])

    def find_line(self, ref: str) -> FlowLine | None:
        """Return the line with an id, which may be written with a prefix."""
        return self.lines_by_id.get(ref) or self.lines_by_id.get(ref.rpartition(":")[2])


def read_content(root: Element) -> DrawnContent:
    """Return what there is to draw in a file."""
    content = DrawnContent()
    definitions = {child.id: child for child in root.children if child.local.endswith(_DEFINITION)}
    groups = {value.id: value.get("value") or "" for value in root.walk("categoryValue")}
    pending: list[tuple[Element, Figure]] = []
    for element in root.children:
        if element.namespace == BPMN and element.local in _ROOTS:
            scope = Figure(element, element.local, element.get("name") or "")
            content.processes.append(scope)
            _add(content, scope)
            pending.append((element, scope))
    # The list grows while it is walked: containers come before what they contain.
    for element, scope in pending:
        for child in element.children:
            if child.namespace == BPMN:
                figure = _take(content, child, scope, definitions, groups)
                if figure is not None and figure.is_scope:
                    pending.append((child, figure))
    _mark_default_flows(content)
    _mark_collections(content)
    return content


def _take(
    content: DrawnContent, child: Element, scope: Figure, definitions: dict[str, Element], groups: dict[str, str]
) -> Figure | None:
    """Add a child of a scope as a figure or line, and return the figure if it belongs to the flow."""
    local = child.local
    if local in _LINES:
        _add_line(content, scope, child, child.get("sourceRef") or "", child.get("targetRef") or "")
    elif local == "laneSet":
        _add_lanes(content, child, scope, scope.lanes)
    elif local == "participant":
        pool = Figure(child, local, child.get("name") or "", members=(child.get("processRef") or "",))
        content.pools.append(pool)
        _add(content, pool)
    elif local in _DATA or local in _ARTIFACTS:
        figure = Figure(child, local, _artifact_name(child, groups), scope)
        _add(content, figure)
        if local in _ARTIFACTS:
            scope.children.append(figure)
    elif local == "ioSpecification":
        for data in child.children:
            if data.local in _DATA:
                _add(content, Figure(data, data.local, data.get("name") or "", scope))
    elif local in _KINDS or local not in _SHAPELESS:
        figure = _node(child, scope, definitions)
        scope.children.append(figure)
        _add(content, figure)
        _add_data_lines(content, scope, child)
        return figure
    return None


def _add(content: DrawnContent, figure: Figure) -> None:
    content.figures.append(figure)
    if figure.id:
        content.by_id.setdefault(figure.id, figure)


def _node(element: Element, scope: Figure, definitions: dict[str, Element]) -> Figure:
    kind = _KINDS.get(element.local)
    figure = Figure(element, element.local, element.get("name") or "", scope, kind)
    if kind is None:
        return figure
    if kind.is_event:
        figure.symbol = _symbol(element, definitions)
        figure.is_interrupting = "false" not in (element.get("cancelActivity"), element.get("isInterrupting"))
        figure.host = (element.get("attachedToRef") or "") if kind is NodeKind.BOUNDARY_EVENT else ""
    elif kind.is_activity:
        figure.markers = tuple(_markers(element, kind))
        figure.is_event_scope = kind in _NESTED and element.get("triggeredByEvent") in ("true", "1")
    elif kind is NodeKind.EVENT_BASED_GATEWAY and element.get("instantiate") == "true":
        figure.symbol = "parallel" if element.get("eventGatewayType") == "Parallel" else "start"
    return figure


def _symbol(element: Element, definitions: dict[str, Element]) -> str:
    """Return the kind of an event: message, timer, multiple, or nothing."""
    kinds = [
        child.local.removesuffix(_DEFINITION) for child in element.children if child.local.endswith(_DEFINITION)
    ] + [
        definitions[ref].local.removesuffix(_DEFINITION)
        for child in element.find_all("eventDefinitionRef")
        if (ref := child.text.strip().rpartition(":")[2]) in definitions
    ]
    if len(kinds) > 1:
        return "parallelMultiple" if element.get("parallelMultiple") == "true" else "multiple"
    return kinds[0] if kinds else ""


def _markers(element: Element, kind: NodeKind) -> list[str]:
    found = []
    if element.find("standardLoopCharacteristics") is not None:
        found.append("loop")
    multiple = element.find("multiInstanceLoopCharacteristics")
    if multiple is not None:
        found.append("sequential" if multiple.get("isSequential") in ("true", "1") else "parallel")
    if element.get("isForCompensation") in ("true", "1"):
        found.append("compensation")
    if kind is NodeKind.AD_HOC_SUB_PROCESS:
        found.append("ad-hoc")
    return found


def _artifact_name(element: Element, groups: dict[str, str]) -> str:
    if element.local == "textAnnotation":
        text = element.find("text")
        return text.text if text is not None else ""
    if element.local == "group":
        return groups.get((element.get("categoryValueRef") or "").rpartition(":")[2], "")
    state = element.find("dataState")
    name = element.get("name") or ""
    return f"{name} [{state.get('name')}]".strip() if state is not None and state.get("name") else name


def _add_lanes(content: DrawnContent, lane_set: Element, scope: Figure, lanes: list[Figure]) -> None:
    for element in lane_set.find_all("lane"):
        members = tuple(ref.text.strip() for ref in element.find_all("flowNodeRef"))
        lane = Figure(element, "lane", element.get("name") or "", scope, members=members)
        lanes.append(lane)
        _add(content, lane)
        for inner in element.find_all("childLaneSet"):
            _add_lanes(content, inner, scope, lane.lanes)


def _add_line(content: DrawnContent, scope: Figure, element: Element, source: str, target: str) -> None:
    line = FlowLine(element, element.local, source, target, element.get("name") or "")
    line.is_conditional = element.find("conditionExpression") is not None
    line.direction = element.get("associationDirection") or ""
    content.lines.append(line)
    (content.outer_lines if scope.kind == "collaboration" else scope.lines).append(line)
    if line.id:
        content.lines_by_id.setdefault(line.id, line)


def _add_data_lines(content: DrawnContent, scope: Figure, node: Element) -> None:
    for element in node.children:
        if element.local in _DATA_LINES and element.namespace == BPMN:
            refs = [element.find(name) for name in ("sourceRef", "targetRef")]
            source, target = (ref.text.strip() if ref is not None else "" for ref in refs)
            # The other end is the activity; modelers name a property or an input of it instead.
            ends = (source, node.id) if element.local == "dataInputAssociation" else (node.id, target)
            _add_line(content, scope, element, *ends)


def _mark_default_flows(content: DrawnContent) -> None:
    for figure in content.figures:
        default = content.find_line(figure.element.get("default") or "") if figure.node is not None else None
        if default is not None and default.source == figure.id:
            default.is_default = True


def _mark_collections(content: DrawnContent) -> None:
    for figure in content.figures:
        if figure.is_data:
            meant = content.find(figure.element.get("dataObjectRef") or "") or figure
            if "true" in (figure.element.get("isCollection"), meant.element.get("isCollection")):
                figure.markers = ("collection",)
