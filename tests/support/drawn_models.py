"""Models for the tests of the renderer: one with every kind of element and a diagram, and some of odd shape."""

from xml.sax.saxutils import quoteattr

from verblint.bpmn.element import BPMN

HEAD = (
    f'<definitions xmlns="{BPMN}" xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI" '
    'xmlns:dc="http://www.omg.org/spec/DD/20100524/DC" xmlns:di="http://www.omg.org/spec/DD/20100524/DI" '
    'targetNamespace="urn:verbworker:drawn">'
)
SYMBOLS = {
    "startEvent": ("", "message", "timer", "signal", "conditional", "multiple", "error", "escalation", "compensate"),
    "intermediateCatchEvent": ("message", "timer", "signal", "conditional", "link", "multiple", "parallelMultiple"),
    "intermediateThrowEvent": ("", "message", "signal", "escalation", "link", "compensate", "multiple"),
    "endEvent": (*("", "message", "signal", "error", "escalation", "terminate", "cancel", "compensate", "multiple"),),
    "boundaryEvent": (
        *("message", "timer", "signal", "error", "escalation", "conditional", "cancel", "compensate", "multiple"),
    ),
}
TASKS = ("task", "userTask", "serviceTask", "sendTask", "receiveTask", "manualTask", "scriptTask", "businessRuleTask")
GATEWAYS = ("exclusiveGateway", "parallelGateway", "inclusiveGateway", "eventBasedGateway", "complexGateway")
LOOPS = {
    "loop": "<standardLoopCharacteristics/>",
    "parallel": "<multiInstanceLoopCharacteristics/>",
    "sequential": '<multiInstanceLoopCharacteristics isSequential="true"/>',
}


class Gallery:
    """A model that is written element by element, each with its shape."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.shapes: list[str] = []
        self.count = 0

    def add(self, kind: str, x: float, y: float, size: tuple[float, float], **more: str) -> str:
        """Add an element with a shape; `inside` is its content, `di` more attributes of the shape."""
        self.count += 1
        id = more.pop("id", f"e{self.count}")
        inside, di, name = more.pop("inside", ""), more.pop("di", ""), more.pop("name", f"{kind} {self.count}")
        attributes = "".join(f" {key}={quoteattr(value)}" for key, value in more.items())
        self.parts.append(f"<{kind} id={quoteattr(id)} name={quoteattr(name)}{attributes}>{inside}</{kind}>")
        self.shapes.append(shape(id, x, y, *size, di=di))
        return id

    def connect(self, source: str, target: str, points: tuple[tuple[float, float], ...], **more: str) -> None:
        """Add a line with waypoints."""
        self.count += 1
        kind, inside = more.pop("kind", "sequenceFlow"), more.pop("inside", "")
        attributes = "".join(f" {key}={quoteattr(value)}" for key, value in more.items())
        ends = f'sourceRef="{source}" targetRef="{target}"'
        self.parts.append(f'<{kind} id="f{self.count}" {ends}{attributes}>{inside}</{kind}>')
        self.shapes.append(edge(f"f{self.count}", points))

    def xml(self, plane: str = "p") -> bytes:
        """The whole model."""
        return (
            f'{HEAD}<process id="p" name="Gallery">{"".join(self.parts)}</process>'
            f'<bpmndi:BPMNDiagram id="d"><bpmndi:BPMNPlane id="pl" bpmnElement="{plane}">{"".join(self.shapes)}'
            "</bpmndi:BPMNPlane></bpmndi:BPMNDiagram></definitions>"
        ).encode()


def shape(id: str, x: object, y: object, width: object, height: object, *, di: str = "") -> str:
    """A shape of a diagram."""
    return (
        f'<bpmndi:BPMNShape id="{id}_di" bpmnElement="{id}" {di}><dc:Bounds x="{x}" y="{y}" width="{width}" '
        f'height="{height}"/></bpmndi:BPMNShape>'
    )


def edge(id: str, points: tuple[tuple[object, object], ...]) -> str:
    """A line of a diagram."""
    spots = "".join(f'<di:waypoint x="{x}" y="{y}"/>' for x, y in points)
    return f'<bpmndi:BPMNEdge id="{id}_di" bpmnElement="{id}">{spots}</bpmndi:BPMNEdge>'


def _event_inside(symbol: str) -> str:
    if symbol in ("multiple", "parallelMultiple"):
        return "<messageEventDefinition/><timerEventDefinition/>"
    return f"<{symbol}EventDefinition/>" if symbol else ""


def gallery() -> bytes:
    """Every kind of event, activity, gateway, data, note and line, in rows."""
    made = Gallery()
    y = 100.0
    for kind, symbols in SYMBOLS.items():
        for at, symbol in enumerate(symbols):
            more = {"parallelMultiple": "true"} if symbol == "parallelMultiple" else {}
            if kind == "boundaryEvent":
                host = made.add("task", 100 + at * 130, y - 62, (100, 80), name="")
                other = "false" if at % 2 else "true"
                more |= {"attachedToRef": host, "cancelActivity": other}
            place = (132 if kind == "boundaryEvent" else 100) + at * 130
            made.add(kind, place, y, (36, 36), name=symbol or "none", inside=_event_inside(symbol), **more)
        y += 190 if kind == "endEvent" else 110
    for at, kind in enumerate(TASKS):
        made.add(kind, 100 + at * 130, y, (100, 80), name=f"A {kind} that does something")
    y += 130
    for at, (name, inside) in enumerate(LOOPS.items()):
        made.add("serviceTask", 100 + at * 130, y, (100, 80), name=name, inside=inside)
    made.add("task", 490, y, (100, 80), name="undo", isForCompensation="true")
    made.add("callActivity", 620, y, (100, 80), name="Call another process", inside=LOOPS["parallel"])
    made.add("subProcess", 750, y, (100, 80), name="Closed subprocess")
    made.add("adHocSubProcess", 880, y, (100, 80), name="Closed ad hoc")
    made.add("transaction", 1010, y, (100, 80), name="Closed transaction")
    y += 130
    for at, kind in enumerate(GATEWAYS):
        made.add(kind, 110 + at * 130, y, (50, 50), name=kind.removesuffix("Gateway"), di='isMarkerVisible="true"')
    made.add("exclusiveGateway", 760, y, (50, 50), name="no cross", di='isMarkerVisible="false"')
    made.add("eventBasedGateway", 890, y, (50, 50), name="starts", instantiate="true")
    made.add("eventBasedGateway", 1020, y, (50, 50), name="all", instantiate="true", eventGatewayType="Parallel")
    _add_scopes(made, y + 120)
    _add_artifacts(made, y + 330)
    return made.xml()


def _add_scopes(made: Gallery, y: float) -> None:
    kinds = ("subProcess", "transaction", "adHocSubProcess", "subProcess")
    for at, kind in enumerate(kinds):
        is_event = {"triggeredByEvent": "true"} if at == 3 else {}
        inside = f'<startEvent id="in{at}" name="inside"/><task id="t{at}" name="work"/>'
        x = 100 + at * 280
        made.add(kind, x, y, (250, 160), name=f"Open {kind}", inside=inside, di='isExpanded="true"', **is_event)
        made.shapes.append(shape(f"in{at}", x + 20, y + 60, 36, 36))
        made.shapes.append(shape(f"t{at}", x + 110, y + 40, 100, 80))


def _add_artifacts(made: Gallery, y: float) -> None:
    state = '<dataState name="checked"/>'
    data = made.add("dataObjectReference", 100, y, (36, 50), name="Contract", inside=state)
    made.add("dataStoreReference", 230, y, (50, 50), name="Archive")
    made.parts.append('<textAnnotation id="note"><text>A note of\nsome length, wrapped</text></textAnnotation>')
    made.shapes.append(shape("note", 350, y, 120, 50))
    made.parts.append('<group id="group"/>')
    made.shapes.append(shape("group", 500, y - 20, 180, 120))
    made.add("choreographyTask", 540, y, (100, 80), name="Something unknown")
    first = made.add("task", 720, y, (100, 80), name="From")
    last = made.add("task", 960, y, (100, 80), name="To")
    condition = "<conditionExpression>=a</conditionExpression>"
    made.connect(first, last, ((820, y + 15), (960, y + 15)), name="condition", inside=condition)
    made.connect(first, last, ((820, y + 40), (960, y + 40)), name="plain")
    made.connect(first, last, ((820, y + 65), (890, y + 65), (890, y + 75), (960, y + 75)))
    made.connect("note", first, ((470, y + 25), (720, y + 30)), kind="association")
    made.connect(data, first, ((136, y + 45), (720, y + 60)), kind="association", associationDirection="Both")
