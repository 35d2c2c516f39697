"""Weaving: what is put into a model, where, and that nothing else changes."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.bpmn import document, process
from tests.support.model_source import ModelSource
from tests.support.weaving import (
    BY_ERROR,
    BY_MESSAGE,
    BY_TIMER,
    SHARED,
    listeners,
    model_of,
    opened,
    registry_of,
    retries,
    stripped,
    the_process,
    woven,
)
from verblint.bpmn.element import BPMN, ZEEBE
from verbs import registry
from verbworker.contract.policy import Policy, RetryPolicy
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.errors import Refused
from verbworker.model.weave import COMPENSATE_RETRIES, LISTENER_RETRIES, weave
from verbworker.profile.task_profile import HEADER

PARK = ("start", "verbworker.park")
UNPARK = ("end", "verbworker.unpark")
FIRED = ("end", "verbworker.fired")
COMPLETE = ("end", "verbworker.complete")


def task(job_type: str, *, key: str = "work", attributes: str = "") -> str:
    definition = f'<zeebe:taskDefinition type="{job_type}"{attributes}/>'
    return f'<serviceTask id="{key}"><extensionElements>{definition}</extensionElements></serviceTask>'


TASK = task("kyc.check")
ELEMENTS = {
    "a message catch event": (f'<intermediateCatchEvent id="x">{BY_MESSAGE}</intermediateCatchEvent>', [PARK, UNPARK]),
    "a timer catch event": (f'<intermediateCatchEvent id="x">{BY_TIMER}</intermediateCatchEvent>', [PARK, UNPARK]),
    "a receive task": ('<receiveTask id="x" messageRef="letter"/>', [PARK, UNPARK]),
    "an event-based gateway": ('<eventBasedGateway id="x"/>', [PARK]),
    "a boundary timer": (f'{TASK}<boundaryEvent id="x" attachedToRef="work">{BY_TIMER}</boundaryEvent>', [FIRED]),
    "a boundary message": (f'{TASK}<boundaryEvent id="x" attachedToRef="work">{BY_MESSAGE}</boundaryEvent>', [FIRED]),
    "a boundary error": (f'{TASK}<boundaryEvent id="x" attachedToRef="work">{BY_ERROR}</boundaryEvent>', [FIRED]),
    "the start of an event subprocess": (
        f'<subProcess id="late" triggeredByEvent="true"><startEvent id="x">{BY_TIMER}</startEvent></subProcess>',
        [FIRED],
    ),
    "a catch event in a subprocess": (
        f'<subProcess id="in"><intermediateCatchEvent id="x">{BY_TIMER}</intermediateCatchEvent></subProcess>',
        [PARK, UNPARK],
    ),
}
SILENT = {
    "a user task": '<userTask id="x"/>',
    "a service task": TASK.replace('"work"', '"x"'),
    "a compensation boundary event": (
        f'{TASK}<boundaryEvent id="x" attachedToRef="work"><compensateEventDefinition/></boundaryEvent>'
    ),
    "a link": '<intermediateCatchEvent id="x"><linkEventDefinition name="on"/></intermediateCatchEvent>',
    "a parallel gateway": '<parallelGateway id="x"/>',
    "an end event": '<endEvent id="x"/>',
    "the start of a subprocess": '<subProcess id="in"><startEvent id="x"/></subProcess>',
}


def policy(name: str, attempts: int) -> Policy:
    retry = RetryPolicy(
        maximum_attempts=attempts, initial_interval_seconds=1, maximum_interval_seconds=1, backoff_coefficient=1
    )
    return Policy(name=name, schedule_to_close_timeout_seconds=9, start_to_close_timeout_seconds=9, retry=retry)


@pytest.mark.req("WAIT-06", "ADP-03")
@pytest.mark.parametrize(("part", "wanted"), ELEMENTS.values(), ids=ELEMENTS)
def test_what_waits_or_interrupts_has_its_listeners(part: str, wanted: list[tuple[str, str]]) -> None:
    assert listeners(woven(part).content)["x"] == wanted


@pytest.mark.parametrize("part", SILENT.values(), ids=SILENT)
def test_nothing_else_has_a_listener(part: str) -> None:
    assert listeners(woven(part).content) == {"case": [COMPLETE]}


@pytest.mark.req("EVT-11")
def test_the_end_of_the_process_is_told_and_its_start_is_not() -> None:
    assert listeners(woven('<startEvent id="begin"/>').content) == {"case": [COMPLETE]}


def test_the_start_of_a_process_is_told_when_a_message_starts_it() -> None:
    content = woven(f'<startEvent id="begin">{BY_MESSAGE}</startEvent>').content

    assert listeners(content) == {"case": [COMPLETE], "begin": [("end", "verbworker.start")]}


def test_behind_an_event_based_gateway_only_the_gateway_parks() -> None:
    content = woven(
        '<eventBasedGateway id="first"/>',
        f'<intermediateCatchEvent id="late">{BY_TIMER}</intermediateCatchEvent>',
        f'<intermediateCatchEvent id="came">{BY_MESSAGE}</intermediateCatchEvent>',
        '<sequenceFlow id="a" sourceRef="first" targetRef="late"/>',
        '<sequenceFlow id="b" sourceRef="first" targetRef="came"/>',
    ).content

    assert listeners(content) == {"case": [COMPLETE], "first": [PARK], "late": [UNPARK], "came": [UNPARK]}


def test_a_listener_is_tried_often() -> None:
    (listener,) = the_process(woven('<startEvent id="begin"/>').content).binding.execution_listeners

    assert listener.retries is not None
    assert listener.retries.text == str(LISTENER_RETRIES)


@pytest.mark.parametrize(
    ("job_type", "written", "named", "wanted"),
    [
        ("kyc.check", "", "patient", "7"),
        ("kyc.check", ' retries="7"', "patient", "7"),
        ("kyc.check", ' retries="2"', "patient", "7"),
        ("kyc.check", "", None, "3"),
        ("kyc.check", ' retries="5"', None, "5"),
        ("verbworker.compensate", "", "patient", str(COMPENSATE_RETRIES)),
        ("verbworker.compensate", ' retries="2"', "patient", "2"),
    ],
)
def test_retries_are_the_policys_or_else_the_authors(
    job_type: str, written: str, named: str | None, wanted: str
) -> None:
    registry = registry_of(policy=named, policies=[policy("patient", 7)])

    assert retries(woven(task(job_type, attributes=written), registry=registry).content) == {"work": wanted}


def test_a_step_may_have_a_policy_of_its_own() -> None:
    verb = WorkflowVerb(
        name="kyc.open-case",
        version=1,
        process="case",
        schema="kyc/v1",
        policy="hasty",
        policies={"kyc.check": "patient"},
    )
    registry = Registry().declare(verb, policies=[policy("patient", 7), policy("hasty", 2)])
    content = woven(task("kyc.check"), task("kyc.open", key="other"), registry=registry).content

    assert retries(content) == {"work": "7", "other": "2"}


@pytest.mark.parametrize(
    "kind", ["sendTask", "intermediateThrowEvent", "endEvent"], ids=["send task", "throw event", "end event"]
)
def test_every_job_has_retries(kind: str) -> None:
    definition = '<extensionElements><zeebe:taskDefinition type="kyc.tell"/></extensionElements>'
    event = "" if kind == "sendTask" else BY_MESSAGE

    assert retries(woven(f'<{kind} id="tell">{definition}{event}</{kind}>').content) == {"tell": "3"}


SHAPES = {
    "a tag that closes itself": '<receiveTask id="x" messageRef="letter"/>',
    "a tag with a bracket in a value": '<receiveTask id="x" name="a > b"  messageRef="letter" />',
    "single quotes": "<receiveTask id='x' messageRef='letter' />",
    "an empty element": '<receiveTask id="x" messageRef="letter"></receiveTask>',
    "documentation": '<receiveTask id="x" messageRef="letter"><documentation>a &lt; b</documentation></receiveTask>',
    "two documentations and a comment": (
        '<receiveTask id="x" messageRef="letter"><!-- one --><documentation><![CDATA[</receiveTask>]]></documentation>'
        '<documentation textFormat="text/plain" /> <!-- two --><incoming>a</incoming></receiveTask>'
    ),
    "empty extension elements": '<receiveTask id="x" messageRef="letter"><extensionElements /></receiveTask>',
    "extension elements with a comment": (
        '<receiveTask id="x" messageRef="letter"><extensionElements><!-- > --></extensionElements></receiveTask>'
    ),
    "other extension elements": (
        '<receiveTask id="x" messageRef="letter"><extensionElements><zeebe:properties><zeebe:property name="a"'
        ' value="b"/></zeebe:properties></extensionElements></receiveTask>'
    ),
    "empty listeners": (
        '<receiveTask id="x" messageRef="letter"><extensionElements><zeebe:executionListeners/>'
        "</extensionElements></receiveTask>"
    ),
    "another prefix": f'<b:receiveTask xmlns:b="{BPMN}" id="x" messageRef="letter"/>',
    "a prefix that means something else outside": (
        f'<zeebe:receiveTask xmlns:zeebe="{BPMN}" id="x" messageRef="letter"><zeebe:extensionElements/>'
        "</zeebe:receiveTask>"
    ),
    "a prefix that means nothing inside": (
        f'<b:receiveTask xmlns:b="{BPMN}" xmlns="urn:else" id="x" messageRef="letter"><b:incoming>a</b:incoming>'
        "</b:receiveTask>"
    ),
}


@pytest.mark.parametrize("part", SHAPES.values(), ids=SHAPES)
def test_however_an_element_is_written_it_gets_its_listeners_and_keeps_the_rest(part: str) -> None:
    authored = document(SHARED, process(part))
    content = weave(authored, registry_of()).content

    assert listeners(content)["x"] == [PARK, UNPARK]
    assert stripped(content) == opened(authored)


@pytest.mark.parametrize(
    ("engine", "events"),
    [((8, 6), ["end"]), ((8, 8), ["end"]), ((8, 9), ["end"]), ((8, 10), ["end", "cancel"])],
)
def test_a_process_reports_its_cancellation_where_the_engine_can(engine: tuple[int, int], events: list[str]) -> None:
    content = weave(document(SHARED, process('<startEvent id="begin"/>')), registry_of(), engine=engine).content

    assert [event for event, _ in listeners(content)["case"]] == events
    assert stripped(content) == opened(document(SHARED, process('<startEvent id="begin"/>')))


def test_listeners_of_the_author_stay_before_ours() -> None:
    own = '<z:executionListener eventType="start" type="audit"/>'
    content = woven(
        f'<receiveTask id="x" messageRef="letter"><extensionElements xmlns:z="{ZEEBE}"><z:executionListeners>{own}'
        "</z:executionListeners></extensionElements></receiveTask>"
    ).content

    assert listeners(content)["x"] == [("start", "audit"), PARK, UNPARK]


@pytest.mark.parametrize("listener", ["verbworker.park", '="verbworker." + "park"'])
@pytest.mark.parametrize("kind", ["execution", "task"])
def test_a_model_with_listeners_of_ours_is_refused(kind: str, listener: str) -> None:
    text = listener.replace('"', "&quot;")
    group = f'<zeebe:{kind}Listeners><zeebe:{kind}Listener eventType="start" type="{text}"/></zeebe:{kind}Listeners>'

    with pytest.raises(Refused, match=r"line 1 has the listener .*; deploy the authored file"):
        woven(f'<userTask id="x"><extensionElements>{group}</extensionElements></userTask>')


@pytest.mark.req("WAIT-01", "X-42")
@pytest.mark.parametrize("around", ["{}", '<subProcess id="in">{}</subProcess>'])
def test_a_gate_of_which_nobody_would_hear_is_refused(around: str) -> None:
    native = '<userTask id="x"><extensionElements><zeebe:userTask/></extensionElements></userTask>'

    with pytest.raises(Refused, match=r"the user task x with zeebe:userTask, .*; remove zeebe:userTask"):
        weave(document(SHARED, process(around.format(native))), registry_of(), engine=(8, 7))


@pytest.mark.parametrize(
    "before", ["", '<zeebe:ioMapping><zeebe:input source="=orch_a" target="orch_a"/></zeebe:ioMapping>']
)
def test_a_native_user_task_reports_its_life_and_lets_no_variable_out(before: str) -> None:
    native = f'<userTask id="x"><extensionElements>{before}<zeebe:userTask/></extensionElements></userTask>'

    (node,) = (node for _, node in the_process(woven(native).content).walk() if node.id == "x")

    heard = [(listener.event, listener.retries and listener.retries.text) for listener in node.binding.task_listeners]
    assert heard == [(event, str(LISTENER_RETRIES)) for event in ("creating", "assigning", "completing", "canceling")]
    assert [mapping.target for mapping in node.binding.mappings if mapping.direction == "output"] == ["vw_entry_id"]
    assert not node.binding.execution_listeners


def test_a_woven_model_is_not_woven_again() -> None:
    content = woven('<startEvent id="begin"/>').content

    with pytest.raises(Refused, match=r"has the listener verbworker\.complete"):
        weave(content, registry_of())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (document(process(key="other")), "no workflow verb has the process other, so it cannot be started"),
        (document(process(), process(key="other")), "this one has case, other"),
        (document('<process id="case"/>'), "this one has none"),
        (b"<definitions", "the model cannot be read"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_one_sentence(content: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words):
        weave(content, registry_of())


def test_a_process_beside_that_is_not_executable_stays_as_it_is() -> None:
    beside = '<process id="customer"><receiveTask id="y" messageRef="letter"/></process>'
    content = weave(document(SHARED, beside, process('<startEvent id="begin"/>')), registry_of()).content

    assert beside.encode() in content


def test_real_models_change_nowhere_else_and_always_alike() -> None:
    for authored in ModelSource(6).sized(25):
        registry = registry_of(the_process(authored).id)
        content = weave(authored, registry).content

        assert stripped(content) == opened(authored)
        assert weave(authored, registry).content == content


# Every way of writing that the reader lets pass, thrown together.
_BLANK = st.sampled_from([" ", "  ", "\n  ", "\r\n\t"])
_FILL = st.sampled_from(["", " ", "\n", "\r\n", "<!-- a > b -->", "<?note x > y?>", "<!---->\n"])
_HOLDER = st.sampled_from(["", "{b}extensionElements/", "{b}extensionElements", "{b}extensionElements {z}properties"])
_KINDS = st.sampled_from(["receiveTask", "intermediateCatchEvent", "boundaryEvent", "serviceTask", "eventBasedGateway"])


@st.composite
def _element(draw: st.DrawFn, number: int, b: str, z: str) -> str:
    kind, quote, blank = draw(_KINDS), draw(st.sampled_from("\"'")), draw(_BLANK)
    tag = (
        f"{b}{kind}{blank}id={quote}n{number}{quote}{blank}name={quote}é > ü{quote}{draw(st.sampled_from(['', blank]))}"
    )
    inside = [draw(_FILL)]
    if draw(st.booleans()):
        inside.append(f"<{b}documentation>{draw(_FILL)}&#xE9;<![CDATA[</{b}{kind}>]]></{b}documentation>")
    if kind == "serviceTask":
        inside.append(f"<{b}extensionElements><{z}taskDefinition{blank}type='kyc.check'/></{b}extensionElements>")
    else:
        names = draw(_HOLDER).format(b=b, z=z).split()
        if len(names) == 2:
            inside.append(f"<{names[0]}>{draw(_FILL)}<{names[1]}/>{draw(_FILL)}</{names[0]}>")
        elif names and names[0].endswith("/"):
            inside.append(f"<{names[0]}>")
        elif names:
            inside.append(f"<{names[0]}>{draw(_FILL)}</{names[0]}>")
    if kind.endswith("Event"):
        inside.append(f"<{b}timerEventDefinition/>")
    text = "".join(inside) + draw(_FILL)
    return f"<{tag}/>" if not text else f"<{tag}>{text}</{b}{kind}>"


@st.composite
def _models(draw: st.DrawFn) -> bytes:
    b, z = draw(st.sampled_from(["", "bpmn:", "b:"])), draw(st.sampled_from(["zeebe:", "z:"]))
    names = f'xmlns{":" if b else ""}{b.rstrip(":")}="{BPMN}" xmlns:{z.rstrip(":")}="{ZEEBE}"'
    elements = [draw(_element(number, b, z)) for number in range(draw(st.integers(0, 4)))]
    head = draw(st.sampled_from(["", "\ufeff", '<?xml version="1.0" encoding="UTF-8"?>\r\n']))
    between = "".join(part + draw(_FILL) for part in elements)
    opened_process = f"{draw(_FILL)}<{b}process isExecutable='true'{draw(_BLANK)}id='case'>"
    return f"{head}<{b}definitions {names}>{opened_process}{between}</{b}process></{b}definitions>\n".encode()


@settings(max_examples=150, deadline=None)
@given(_models())
def test_without_what_was_woven_in_a_model_is_what_its_author_wrote(authored: bytes) -> None:
    content = weave(authored, registry_of()).content
    before = {node.id: node.kind for _, node in the_process(authored).walk()}

    assert stripped(content) == opened(authored)
    assert {node.id: node.kind for _, node in the_process(content).walk()} == before
    assert listeners(content).keys() == {"case", *(key for key, kind in before.items() if kind != "serviceTask")}
    assert model_of(content).messages == {}


def test_a_header_of_ours_in_an_authored_model_is_refused() -> None:
    headers = '<zeebe:header key="letter" value="short"/><zeebe:header key="verbworker.terms" value="x"/>'
    header = f"<zeebe:taskHeaders>{headers}</zeebe:taskHeaders>"
    definition = '<zeebe:taskDefinition type="kyc.screen"/>'

    with pytest.raises(Refused, match=r"has the header verbworker\.terms, .*; deploy the authored file"):
        woven(f'<serviceTask id="work"><extensionElements>{definition}{header}</extensionElements></serviceTask>')


def test_every_job_of_a_model_with_a_profile_names_its_profile() -> None:
    content = (Path(__file__).parents[2] / "processes" / "kyc-open-case" / "process.bpmn").read_bytes()

    made = weave(content, registry)

    jobs = content.count(b"<zeebe:taskDefinition") - content.count(b'type="verbworker.')
    assert made.content.count(HEADER.encode()) == jobs
