"""Which nodes of a process an instance enters at most once."""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.lint.test_concurrency import BESIDE, FORK, JOIN, flows, tasks
from verblint.bpmn.assembly import assemble
from verblint.bpmn.event_cause import Timer, TimerKind
from verblint.bpmn.model import NodeKind, Process, Scope
from verblint.bpmn.reader import read
from verblint.flow import visits
from verblint.flow.concurrency import TooEntangled
from verblint.flow.visits import once_nodes

_SHELL = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"'
    ' xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" id="d" targetNamespace="t">'
    '<process id="p"><startEvent id="start"/><endEvent id="end"/>{body}</process></definitions>'
)
_INNER = '<startEvent id="in"{start}/>{loop}' + tasks("a") + flows("in>a")
SUB = '<subProcess id="sub">{}</subProcess>'
AROUND = '<subProcess id="sub" triggeredByEvent="true">{}</subProcess>'
ONCE = BESIDE.format(cancel="false")
AGAIN = ONCE.replace("timeDuration", "timeCycle").replace("PT1H", "R/PT1H")
LOOP = '<multiInstanceLoopCharacteristics id="m"/>'
CASES = {
    "a line": (tasks("a", "b") + flows("start>a", "a>b", "b>end"), {"a", "b", "end"}),
    "branches that are joined": (
        FORK
        + JOIN
        + tasks("a", "b", "c")
        + flows("start>fork", "fork>a", "fork>b", "a>join", "b>join", "join>c", "c>end"),
        {"a", "b", "c", "end"},
    ),
    "branches that meet without a join": (
        FORK + tasks("a", "b", "c") + flows("start>fork", "fork>a", "fork>b", "a>c", "b>c", "c>end"),
        {"a", "b"},
    ),
    "two flows into one task": (FORK + tasks("a") + flows("start>fork", "fork>a", "fork>a", "a>end"), set()),
    "ways that exclude each other": (
        '<exclusiveGateway id="which"/>'
        + tasks("a", "b", "c")
        + flows("start>which", "which>a", "which>b", "a>c", "b>c", "c>end"),
        {"a", "b", "c", "end"},
    ),
    "ways that need not exclude each other": (
        '<inclusiveGateway id="which"/>'
        + tasks("a", "b", "c")
        + flows("start>which", "which>a", "which>b", "a>c", "b>c", "c>end"),
        {"a", "b"},
    ),
    "a loop, and what comes behind it": (
        '<exclusiveGateway id="again"/>' + tasks("a", "b") + flows("start>a", "a>again", "again>a", "again>b", "b>end"),
        {"b", "end"},
    ),
    "a loop that lets go of a token in each round": (
        FORK + tasks("a", "b") + flows("start>a", "a>fork", "fork>a", "fork>b", "b>end"),
        set(),
    ),
    "an event that interrupts": (
        tasks("a", "b") + BESIDE.format(cancel="true") + flows("start>a", "a>end", "remind>b", "b>end"),
        {"a", "b", "remind", "end"},
    ),
    "an event that may fire again": (
        tasks("a", "b") + AGAIN + flows("start>a", "a>end", "remind>b", "b>end"),
        {"a"},
    ),
    "a reminder that fires once": (
        tasks("a", "b", "c") + ONCE + flows("start>a", "a>c", "c>end", "remind>b"),
        {"a", "b", "c", "remind", "end"},
    ),
    "a reminder that fires once and joins the way": (
        tasks("a", "b") + ONCE + flows("start>a", "a>b", "b>end", "remind>b"),
        {"a", "remind"},
    ),
    "a reminder that fires once for each round": (
        '<exclusiveGateway id="again"/>'
        + tasks("a", "b", "c")
        + ONCE
        + flows("start>a", "a>again", "again>a", "again>c", "c>end", "remind>b"),
        {"c", "end"},
    ),
    "a reminder beside an event that interrupts to the same task": (
        tasks("a", "b")
        + ONCE
        + BESIDE.format(cancel="true").replace("remind", "stop")
        + flows("start>a", "a>end", "remind>b", "stop>b"),
        {"a", "remind", "stop", "end"},
    ),
    "a boundary event of nothing": (
        tasks("b") + BESIDE.format(cancel="true") + flows("start>b", "b>end", "remind>b"),
        None,
    ),
    "a subprocess": (
        SUB.format(_INNER.format(start="", loop="")) + flows("start>sub", "sub>end"),
        {"sub", "in", "a", "end"},
    ),
    "a subprocess per item": (
        SUB.format(_INNER.format(start="", loop=LOOP)) + tasks("b") + flows("start>sub", "sub>b", "b>end"),
        {"b", "end"},
    ),
    "a task per item": (f'<serviceTask id="a">{LOOP}</serviceTask>' + flows("start>a", "a>end"), {"end"}),
    "a task in a standard loop": (
        '<serviceTask id="a"><standardLoopCharacteristics id="m"/></serviceTask>' + flows("start>a", "a>end"),
        {"end"},
    ),
    "a task with a listener": (
        '<serviceTask id="a"><extensionElements><zeebe:executionListeners>'
        '<zeebe:executionListener eventType="start" type="x"/></zeebe:executionListeners></extensionElements>'
        "</serviceTask>" + flows("start>a", "a>end"),
        {"end"},
    ),
    "an event subprocess that interrupts": (
        AROUND.format(_INNER.format(start="", loop="")) + tasks("b") + flows("start>b", "b>end"),
        {"in", "a", "b", "end"},
    ),
    "an event subprocess that may begin again": (
        AROUND.format(_INNER.format(start=' isInterrupting="false"', loop="")) + tasks("b") + flows("start>b", "b>end"),
        {"b", "end"},
    ),
    "a compensation handler": (
        '<serviceTask id="undo" isForCompensation="true"/>' + tasks("a") + flows("start>a", "a>end"),
        {"a", "end"},
    ),
    "a subprocess of any order": (
        f'<adHocSubProcess id="sub">{tasks("a")}</adHocSubProcess>' + flows("start>sub", "sub>end"),
        {"end"},
    ),
    "a second beginning": (tasks("a", "b") + flows("start>a", "a>end", "b>end"), None),
    "a second start event": (tasks("a") + '<startEvent id="other"/>' + flows("start>a", "other>a", "a>end"), None),
    "a gateway that is not understood": (
        '<complexGateway id="which"/>' + tasks("a") + flows("start>which", "which>a", "a>end"),
        None,
    ),
    "a name that is given twice": (
        tasks("a") + SUB.format(_INNER.format(start="", loop="")) + flows("start>a", "a>sub", "sub>end"),
        {"sub", "in", "end"},
    ),
}


def assembled(body: str) -> Process:
    (process,) = assemble(read(_SHELL.format(body=body).encode())).processes
    return process


@pytest.mark.parametrize("name", CASES)
def test_the_nodes_that_are_entered_once(name: str) -> None:
    body, expected = CASES[name]

    assert once_nodes(assembled(body)) == (set() if expected is None else expected | {"start"})


def test_a_process_that_forks_too_often_is_not_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "MAX_STEPS", 3)

    with pytest.raises(TooEntangled):
        once_nodes(assembled(tasks("a", "b") + flows("start>a", "a>b", "b>end")))


# ---- against tokens that are moved one by one -----------------------------------------------------------------------

_KINDS = ("serviceTask", "serviceTask", "serviceTask", "exclusiveGateway", "parallelGateway", "inclusiveGateway")
_MOST_STATES = 1500


def random_body(dice: Random) -> str:
    """A few nodes, flows among them in any direction, and sometimes a boundary event."""
    count = dice.randint(2, 7)
    names = [f"n{place}" for place in range(count)]
    body = "".join(f'<{dice.choice(_KINDS)} id="{name}"/>' for name in names)
    pairs = ["start>n0", *(f"n{dice.randrange(place)}>n{place}" for place in range(1, count))]
    for _ in range(dice.randint(0, 4)):
        one, other = dice.randrange(count), dice.randrange(count)
        if one < other or dice.random() < 0.25:
            pairs.append(f"n{one}>n{other}")
    host = dice.choice(names)
    if dice.random() < 0.4 and f'<serviceTask id="{host}"/>' in body:
        drawn = dice.choice((BESIDE.format(cancel="true"), AGAIN, ONCE))
        body += drawn.replace('attachedToRef="a"', f'attachedToRef="{host}"')
        pairs.append(f"remind>{dice.choice(names)}")
    return body + flows(*pairs, "n0>end") if dice.random() < 0.5 else body + flows(*pairs)


def entered_twice(scope: Scope) -> set[str]:
    """The nodes that some run enters more than once, as far as a bounded number of states shows."""
    first = (Counter({"start": 1}), Counter({"start": 1}))
    seen: set[object] = set()
    pending = [first]
    found: set[str] = set()
    while pending and len(seen) < _MOST_STATES:
        tokens, entries = pending.pop(0)
        found |= {name for name, count in entries.items() if count > 1}
        state = (frozenset(tokens.items()), frozenset((name, min(count, 2)) for name, count in entries.items()))
        if state not in seen and sum(tokens.values()) < 8:
            seen.add(state)
            pending += _steps(scope, tokens, entries)
    return found


def _steps(scope: Scope, tokens: Counter[str], entries: Counter[str]) -> Iterator[tuple[Counter[str], Counter[str]]]:
    for node in scope.nodes:
        incoming = [flow.id for flow in scope.incoming(node)]
        joins = node.kind is NodeKind.PARALLEL_GATEWAY
        needed = Counter(incoming) if joins else Counter({node.id: 1})
        if not needed or any(tokens[place] < count for place, count in needed.items()):
            continue
        rest = tokens - needed
        for taken in _choices(scope, node.kind, [flow.id for flow in scope.outgoing(node)]):
            yield _moved(scope, rest, entries, taken)
        for boundary in scope.boundaries(node):
            is_single = any(isinstance(event, Timer) and event.kind is TimerKind.DURATION for event in boundary.events)
            if is_single and entries[boundary.id] == entries[node.id]:
                continue  # it has fired for every token that came here
            begun = Counter(entries)
            begun[boundary.id] += 1
            yield (rest if boundary.is_interrupting else tokens) + Counter({boundary.id: 1}), begun


def _choices(scope: Scope, kind: NodeKind, ways: list[str]) -> list[list[str]]:
    if kind is NodeKind.EXCLUSIVE_GATEWAY:
        return [[way] for way in ways] or [[]]
    if kind is NodeKind.INCLUSIVE_GATEWAY:
        return [[way] for way in ways] + [ways]
    return [ways]


def _moved(
    scope: Scope, tokens: Counter[str], entries: Counter[str], taken: list[str]
) -> tuple[Counter[str], Counter[str]]:
    tokens, entries = Counter(tokens), Counter(entries)
    for way in taken:
        target = scope.by_id[next(flow.target for flow in scope.flows if flow.id == way)]
        tokens[way if target.kind is NodeKind.PARALLEL_GATEWAY else target.id] += 1
        entries[target.id] += 1
    return tokens, entries


def test_no_run_enters_a_node_twice_that_is_said_to_be_entered_once() -> None:
    said = twice = 0
    for seed in range(400):
        process = assembled(random_body(Random(seed)))
        once, seen = once_nodes(process), entered_twice(process.scope)
        said += len(once - {"start"})
        twice += len(seen)

        assert not once & seen, seed
    assert said > 300
    assert twice > 300
