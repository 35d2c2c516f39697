"""Models that were made to cost a linter much: each grows in one way."""

from collections.abc import Callable

_HEAD = (
    '<?xml version="1.0"?><definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"'
    ' xmlns:zeebe="http://camunda.org/schema/zeebe/1.0" xmlns:vw="https://verbworker.dev/bpmn/1"'
    ' xmlns:ameide="https://ameide.io/schema/bpmn" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' targetNamespace="x">'
)


def _process(inside: str, before: str = "", attributes: str = "") -> bytes:
    return f'{_HEAD}{before}<process id="p" isExecutable="true"{attributes}>{inside}</process></definitions>'.encode()


def _task(number: int | str, more: str = "") -> str:
    definition = f'<zeebe:taskDefinition type="x.t{number}"/>'
    return f'<serviceTask id="t{number}"><extensionElements>{definition}{more}</extensionElements></serviceTask>'


def _flow(number: int | str, source: str, target: str, condition: str = "") -> str:
    inside = f'<conditionExpression xsi:type="tFormalExpression">{condition}</conditionExpression>' if condition else ""
    return f'<sequenceFlow id="f{number}" sourceRef="{source}" targetRef="{target}">{inside}</sequenceFlow>'


def attributes(n: int) -> bytes:
    """One element with many unknown attributes."""
    return _process('<startEvent id="s" ' + " ".join(f'a{i}="1"' for i in range(n)) + "/>")


def chain(n: int) -> bytes:
    """Tasks one after the other."""
    tasks = "".join(_task(i) for i in range(n))
    flows = "".join(_flow(i, f"t{i}", f"t{i + 1}") for i in range(n - 1))
    return _process(
        f'<startEvent id="s"/>{tasks}<endEvent id="e"/>{flows}{_flow("s", "s", "t0")}{_flow("e", f"t{n - 1}", "e")}'
    )


def fan(n: int) -> bytes:
    """A parallel gateway with many branches that join again."""
    tasks = "".join(_task(i) for i in range(n))
    flows = "".join(_flow(f"a{i}", "g", f"t{i}") + _flow(f"b{i}", f"t{i}", "j") for i in range(n))
    gateways = '<parallelGateway id="g"/><parallelGateway id="j"/>'
    return _process(
        f'<startEvent id="s"/>{gateways}{tasks}<endEvent id="e"/>{flows}{_flow("s", "s", "g")}{_flow("e", "j", "e")}'
    )


def choice(n: int) -> bytes:
    """An exclusive gateway with many conditions."""
    flows = "".join(_flow(f"a{i}", "g", f"t{i}", f"=orch_f{i} = true") for i in range(n))
    tasks = "".join(_task(i) for i in range(n))
    return _process(f'<startEvent id="s"/><exclusiveGateway id="g"/>{tasks}{flows}{_flow("s", "s", "g")}')


def ladder(n: int) -> bytes:
    """Gateways in a row, each with a way back to the first."""
    gateways = "".join(f'<exclusiveGateway id="g{i}"/>' for i in range(n))
    flows = "".join(
        _flow(f"a{i}", f"g{i}", f"g{i + 1}", "=orch_a") + _flow(f"b{i}", f"g{i}", "g0", "=orch_b") for i in range(n - 1)
    )
    return _process(f'<startEvent id="s"/>{gateways}{flows}{_flow("s", "s", "g0")}')


def boundaries(n: int) -> bytes:
    """One task with many boundary events."""
    events = "".join(
        f'<boundaryEvent id="b{i}" attachedToRef="t0"><errorEventDefinition errorRef="e{i}"/></boundaryEvent>'
        for i in range(n)
    )
    errors = "".join(f'<error id="e{i}" errorCode="C{i}"/>' for i in range(n))
    return _process(f'<startEvent id="s"/>{_task(0)}{events}{_flow("s", "s", "t0")}', errors)


def same_ids(n: int) -> bytes:
    """Elements that all have one id."""
    return _process("".join('<endEvent id="same"/>' for _ in range(n)))


def messages(n: int) -> bytes:
    """Messages with one name, each waited for."""
    given = "".join(f'<message id="m{i}" name="letter"/>' for i in range(n))
    waits = "".join(
        f'<intermediateCatchEvent id="c{i}"><messageEventDefinition messageRef="m{i}"/></intermediateCatchEvent>'
        for i in range(n)
    )
    return _process(f'<startEvent id="s"/>{waits}{"".join(_flow(i, "s", f"c{i}") for i in range(n))}', given)


def mappings(n: int) -> bytes:
    """One task with many inputs and outputs."""
    lines = "".join(
        f'<zeebe:input source="=a{i}" target="b{i}"/><zeebe:output source="=b{i}" target="c{i}"/>' for i in range(n)
    )
    return _process(
        f'<startEvent id="s"/>{_task(0, f"<zeebe:ioMapping>{lines}</zeebe:ioMapping>")}{_flow("s", "s", "t0")}'
    )


def headers(n: int) -> bytes:
    """One task with many headers of one name."""
    lines = "".join('<zeebe:header key="k" value="v"/>' for _ in range(n))
    return _process(
        f'<startEvent id="s"/>{_task(0, f"<zeebe:taskHeaders>{lines}</zeebe:taskHeaders>")}{_flow("s", "s", "t0")}'
    )


def subprocesses(n: int) -> bytes:
    """Subprocesses side by side."""
    scopes = "".join(
        f'<subProcess id="u{i}"><startEvent id="us{i}"/>{_task(i)}{_flow(f"u{i}", f"us{i}", f"t{i}")}</subProcess>'
        for i in range(n)
    )
    return _process(f'<startEvent id="s"/>{scopes}{"".join(_flow(f"o{i}", "s", f"u{i}") for i in range(n))}')


def nested(n: int) -> bytes:
    """Subprocesses inside each other, in bundles of forty, which is as deep as the reader allows."""
    one = "".join(f'<subProcess id="n%d-{i}">' for i in range(40)) + "</subProcess>" * 40
    return _process("".join(one.replace("%d", str(i)) for i in range(max(n // 40, 1))))


def data(n: int) -> bytes:
    """Data objects and text annotations that nothing refers to."""
    return _process(
        "".join(f'<dataObject id="d{i}"/><textAnnotation id="x{i}"><text>a</text></textAnnotation>' for i in range(n))
    )


def unknown_elements(n: int) -> bytes:
    """Elements of no namespace that is known."""
    return _process("".join(f'<zeebe:foo{i % 7} bar="1"/>' for i in range(n)))


def lines(n: int) -> bytes:
    """A finding on each of many lines."""
    return _process("\n".join(f'<endEvent id="e{i}" foo="1"/>' for i in range(n)))


def one_line(n: int) -> bytes:
    """The same on one line, with letters of several bytes before."""
    return _process("".join(f'<endEvent id="e{i}" name="ä€" foo="1"/>' for i in range(n)))


def long_texts(n: int) -> bytes:
    """A condition and a name of many characters."""
    condition = "=" + "(" * 5 + "orch_a" + " or orch_a" * (n // 10)
    return _process(f'<startEvent id="s" name="{"n" * n}"/>{_task(0)}{_flow("s", "s", "t0", condition)}')


def incoming(n: int) -> bytes:
    """Names of flows that an element says to have, and that do not exist."""
    return _process('<endEvent id="e">' + "".join(f"<incoming>f{i}</incoming>" for i in range(n)) + "</endEvent>")


def shapes(n: int) -> bytes:
    """A diagram with many shapes of one element."""
    plane = "".join(
        f'<di:BPMNShape id="h{i}" bpmnElement="s"><dc:Bounds x="1" y="1" width="1" height="1"/></di:BPMNShape>'
        for i in range(n)
    )
    spaces = 'xmlns:di="http://www.omg.org/spec/BPMN/20100524/DI" xmlns:dc="http://www.omg.org/spec/DD/20100524/DC"'
    diagram = f'<di:BPMNDiagram {spaces}><di:BPMNPlane bpmnElement="p">{plane}</di:BPMNPlane></di:BPMNDiagram>'
    return _process('<startEvent id="s"/>').replace(b"</definitions>", f"{diagram}</definitions>".encode())


def listeners(n: int) -> bytes:
    """One task with many listeners of one kind."""
    lines = "".join(f'<zeebe:executionListener eventType="start" type="x.l{i}"/>' for i in range(n))
    task = _task(0, f"<zeebe:executionListeners>{lines}</zeebe:executionListeners>")
    return _process(f'<startEvent id="s"/>{task}{_flow("s", "s", "t0")}')


def events(n: int) -> bytes:
    """Event subprocesses that wait for one message."""
    scopes = "".join(
        f'<subProcess id="v{i}" triggeredByEvent="true"><startEvent id="w{i}" isInterrupting="false">'
        f'<messageEventDefinition messageRef="m"/></startEvent></subProcess>'
        for i in range(n)
    )
    return _process(f'<startEvent id="s"/>{scopes}', '<message id="m" name="letter"/>')


def writers(n: int) -> bytes:
    """Parallel branches whose tasks all are the same verb."""
    tasks = "".join(_task(i).replace(f'type="x.t{i}"', 'type="x.same"') for i in range(n))
    flows = "".join(_flow(f"a{i}", "g", f"t{i}") + _flow(f"b{i}", f"t{i}", "j") for i in range(n))
    gateways = '<parallelGateway id="g"/><parallelGateway id="j"/>'
    return _process(
        f'<startEvent id="s"/>{gateways}{tasks}<endEvent id="e"/>{flows}{_flow("s", "s", "g")}{_flow("e", "j", "e")}'
    )


MODELS: dict[str, Callable[[int], bytes]] = {
    made.__name__: made
    for made in (
        *(attributes, chain, fan, choice, ladder, boundaries, same_ids, messages, mappings, headers, subprocesses),
        *(nested, data, unknown_elements, lines, one_line, long_texts, incoming, shapes, listeners, events, writers),
    )
}
