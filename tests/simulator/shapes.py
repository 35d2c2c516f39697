"""The application of the simulation: a few small processes, their verbs, and what each is expected to do."""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from uuid import UUID

from pydantic import BaseModel

from tests.support.flags import flag_contract
from verblint.contracts.contract import Argument, Flag, FlagType, Gate
from verbworker.contract.policy import Policy, RetryPolicy
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import PermanentContract, TransientExternal
from verbworker.model.waits import ModelWait
from verbworker.model.weave import COMPLETE
from verbworker.runbook.event import Wait
from verbworker.work.gates.gate_jobs import USER_TASK

TENANT = "sim"
MESSAGE = "paper"
GATE = "approve"
ROUNDS = 2

_INSERT = "INSERT INTO effect (entry_id, verb, visit, key) VALUES ($1, $2, $3, $4)"


@dataclass(frozen=True, slots=True)
class Node:
    """One element of a process."""

    id: str
    kind: str  # task, gate, message, fork, join, choice, end
    next: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A process: its elements, where it starts, and the effects that one case of it has."""

    process: str
    nodes: Mapping[str, Node]
    start: str
    effects: Mapping[tuple[str, int], int]  # (verb, visit) -> once
    calls: tuple[tuple[str, int], ...] = ()
    messages: int = 0
    has_gate: bool = False
    waits: Mapping[str, ModelWait] = field(default_factory=dict)
    stops_with: str | None = None  # the incident that it is expected to end in

    @property
    def verb(self) -> str:
        """The workflow verb that it belongs to."""
        return f"sim.{self.process}"


def _shape(
    process: str,
    *nodes: Node,
    effects: tuple[tuple[str, int], ...],
    calls: tuple[tuple[str, int], ...] = (),
    messages: int = 0,
    has_gate: bool = False,
    waits: Mapping[str, ModelWait] | None = None,
    stops_with: str | None = None,
) -> Shape:
    end = Node(process, "end", (), COMPLETE)
    known = {node.id: node for node in (*nodes, end)}
    expected = dict.fromkeys(effects, 1)
    return Shape(process, known, nodes[0].id, expected, calls, messages, has_gate, waits or {}, stops_with)


def _task(id: str, verb: str, *next: str) -> Node:
    return Node(id, "task", next, verb)


SHAPES = {
    shape.process: shape
    for shape in (
        _shape(
            "line",
            _task("one", "sim.book", "two"),
            _task("two", "sim.call", "three"),
            _task("three", "sim.close", "line"),
            effects=(("sim.book", 0), ("sim.close", 0)),
            calls=(("sim.call", 0),),
        ),
        _shape(
            "fork",
            Node("split", "fork", ("left", "right")),
            _task("left", "sim.left", "meet"),
            _task("right", "sim.right", "meet"),
            Node("meet", "join", ("last",)),
            _task("last", "sim.close", "fork"),
            effects=(("sim.left", 0), ("sim.right", 0), ("sim.close", 0)),
        ),
        _shape(
            "loop",
            _task("again", "sim.again", "more"),
            Node("more", "choice", ("again", "loop"), "orch_more"),
            effects=tuple(("sim.again", visit) for visit in range(ROUNDS)),
        ),
        _shape(
            "mail",
            _task("one", "sim.book", "first"),
            Node("first", "message", ("second",), MESSAGE),
            Node("second", "message", ("last",), MESSAGE),
            _task("last", "sim.close", "mail"),
            effects=(("sim.book", 0), ("sim.close", 0)),
            messages=2,
            waits={name: ModelWait(Wait.EXTERNAL_SIGNAL, name, message=MESSAGE) for name in ("first", "second")},
        ),
        _shape(
            "gate",
            _task("one", "sim.book", "ask"),
            Node("ask", "gate", ("last",), USER_TASK),
            _task("last", "sim.close", "gate"),
            effects=(("sim.book", 0), ("sim.close", 0)),
            has_gate=True,
            waits={"ask": ModelWait(Wait.HUMAN_GATE, "ask", gate=GATE)},
        ),
        _shape(
            "review",
            _task("one", "sim.book", "split"),
            Node("split", "fork", ("ask", "left")),
            Node("ask", "gate", ("meet",), USER_TASK),
            _task("left", "sim.left", "meet"),
            Node("meet", "join", ("last",)),
            _task("last", "sim.close", "review"),
            effects=(("sim.book", 0), ("sim.left", 0), ("sim.close", 0)),
            has_gate=True,
            waits={"ask": ModelWait(Wait.HUMAN_GATE, "ask", gate=GATE)},
        ),
        _shape(
            "stop",
            _task("one", "sim.book", "two"),
            _task("two", "sim.refuse", "stop"),
            effects=(("sim.book", 0),),
            stops_with="Refused",
        ),
    )
}
_MODEL = """<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL" targetNamespace="http://verbworker/tests">
  <bpmn:process id="{process}" isExecutable="true">
    <bpmn:startEvent id="begin"/>
    {body}
  </bpmn:process>
</bpmn:definitions>
"""
_DRAWN = {
    "task": "serviceTask",
    "gate": "userTask",
    "message": "receiveTask",
    "fork": "parallelGateway",
    "join": "parallelGateway",
    "choice": "exclusiveGateway",
    "end": "endEvent",
}


@cache
def drawn(shape: Shape) -> bytes:
    """The process as a model, as far as it matters which elements can hold two tokens."""
    ids = {node.id: node.id if node.kind != "end" else "finish" for node in shape.nodes.values()}
    body = [f'<bpmn:{_DRAWN[node.kind]} id="{ids[node.id]}"/>' for node in shape.nodes.values()]
    flows = [("begin", shape.start), *((node.id, target) for node in shape.nodes.values() for target in node.next)]
    body += [
        f'<bpmn:sequenceFlow id="flow_{number}" sourceRef="{ids.get(source, source)}" targetRef="{ids[target]}"/>'
        for number, (source, target) in enumerate(flows)
    ]
    return _MODEL.format(process=shape.process, body="\n    ".join(body)).encode()


DEFINITION_KEYS = {process: 1000 + place for place, process in enumerate(SHAPES)}


class Case(BaseModel):
    """What the verbs work on: how often each was done, and what came from outside."""

    number: str
    book: int = 0
    call: int = 0
    close: int = 0
    left: int = 0
    right: int = 0
    again: int = 0


@dataclass
class Outside:
    """The other side of external calls, and how long verbs take: set anew for each schedule."""

    pause: Callable[[str], float]
    fails: Callable[[str], bool]
    calls: list[tuple[UUID, str, int, str]] = field(default_factory=list)


OUTSIDE: ContextVar[Outside] = ContextVar("outside")


def _registry() -> Registry:
    registry = Registry()

    def transactional(name: str, flags: Callable[[Case], dict[str, object]] = lambda case: {}) -> None:
        column = name.removeprefix("sim.")

        @registry.verb(name, mode="transactional", writes=(column,), max_runs=30, policy="patient")
        async def act(case: Case, call: Call) -> Result[Case]:
            outside = OUTSIDE.get()
            visit: int = getattr(case, column)
            await asyncio.sleep(outside.pause(name))
            await call.db.execute(_INSERT, call.entry_id, name, visit, call.idempotency_key)
            if outside.fails(name):
                raise TransientExternal("the other side is busy")
            done = case.model_copy(update={column: visit + 1})
            return Result(done, flags=flags(done))

    for name in ("sim.book", "sim.close", "sim.left", "sim.right"):
        transactional(name)
    transactional("sim.again", lambda case: {"orch_more": case.again < ROUNDS})

    @registry.verb("sim.call", mode="external", writes=("call",), max_runs=30, policy="patient")
    async def call_out(case: Case, call: Call) -> Result[Case]:
        outside = OUTSIDE.get()
        await asyncio.sleep(outside.pause("sim.call"))
        if outside.fails("sim.call"):
            raise TransientExternal("the other side is busy")
        outside.calls.append((call.entry_id, "sim.call", case.call, call.idempotency_key))
        await asyncio.sleep(outside.pause("sim.call"))
        return Result(case.model_copy(update={"call": case.call + 1}))

    @registry.verb("sim.refuse", mode="transactional", writes=(), max_runs=30, policy="patient")
    async def refuse(case: Case, call: Call) -> Result[Case]:
        raise PermanentContract("this is never done", code="Refused")

    policy = Policy(
        name="patient",
        schedule_to_close_timeout_seconds=86_400,
        start_to_close_timeout_seconds=60,
        retry=RetryPolicy(
            maximum_attempts=100, initial_interval_seconds=1, maximum_interval_seconds=5, backoff_coefficient=2
        ),
    )
    registry.declare(*(_workflow(shape) for shape in SHAPES.values()), policies=[policy])
    return registry.check()


def _workflow(shape: Shape) -> WorkflowVerb:
    flags = [Flag("orch_more", FlagType.BOOLEAN, False)] if shape.process == "loop" else []
    has_mail = bool(shape.messages)
    return WorkflowVerb(
        name=shape.verb,
        version=1,
        process=shape.process,
        schema=f"{shape.verb}/v1",
        sub_verbs=tuple(sorted({node.type for node in shape.nodes.values() if node.kind == "task"})),
        correlation={"corr_number": "${state.number}"} if has_mail else {},
        messages={MESSAGE: "corr_number"} if has_mail else {},
        gates={GATE: Gate(GATE, "ask", ("yes", "no"))} if shape.has_gate else {},
        args={"number": Argument(type="string", required=True)},
        initial={"number": "args.number"},
        flag_contract=flag_contract(*flags),
        policy="patient",
    )


REGISTRY = _registry()
