"""Which nodes of a process can hold two tokens at once."""

import pytest

from verblint.bpmn.assembly import assemble
from verblint.bpmn.reader import read
from verblint.flow.concurrency import concurrent_nodes, shared_nodes

_SHELL = """<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" id="d" targetNamespace="t">
<process id="p"><startEvent id="start"/><endEvent id="end"/>{body}</process></definitions>"""


def flows(*pairs: str) -> str:
    """Sequence flows, each as `from>to`."""
    ends = [pair.split(">") for pair in pairs]
    return "".join(
        f'<sequenceFlow id="f{number}" sourceRef="{source}" targetRef="{target}"/>'
        for number, (source, target) in enumerate(ends)
    )


def tasks(*names: str) -> str:
    """Service tasks."""
    return "".join(f'<serviceTask id="{name}"/>' for name in names)


FORK, JOIN = '<parallelGateway id="fork"/>', '<parallelGateway id="join"/>'
BESIDE = (
    '<boundaryEvent id="remind" attachedToRef="a" cancelActivity="{cancel}">'
    '<timerEventDefinition id="t"><timeDuration>PT1H</timeDuration></timerEventDefinition></boundaryEvent>'
)
CASES = {
    "a line": (tasks("a", "b") + flows("start>a", "a>b", "b>end"), set()),
    "branches that are joined": (
        FORK
        + JOIN
        + tasks("a", "b", "c")
        + flows("start>fork", "fork>a", "fork>b", "a>join", "b>join", "join>c", "c>end"),
        set(),
    ),
    "branches that meet without a join": (
        FORK + tasks("a", "b", "c") + flows("start>fork", "fork>a", "fork>b", "a>c", "b>c", "c>end"),
        {"c", "end"},
    ),
    "two flows into one task": (FORK + tasks("a") + flows("start>fork", "fork>a", "fork>a", "a>end"), {"a", "end"}),
    "a loop": (
        '<exclusiveGateway id="again"/>' + tasks("a") + flows("start>a", "a>again", "again>a", "again>end"),
        set(),
    ),
    "an event that interrupts": (
        tasks("a", "b") + BESIDE.format(cancel="true") + flows("start>a", "a>end", "remind>b", "b>end"),
        set(),
    ),
    "an event subprocess that may start again": (
        tasks("a")
        + flows("start>a", "a>end")
        + '<subProcess id="news" triggeredByEvent="true"><startEvent id="in" isInterrupting="false">'
        + '<messageEventDefinition messageRef="m"/></startEvent><manualTask id="read"/>'
        + flows("in>read")
        + "</subProcess>",
        {"news", "in", "read"},
    ),
    "an event that may fire again": (
        tasks("a", "b") + BESIDE.format(cancel="false") + flows("start>a", "a>end", "remind>b", "b>end"),
        {"remind", "b", "end"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_nodes_that_can_hold_two_tokens(name: str) -> None:
    body, expected = CASES[name]
    (process,) = assemble(read(_SHELL.format(body=body).encode())).processes

    assert shared_nodes(process) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a line", set()),
        ("branches that are joined", {"a", "b"}),
        ("an event that interrupts", set()),
        ("an event that may fire again", {"a", "remind", "b", "end"}),
    ],
)
def test_the_nodes_that_can_be_busy_while_another_is(name: str, expected: set[str]) -> None:
    (process,) = assemble(read(_SHELL.format(body=CASES[name][0]).encode())).processes

    assert concurrent_nodes(process) == expected
