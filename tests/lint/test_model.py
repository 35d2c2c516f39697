"""The typed model says what the file says, judges nothing and never fails."""

import pytest

from tests.support.bpmn import conditional_flow, process, tree
from tests.support.bpmn_case import everything
from verblint.bpmn.assembly import assemble
from verblint.bpmn.binding import Binding
from verblint.bpmn.element import Element
from verblint.bpmn.event_cause import (
    Compensate,
    Conditional,
    Error,
    Escalation,
    Link,
    MessageEvent,
    SignalEvent,
    Terminate,
    Timer,
    TimerKind,
    UnknownEvent,
)
from verblint.bpmn.expression import Expression
from verblint.bpmn.model import Definitions, FlowNode, NodeKind, Process
from verblint.bpmn.reader import read
from verblint.flow.message_waits import message_refs


def whole() -> Definitions:
    return assemble(read(everything(), "case.bpmn"))


def node(name: str, model: Definitions | None = None) -> FlowNode:
    for one in (model or whole()).processes:
        for _, found in one.walk():
            if found.id == name:
                return found
    raise LookupError(name)


def only_process(*parts: str) -> Process:
    (one,) = assemble(tree(process(*parts))).processes
    return one


def text_of(expression: Expression | None) -> str | None:
    return None if expression is None else expression.text


def test_every_process_of_a_file_is_there() -> None:
    model = assemble(tree(process(key="one"), "<process id='two' name='Two'/>", process(key="three")))

    assert [(p.id, p.name, p.is_executable) for p in model.processes] == [
        ("one", "", True),
        ("two", "Two", False),
        ("three", "", True),
    ]
    assert [p.id for p in model.executable] == ["one", "three"]


def test_nodes_carry_their_kind_and_unknown_ones_stay_visible() -> None:
    kinds = {n.id: n.kind for _, n in whole().processes[0].walk()}

    assert kinds == {
        "start": NodeKind.START_EVENT,
        "ask": NodeKind.SERVICE_TASK,
        "late": NodeKind.BOUNDARY_EVENT,
        "undo": NodeKind.BOUNDARY_EVENT,
        "withdraw": NodeKind.SERVICE_TASK,
        "choice": NodeKind.EXCLUSIVE_GATEWAY,
        "next": NodeKind.USER_TASK,
        "wait": NodeKind.RECEIVE_TASK,
        "sub": NodeKind.SUB_PROCESS,
        "inner-start": NodeKind.START_EVENT,
        "inner-end": NodeKind.END_EVENT,
        "strange": NodeKind.UNKNOWN,
    }


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        (NodeKind.START_EVENT, (True, False, False)),
        (NodeKind.PARALLEL_GATEWAY, (False, True, False)),
        (NodeKind.SERVICE_TASK, (False, False, True)),
        (NodeKind.CALL_ACTIVITY, (False, False, True)),
        (NodeKind.SUB_PROCESS, (False, False, True)),
        (NodeKind.UNKNOWN, (False, False, False)),
    ],
)
def test_a_kind_is_an_event_a_gateway_or_an_activity(kind: NodeKind, facts: tuple[bool, bool, bool]) -> None:
    assert (kind.is_event, kind.is_gateway, kind.is_activity) == facts


def test_flows_know_their_ends_and_their_conditions() -> None:
    flows = {flow.id: flow for _, flow in whole().processes[0].flows()}

    assert (flows["first"].source, flows["first"].target, flows["first"].condition) == ("start", "ask", None)
    assert text_of(flows["yes"].condition) == '=orch_review_outcome = "approved"'
    assert flows["no"].name == "No"
    assert "inner-flow" in flows


def test_a_scope_finds_what_enters_leaves_and_hangs_on_a_node() -> None:
    scope = whole().processes[0].scope
    ask, choice = scope.by_id["ask"], scope.by_id["choice"]

    assert [flow.id for flow in scope.incoming(ask)] == ["first"]
    assert [flow.id for flow in scope.outgoing(choice)] == ["yes", "no"]
    assert scope.outgoing(ask) == []
    assert [event.id for event in scope.boundaries(ask)] == ["late", "undo"]
    assert [flow.target for flow in scope.flows if flow.id == "no"] == ["next"]
    assert choice.default == "no"


def test_of_two_nodes_with_one_id_the_first_is_found() -> None:
    scope = only_process("<task id='t' name='first'/><task id='t' name='second'/><task name='nameless'/>").scope

    assert scope.by_id["t"].name == "first"
    assert "" not in scope.by_id


def test_a_job_is_bound_by_type_retries_and_headers() -> None:
    binding = node("ask").binding

    assert (binding.job_type, text_of(binding.retries)) == ("kyc.request-documents", "5")
    assert [(header.key, header.value) for header in binding.headers] == [("channel", "mail"), ("", "")]
    assert binding.element is not None
    assert binding.element.local == "taskDefinition"


def test_mappings_and_listeners_are_bound_too() -> None:
    binding = node("ask").binding

    assert [(m.direction, text_of(m.source), m.target) for m in binding.mappings] == [
        ("input", "=orch_x", "orch_x"),
        ("output", None, "y"),
    ]
    (listener,) = binding.execution_listeners
    assert (listener.event, text_of(listener.type), text_of(listener.retries)) == ("start", "verbworker.park", "3")


def test_a_user_task_of_the_engine_is_told_from_a_job() -> None:
    binding = node("next").binding

    assert binding.is_user_task
    (listener,) = binding.task_listeners
    assert (listener.event, text_of(listener.type), listener.retries) == ("complete", "=x", None)


def test_a_computed_job_type_is_not_a_job_type() -> None:
    definition = "<extensionElements><zeebe:taskDefinition type='=orch_x'/></extensionElements>"
    model = assemble(tree(process(f"<serviceTask id='t'>{definition}</serviceTask>")))

    assert node("t", model).binding.job_type == ""
    assert text_of(node("t", model).binding.type) == "=orch_x"


def test_a_node_without_extensions_is_bound_to_nothing() -> None:
    assert node("start").binding == Binding()
    assert node("start").binding.job_type == ""


def test_a_process_has_listeners_of_its_own() -> None:
    listeners = (
        "<extensionElements><zeebe:executionListeners>"
        "<zeebe:executionListener eventType='end' type='verbworker.complete'/>"
        "</zeebe:executionListeners></extensionElements>"
    )

    assert [one.event for one in only_process(listeners).binding.execution_listeners] == ["end"]


def test_boundary_events_know_their_activity_and_whether_they_interrupt_it() -> None:
    late, undo = node("late"), node("undo")

    assert (late.attached_to, late.is_interrupting, late.is_compensation_boundary) == ("ask", False, False)
    assert (undo.is_interrupting, undo.is_compensation_boundary) == (True, True)


def test_a_compensation_boundary_leads_to_its_handler() -> None:
    scope = whole().processes[0].scope
    handler = scope.compensation_handler(scope.by_id["undo"])

    assert handler is not None
    assert (handler.id, handler.is_for_compensation) == ("withdraw", True)


def test_an_association_that_leads_nowhere_is_no_handler() -> None:
    scope = only_process(
        "<boundaryEvent id='undo' attachedToRef='t'><compensateEventDefinition/></boundaryEvent>"
        "<association sourceRef='undo' targetRef='gone'/><association sourceRef='other' targetRef='undo'/>"
    ).scope

    assert scope.compensation_handler(scope.by_id["undo"]) is None


def test_a_subprocess_holds_a_scope_of_its_own() -> None:
    sub = node("sub")

    assert sub.scope is not None
    assert [inner.id for inner in sub.scope.nodes] == ["inner-start", "inner-end"]
    assert sub.is_event_sub_process
    assert not node("inner-start").is_interrupting
    assert [len(scope.nodes) for scope in whole().processes[0].scope.scopes()] == [10, 2]


def test_a_multi_instance_is_marked() -> None:
    loop = node("next").multi_instance

    assert loop is not None
    assert loop.is_sequential
    assert node("ask").multi_instance is None


def test_messages_carry_their_correlation_key() -> None:
    messages = whole().messages

    assert (messages["m"].name, text_of(messages["m"].correlation_key)) == ("documents-received", "=corr_documents")
    assert (messages["bare"].name, messages["bare"].correlation_key) == ("", None)
    assert node("wait").message == "m"


def test_errors_escalations_and_signals_are_declared_once_for_the_file() -> None:
    model = whole()

    assert (model.errors["broken"].name, model.errors["broken"].code) == ("Broken", "E1")
    assert model.escalations["up"].code == "U1"
    assert (model.signals["bell"].name, model.signals["bell"].code) == ("Bell", "")


def event(definition: str) -> object:
    one = only_process(f"<intermediateCatchEvent id='e'>{definition}</intermediateCatchEvent>").scope.nodes[0].event
    assert one is not None
    return one


@pytest.mark.parametrize(
    ("written", "kind", "text"),
    [
        ("<timeDate>2026-12-01T09:00:00Z</timeDate>", TimerKind.DATE, "2026-12-01T09:00:00Z"),
        ("<timeDuration>\n P5D </timeDuration>", TimerKind.DURATION, "P5D"),
        ("<timeCycle>R3/PT1H</timeCycle>", TimerKind.CYCLE, "R3/PT1H"),
        ("", None, None),
    ],
)
def test_a_timer_knows_its_kind_and_its_time(written: str, kind: TimerKind | None, text: str | None) -> None:
    timer = event(f"<timerEventDefinition>{written}</timerEventDefinition>")

    assert isinstance(timer, Timer)
    assert (timer.kind, text_of(timer.when)) == (kind, text)


@pytest.mark.parametrize(
    ("written", "kind", "ref"),
    [
        ("<messageEventDefinition messageRef='m'/>", MessageEvent, "m"),
        ("<messageEventDefinition/>", MessageEvent, ""),
        ("<errorEventDefinition errorRef='e'/>", Error, "e"),
        ("<escalationEventDefinition escalationRef='u'/>", Escalation, "u"),
        ("<signalEventDefinition signalRef='s'/>", SignalEvent, "s"),
        ("<compensateEventDefinition activityRef='a'/>", Compensate, "a"),
    ],
)
def test_an_event_refers_by_id(written: str, kind: type, ref: str) -> None:
    found = event(written)

    assert isinstance(found, kind)
    assert getattr(found, "ref") == ref  # noqa: B009  the classes share no base, only the field


def test_the_other_events_are_told_apart() -> None:
    assert isinstance(event("<terminateEventDefinition/>"), Terminate)
    assert isinstance(event("<cancelEventDefinition/>"), UnknownEvent)
    link = event("<linkEventDefinition name='jump'/>")
    assert isinstance(link, Link)
    assert link.name == "jump"


def test_a_conditional_event_may_lack_its_condition() -> None:
    full = event("<conditionalEventDefinition><condition>=orch_f</condition></conditionalEventDefinition>")
    empty = event("<conditionalEventDefinition/>")

    assert isinstance(full, Conditional)
    assert isinstance(empty, Conditional)
    assert (text_of(full.condition), empty.condition) == ("=orch_f", None)


def test_two_event_definitions_are_not_one_event() -> None:
    (one,) = only_process("<endEvent id='e'><terminateEventDefinition/><errorEventDefinition/></endEvent>").scope.nodes

    assert len(one.events) == 2
    assert one.event is None


@pytest.mark.parametrize(("written", "truth"), [("true", True), (" 1 ", True), ("false", False), ("yes", False)])
def test_booleans_are_those_of_the_schema(written: str, truth: bool) -> None:
    assert assemble(tree(f"<process isExecutable='{written}'/>")).processes[0].is_executable is truth


def test_a_root_that_is_no_definitions_gives_an_empty_model() -> None:
    assert assemble(read(b"<anything/>")).processes == ()


# Expressions


def condition(written: str) -> Expression:
    one = only_process(conditional_flow(written)).scope.flows[0].condition
    assert one is not None
    return one


def source_of(expression: Expression, start: int, end: int) -> bytes:
    place = expression.part(start, end)
    return place.element.document.source.content[place.start : place.end]


@pytest.mark.parametrize(
    ("written", "text", "feel"),
    [
        ("=orch_f", "=orch_f", "orch_f"),
        ("\n  =orch_f\t", "=orch_f", "orch_f"),
        ("= a\n= b", "= a\n= b", " a\n= b"),
        ("=", "=", ""),
        ("plain", "plain", ""),
        ("", "", ""),
        ("&#xA0;=x", "\xa0=x", ""),
    ],
)
def test_the_text_of_an_element_is_trimmed_as_the_engine_trims(written: str, text: str, feel: str) -> None:
    expression = condition(written)

    assert (expression.text, expression.feel, expression.is_feel) == (text, feel, bool(feel))


def test_an_attribute_is_not_trimmed() -> None:
    attribute = read(b"<a x=' =b'/>").attribute("x")

    assert attribute is not None
    assert not Expression.of(attribute).is_feel


def test_parts_of_an_expression_are_found_in_the_file() -> None:
    expression = condition("\n =orch_n &lt; 3 ")

    assert expression.text == "=orch_n < 3"
    assert source_of(expression, 1, 7) == b"orch_n"
    assert source_of(expression, 8, 9) == b"&lt;"
    assert source_of(expression, 0, 11) == b"=orch_n &lt; 3"


def test_a_part_beyond_the_text_shows_its_last_character() -> None:
    assert source_of(condition("=orch_n"), 7, 7) == b"n"


def test_the_place_of_an_empty_expression_is_its_tag() -> None:
    place = condition("  ").place

    assert place.element.document.source.content[place.start : place.end] == b"<conditionExpression>"


def test_the_place_of_an_expression_is_its_text() -> None:
    place = condition(" =orch_f ").place

    assert isinstance(place.element, Element)
    assert place.element.document.source.content[place.start : place.end] == b"=orch_f"


def test_only_what_waits_has_messages_that_it_waits_for() -> None:
    model = assemble(tree(process('<serviceTask id="work"/><receiveTask id="wait" messageRef="m"/>')))
    (found,) = model.processes

    assert {node.id: list(message_refs(node)) for _, node in found.walk()} == {"work": [], "wait": ["m"]}
