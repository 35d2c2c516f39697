"""A seeded source of hollow models: drawn as people draw them, with labels and a diagram, of any size."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from verblint.bpmn.element import BPMN, ZEEBE

_OPEN = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    f'<bpmn:definitions xmlns:bpmn="{BPMN}" xmlns:zeebe="{ZEEBE}" '
    'xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC" '
    'xmlns:di="http://www.omg.org/spec/DD/20100524/DI" id="Definitions_1" '
    'targetNamespace="urn:verbworker:generated">\n'
)
_SIZES = {"Task": (100, 80), "Gateway": (50, 50), "Event": (36, 36)}
_WORDS = ("request", "check", "confirm", "record", "notify", "collect", "compare", "file", "open", "close")
_THINGS = ("documents", "entity", "address", "owner", "account", "risk", "contract", "payment", "review", "letter")


class ModelSource:
    """Models of a process; the same seed gives the same models."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def sized(self, count: int) -> Iterator[bytes]:
        """So many models of mixed size: most of 5 to 25 steps, some of 100 and more."""
        for number in range(count):
            steps = min(160, int(self._random.lognormvariate(2.6, 0.8)) + 3)
            yield self.model(steps, key=f"process-{number}")

    def model(self, steps: int, key: str = "process") -> bytes:
        """One model with about so many steps between its start and its end."""
        return _Drawing(self._random, key).draw(steps)


@dataclass
class _Node:
    """One node, and the names of the flows that reach and leave it."""

    name: str
    kind: str
    label: str
    place: tuple[int, int]
    extensions: str = ""
    event: str = ""
    attributes: str = ""
    incoming: list[str] = field(default_factory=list)
    outgoing: list[str] = field(default_factory=list)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in the diagram."""
        return next(size for word, size in _SIZES.items() if self.kind.endswith(word))

    def __str__(self) -> str:
        ways = "".join(f"      <bpmn:incoming>{flow}</bpmn:incoming>\n" for flow in self.incoming)
        ways += "".join(f"      <bpmn:outgoing>{flow}</bpmn:outgoing>\n" for flow in self.outgoing)
        name = f'id="{self.name}"{_label(self.label)}{self.attributes}'
        return f"    <bpmn:{self.kind} {name}>\n{self.extensions}{ways}{self.event}    </bpmn:{self.kind}>\n"

    @property
    def shape(self) -> str:
        """The node in the diagram."""
        (x, y), (width, height) = self.place, self.size
        return (
            f'      <bpmndi:BPMNShape id="{self.name}_di" bpmnElement="{self.name}">\n'
            f'        <dc:Bounds x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}" />\n'
            "        <bpmndi:BPMNLabel />\n      </bpmndi:BPMNShape>\n"
        )


class _Drawing:
    """One model while it is drawn, from left to right."""

    def __init__(self, random: Random, key: str) -> None:
        self._random = random
        self._key = key
        self._nodes: list[_Node] = []
        self._flows: list[str] = []
        self._edges: list[str] = []
        self._messages: list[str] = []

    def draw(self, steps: int) -> bytes:
        """The whole document."""
        last = self._node("startEvent", "begin", "Case is opened", 0)
        column = 1
        while steps > 0:
            last, column, used = self._step(last, column)
            steps -= used
        self._connect(last, self._node("endEvent", "done", "Case is closed", column))
        return self._document()

    def _step(self, last: _Node, column: int) -> tuple[_Node, int, int]:
        kind = self._random.random()
        if kind > 0.80:
            return self._choice(last, column)
        step = self._task(column) if kind < 0.62 else self._gate(column) if kind < 0.72 else self._wait(column)
        self._connect(last, step)
        return step, column + 1, 1

    def _choice(self, last: _Node, column: int) -> tuple[_Node, int, int]:
        """A question with two or three answers that lead back together."""
        flag = f"orch_{self._random.choice(_THINGS)}_outcome"
        split = self._node("exclusiveGateway", f"ask_{column}", "What came of it?", column)
        join = self._node("exclusiveGateway", f"join_{column}", "", column + 2)
        self._connect(last, split)
        answers = self._random.choice((2, 3))
        for row in range(answers):
            task = self._task(column + 1, row)
            condition = "" if row == answers - 1 else f'={flag} = "answer-{row}"'
            self._connect(split, task, f"answer {row}", condition)
            self._connect(task, join)
        split.attributes = f' default="{split.outgoing[-1]}"'
        return join, column + 3, answers

    def _task(self, column: int, row: int = 0) -> _Node:
        verb = f"{self._random.choice(_WORDS)}-{self._random.choice(_THINGS)}"
        kind = "sendTask" if self._random.random() < 0.1 else "serviceTask"
        task = self._node(kind, f"task_{column}_{row}", verb.replace("-", " ").capitalize(), column, row)
        task.extensions = (
            f'      <bpmn:extensionElements>\n        <zeebe:taskDefinition type="case.{verb}" retries="3" />\n'
            "      </bpmn:extensionElements>\n"
        )
        return task

    def _gate(self, column: int) -> _Node:
        """A person decides, and is reminded when that takes long."""
        gate = self._node("userTask", f"gate_{column}", "Decide on the case", column)
        timer = self._node("boundaryEvent", f"late_{column}", "3 days late", column, 1)
        timer.attributes = f' cancelActivity="false" attachedToRef="{gate.name}"'
        timer.event = (
            f'      <bpmn:timerEventDefinition id="{timer.name}_definition">\n'
            "        <bpmn:timeDuration>P3D</bpmn:timeDuration>\n      </bpmn:timerEventDefinition>\n"
        )
        remind = self._task(column, 2)
        self._connect(timer, remind)
        self._connect(remind, self._node("endEvent", f"reminded_{column}", "Reviewer is reminded", column, 3))
        return gate

    def _wait(self, column: int) -> _Node:
        message = f"message_{column}"
        self._messages.append(
            f'  <bpmn:message id="{message}" name="{self._key}-answer-{column}">\n    <bpmn:extensionElements>\n'
            '      <zeebe:subscription correlationKey="=corr_case" />\n    </bpmn:extensionElements>\n'
            "  </bpmn:message>\n"
        )
        wait = self._node("intermediateCatchEvent", f"wait_{column}", "Answer arrived", column)
        wait.event = f'      <bpmn:messageEventDefinition id="{message}_definition" messageRef="{message}" />\n'
        return wait

    def _node(self, kind: str, name: str, label: str, column: int, row: int = 0) -> _Node:
        self._nodes.append(_Node(name, kind, label, (160 + column * 170, 120 + row * 130)))
        return self._nodes[-1]

    def _connect(self, source: _Node, target: _Node, label: str = "", condition: str = "") -> None:
        flow = f"flow_{len(self._flows)}"
        source.outgoing.append(flow)
        target.incoming.append(flow)
        ends = f'sourceRef="{source.name}" targetRef="{target.name}"'
        self._flows.append(
            f'    <bpmn:sequenceFlow id="{flow}"{_label(label)} {ends}'
            + (f">\n{_condition(condition)}    </bpmn:sequenceFlow>\n" if condition else " />\n")
        )
        points = "".join(f'        <di:waypoint x="{x}" y="{y}" />\n' for x, y in (source.place, target.place))
        self._edges.append(
            f'      <bpmndi:BPMNEdge id="{flow}_di" bpmnElement="{flow}">\n{points}      </bpmndi:BPMNEdge>\n'
        )

    def _document(self) -> bytes:
        return (
            f'{_OPEN}  <bpmn:process id="{self._key}" name="{self._key}" isExecutable="true">\n'
            f"{''.join(map(str, self._nodes))}{''.join(self._flows)}  </bpmn:process>\n{''.join(self._messages)}"
            '  <bpmndi:BPMNDiagram id="Diagram_1">\n'
            f'    <bpmndi:BPMNPlane id="Plane_1" bpmnElement="{self._key}">\n'
            f"{''.join(node.shape for node in self._nodes)}{''.join(self._edges)}"
            "    </bpmndi:BPMNPlane>\n  </bpmndi:BPMNDiagram>\n</bpmn:definitions>\n"
        ).encode()


def _label(text: str) -> str:
    return f' name="{text}"' if text else ""


def _condition(text: str) -> str:
    return (
        '      <bpmn:conditionExpression xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:type="bpmn:tFormalExpression">{text}</bpmn:conditionExpression>\n'
    )
