"""Compiling a model for the embedded engine: what it becomes, and what is refused with its line and a way."""

from datetime import UTC, datetime

import pytest

from tests.support.bpmn import document, process
from tests.support.drawing import Drawing
from tests.support.kernel import Game
from tests.support.refused_models import LINE, ODD, Odd
from verbworker.engine.embedded.kernel.definition import Action, MessageWait, TimerWait, compile_models
from verbworker.engine.embedded.kernel.inspection import active_elements, open_incidents
from verbworker.engine.protocol import ActiveElement
from verbworker.errors import CommandInvalid

BEGIN, END = '<startEvent id="begin"/>', '<endEvent id="end"/>'


def flow(source: str, target: str) -> str:
    return f'<sequenceFlow id="{source}_{target}" sourceRef="{source}" targetRef="{target}"/>'


def refusal(content: bytes) -> str:
    with pytest.raises(CommandInvalid) as refused:
        compile_models(content, "odd.bpmn")
    return str(refused.value)


def between(element: str, *declared: str) -> bytes:
    """A process with the element `odd` between its start and its end."""
    return document(process(BEGIN, element, END, flow("begin", "odd"), flow("odd", "end")), *declared)


@pytest.mark.req("TOK-22", "PRX-13")
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.name)
def test_a_model_outside_the_set_is_refused_with_its_element_its_line_and_a_way(odd: Odd) -> None:
    words = refusal(odd.model())

    assert words.startswith(f"odd.bpmn:{LINE}: ")
    assert "'odd'" in words
    assert odd.way in words


@pytest.mark.req("NOT-04")
@pytest.mark.parametrize(
    "computed", ["=corr_a + corr_b", "=[corr_a, corr_b]", "=string(corr_a)", "=if true then a else b"]
)
def test_a_key_of_several_properties_or_of_a_computation_is_refused(computed: str) -> None:
    drawing = Drawing().start().catch("letter", message="docs").end().flow("begin", "letter", "end")
    written = drawing.xml()

    assert b'"=corr_key"' in written
    words = refusal(written.replace(b'"=corr_key"', f'"{computed}"'.encode()))
    assert f"'letter' computes {computed}, which the embedded engine does not run" in words


@pytest.mark.req("NOT-04")
@pytest.mark.parametrize("computed", ["=count(orch_x) &gt; 1", "=orch_x + 1 = 2", "=some x in orch_x satisfies x"])
def test_a_condition_that_computes_is_refused(computed: str) -> None:
    drawing = Drawing().start().gateway("exclusive", "how", default="how_end").task("a").end()
    drawing.flow("begin", "how", "end").flow("how", "a", when="=orch_x = 1").flow("a", "end")
    written = drawing.xml()

    assert b"=orch_x = 1" in written
    assert "how_a" in refusal(written.replace(b"=orch_x = 1", computed.encode()))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<definitions", "odd.bpmn: not well-formed XML"),
        (document('<process id="case"/>'), "odd.bpmn: there is no executable process in it"),
        (document(process(END)), "odd.bpmn: case has no start event"),
        (document(process(BEGIN, '<startEvent id="too"/>', END)), "'too' is one start event too many"),
        (
            document(process('<startEvent id="daily"><timerEventDefinition/></startEvent>', END)),
            "'daily' is started by a timer, which the embedded engine does not run; start it from a scheduler",
        ),
        (
            document(
                process(BEGIN, '<startEvent id="odd"><signalEventDefinition signalRef="s"/></startEvent>', END),
            ),
            "'odd' is a signal, which the embedded engine does not run; use a message with a key",
        ),
        (
            between(
                '<subProcess id="odd"><startEvent id="in"><messageEventDefinition messageRef="m"/></startEvent>'
                "</subProcess>",
                '<message id="m" name="m.x"/>',
            ),
            "'in' is started by a message inside a subprocess",
        ),
        (
            document(process(BEGIN, END, flow("begin", "nowhere"))),
            "the flow 'begin_nowhere' leads nowhere in its scope",
        ),
        (
            between('<intermediateCatchEvent id="odd"><timerEventDefinition/></intermediateCatchEvent>'),
            "is a timer without a time",
        ),
        (between('<receiveTask id="odd" messageRef="unknown"/>'), "waits for a message without a key"),
        (
            between(
                '<receiveTask id="odd" messageRef="m"/>',
                '<message id="m" name="m.x"><extensionElements><zeebe:subscription correlationKey="=&quot;all&quot;"/>'
                "</extensionElements></message>",
            ),
            "'odd' has the constant =\"all\", which the embedded engine does not run",
        ),
        (
            between(
                '<boundaryEvent id="edge" attachedToRef="odd"><errorEventDefinition errorRef="e"/></boundaryEvent>'
                '<manualTask id="odd"/>'
            ),
            "names an error that is not declared",
        ),
        (
            document(
                process(
                    BEGIN,
                    END,
                    '<sequenceFlow id="f" sourceRef="begin" targetRef="end">'
                    "<conditionExpression>=count(x) > 1</conditionExpression></sequenceFlow>",
                )
            ),
            "the condition of 'f' is =count(x) > 1, which the embedded engine does not run",
        ),
    ],
)
def test_a_model_that_cannot_be_compiled_is_refused_in_one_sentence(content: bytes, words: str) -> None:
    assert words in refusal(content)


def test_a_message_may_start_a_process_with_or_without_a_key() -> None:
    key = '<extensionElements><zeebe:subscription correlationKey="=corr_case"/></extensionElements>'
    starts = "".join(
        f'<startEvent id="{name}"><messageEventDefinition messageRef="{name}"/></startEvent>{flow(name, "end")}'
        for name in ("keyed", "keyless", "undeclared")
    )
    messages = f'<message id="keyed" name="m.keyed">{key}</message><message id="keyless" name="m.keyless"/>'
    (made,) = compile_models(document(process(starts, END), messages), "x.bpmn")

    assert made.message_starts == {
        "keyed": MessageWait("m.keyed", "corr_case"),
        "keyless": MessageWait("m.keyless", ""),
    }


@pytest.mark.req("EMC-05", "EMC-20")
def test_events_of_a_message_have_its_name_and_key_and_the_activity_they_are_attached_to() -> None:
    events = (
        '<intermediateCatchEvent id="odd"><messageEventDefinition messageRef="m1"/></intermediateCatchEvent>'
        '<task id="work"/><boundaryEvent id="edge" attachedToRef="work" cancelActivity="false">'
        '<messageEventDefinition messageRef="m2"/></boundaryEvent>'
    )
    key = '<extensionElements><zeebe:subscription correlationKey="=corr_{}"/></extensionElements>'
    messages = [f'<message id="m{n}" name="docs.{n}">{key.format(n)}</message>' for n in (1, 2)]
    (made,) = compile_models(between(events, *messages), "x.bpmn")
    caught, edge, host = (made.nodes[name] for name in ("odd", "edge", "work"))

    assert (caught.act, caught.wait, caught.attached_to) == (Action.CATCH, MessageWait("docs.1", "corr_1"), "")
    assert (edge.wait, edge.attached_to, edge.is_interrupting) == (MessageWait("docs.2", "corr_2"), "work", False)
    assert host.boundaries == ("edge",)


@pytest.mark.req("EMC-20")
@pytest.mark.parametrize(
    ("event", "words"),
    [
        ('<boundaryEvent id="edge" attachedToRef="gone">{}</boundaryEvent>', "attached to no activity"),
        ('<boundaryEvent id="edge" attachedToRef="begin">{}</boundaryEvent>', "attached to no activity"),
        ('<boundaryEvent id="edge">{}</boundaryEvent>', "attached to no activity"),
        ('<boundaryEvent id="edge"><compensateEventDefinition/></boundaryEvent>', "attached to no activity"),
        (
            '<subProcess id="box"><startEvent id="in"/>'
            '<boundaryEvent id="edge" attachedToRef="odd">{}</boundaryEvent></subProcess>',
            "attached to no activity",
        ),
        (
            '<intermediateCatchEvent id="edge"><messageEventDefinition messageRef="gone"/></intermediateCatchEvent>',
            "waits for a message without a key",
        ),
    ],
)
def test_an_event_that_names_no_message_or_no_activity_is_refused(event: str, words: str) -> None:
    key = '<extensionElements><zeebe:subscription correlationKey="=corr_case"/></extensionElements>'
    drawn = event.format('<messageEventDefinition messageRef="m"/>')
    reason = refusal(between(f'<task id="odd"/>{drawn}', f'<message id="m" name="docs">{key}</message>'))

    assert "'edge'" in reason
    assert words in reason


def test_an_event_is_compiled_to_what_a_token_does_there() -> None:
    drawing = Drawing().start().plain("pass").catch("pause", timer="PT5S").catch("flagged", timer="=orch_due")
    drawing.send("told", "intermediateThrowEvent").terminate_end("stop")
    drawing.flow("begin", "pass", "pause", "flagged", "told", "stop")
    (made,) = compile_models(drawing.xml(), "x.bpmn")

    acts = {name: node.act for name, node in made.nodes.items() if name}
    assert acts == {
        "begin": Action.PASS,
        "pass": Action.PASS,
        "pause": Action.CATCH,
        "flagged": Action.CATCH,
        "told": Action.JOB,
        "stop": Action.TERMINATE_END,
    }
    waits = [made.nodes[name].wait for name in ("pause", "flagged")]
    assert [(wait.text, wait.variable) for wait in waits if isinstance(wait, TimerWait)] == [
        ("PT5S", ""),
        ("", "orch_due"),
    ]


def test_a_listener_without_a_number_of_retries_has_the_usual_one() -> None:
    listener = '<zeebe:executionListener eventType="start" type="x.first"{}/>'
    held = "".join(listener.format(f' retries="{retries}"' if retries else "") for retries in ("", "7", "=n"))
    task = f'<manualTask id="odd"><extensionElements><zeebe:executionListeners>{held}</zeebe:executionListeners>'
    (made,) = compile_models(between(f"{task}</extensionElements></manualTask>"), "x.bpmn")

    assert [listener.retries for listener in made.nodes["odd"].entering] == [3, 7, 3]


# ---- what people ask of an instance ----------------------------------------------------------------------------------


def test_an_instance_tells_where_its_tokens_are_and_what_they_wait_for() -> None:
    drawing = Drawing().start().gateway("parallel", "fork").task("work").receive("wait", "answered").end("a", "b")
    drawing.flow("begin", "fork").flow("fork", "work", "a").flow("fork", "wait", "b")
    game = Game(drawing).begin(corr_key="case-7")
    keys = {token.node: token.key for token in game.state.tokens.values()}

    at = datetime.fromtimestamp((game.state.tokens[keys["work"]].since_ms or 0) / 1000, UTC)
    assert active_elements(game.definition, game.state) == [
        ActiveElement("work", keys["work"], "SERVICE_TASK", at, message_name=None, correlation_key=None),
        ActiveElement("wait", keys["wait"], "RECEIVE_TASK", at, message_name="answered", correlation_key="case-7"),
    ]


def test_an_instance_tells_its_incidents_oldest_first_and_the_job_of_each() -> None:
    drawing = Drawing().start().gateway("parallel", "fork").task("work").gateway("exclusive", "choice").end("a", "b")
    drawing.flow("begin", "fork").flow("fork", "work", "a").flow("fork", "choice").flow(
        "choice", "b", when="=orch_x = 1"
    )
    game = Game(drawing).begin(orch_x=2)
    job = game.job("work")
    game.exhaust("work")

    found = open_incidents(game.definition, game.state)
    assert [(one.element_id, one.kind, one.job_key) for one in found] == [
        ("choice", "CONDITION_ERROR", None),
        ("work", "JOB_NO_RETRIES", job),
    ]
    assert found[0].incident_key < found[1].incident_key
