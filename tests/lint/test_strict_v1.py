"""Seed 001, sections 4 and 5, under the profile strict-v1: the document, its elements, its graph, and placement."""

import pytest

from tests.support.strict_model import MODEL, Edit, found, meets
from verblint.bpmn.bpmn_schema import names
from verblint.contracts.profiles import BY_NAME
from verblint.report import Severity

_AMEIDE = 'xmlns:ameide="https://ameide.io/schema/bpmn/extensions/v1"'
_END = '    <bpmn:endEvent id="end">\n'
_INNER_END = '      <bpmn:endEvent id="inner_end" />\n'
_INNER_FLOWS = """\
      <bpmn:sequenceFlow id="inner_1" sourceRef="inner_start" targetRef="check" />
      <bpmn:sequenceFlow id="inner_2" sourceRef="check" targetRef="inner_end" />
"""
_CATCH = '      <bpmn:messageEventDefinition messageRef="paid" />\n'
_THROW = "      <bpmn:messageEventDefinition />\n"
_TIMER = "      <bpmn:timerEventDefinition><bpmn:timeDuration>PT1H</bpmn:timeDuration></bpmn:timerEventDefinition>\n"
_FORBIDDEN = sorted(set(names()) - BY_NAME["strict-v1"].elements)


def _flow(name: str, target: str) -> tuple[str, str]:
    """What a flow with this id says of its target."""
    line = next(line for line in MODEL.splitlines() if f'<bpmn:sequenceFlow id="{name}"' in line)
    return line, line.replace(f'targetRef="{line.split("targetRef=")[1].split(chr(34))[1]}"', f'targetRef="{target}"')


# 4.1 The document


@pytest.mark.req("PRX-14", "X-26")
def test_the_model_of_these_tests_is_clean() -> None:
    assert found(MODEL) == []


@pytest.mark.req("PRX-14")
def test_a_diagram_is_allowed_and_not_needed() -> None:
    start, end = MODEL.index("  <bpmndi:BPMNDiagram"), MODEL.index("</bpmn:definitions>")

    assert found(MODEL[:start] + MODEL[end:]) == []


@pytest.mark.req("PRX-14")
@pytest.mark.parametrize(("prefix", "other"), [("bpmn", "b"), ("ameide", "a")])
def test_a_file_declares_the_prefixes_of_bpmn_and_of_the_extension(prefix: str, other: str) -> None:
    renamed = MODEL.replace(f"{prefix}:", f"{other}:").replace(f"xmlns:{prefix}=", f"xmlns:{other}=")

    (finding,) = found(renamed)

    assert (finding.code, finding.line) == ("AM753", 2)
    assert f"the prefix {prefix}" in finding.message


@pytest.mark.req("PRX-14", "PRX-21")
def test_a_file_without_the_extension_lacks_all_of_it() -> None:
    bare = "\n".join(line for line in MODEL.splitlines() if "ameide:" not in line)

    codes = {finding.code for finding in found(bare) if finding.severity is Severity.ERROR}

    assert codes == {"AM705", "AM706", "AM707", "AM752"}
    assert {finding.code for finding in found(bare, profile="hollow")} == {"HB513"}


DOCUMENT = [
    Edit(
        "the root is not definitions",
        "<bpmn:definitions ",
        "<bpmn:participant ",
        "HB013",
        also=(("</bpmn:definitions>", "</bpmn:participant>"),),
    ),
    Edit("the namespace of the extension is another", _AMEIDE, _AMEIDE.replace("/v1", "/v2"), "AM753", "<bpmn:def"),
    Edit(
        "there are two processes",
        "  </bpmn:process>\n",
        '  </bpmn:process>\n  <bpmn:process id="second" isExecutable="true"><bpmn:endEvent id="s" /></bpmn:process>\n',
        "AM753",
        "<bpmn:definitions",
    ),
    Edit("the process is not executable", ' isExecutable="true"', ' isExecutable="false"', "HB012"),
    Edit("nothing says that the process is executable", ' isExecutable="true"', "", "HB012"),
]


@pytest.mark.req("PRX-14", "PRX-10")
@pytest.mark.parametrize("edit", DOCUMENT, ids=lambda edit: edit.name)
def test_the_document(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("PRX-14")
def test_a_file_without_a_process_is_refused() -> None:
    start, end = MODEL.index("  <bpmn:process "), MODEL.index("  <bpmndi:BPMNDiagram")

    codes = {(finding.code, finding.line) for finding in found(MODEL[:start] + MODEL[end:])}

    assert {("AM753", 2), ("HB012", 2)} <= codes


# 4.2 The elements


@pytest.mark.req("PRX-03", "PRX-13", "PRX-15", "CPL-16", "X-25")
@pytest.mark.parametrize("name", [*_FORBIDDEN, "madeUp"])
def test_every_other_element_of_bpmn_is_forbidden(name: str) -> None:
    assert meets(Edit(name, _END, f'    <bpmn:{name} id="odd" />\n{_END}', "AM751"))


ELEMENTS = [
    Edit("a catching event waits for time", _CATCH, _TIMER, "AM751"),
    Edit("a catching event has no definition", _CATCH, "", "AM751", 'id="catch"'),
    Edit("a catching event has two definitions", _CATCH, _CATCH * 2, "AM751", 'id="catch"'),
    Edit("a throwing event has no definition", _THROW, "", "AM751", 'id="notify"'),
    Edit("a throwing event has two definitions", _THROW, _THROW * 2, "AM751", 'id="notify"'),
    Edit("a throwing event throws a signal", _THROW, "      <bpmn:signalEventDefinition />\n", "AM751"),
    Edit(
        "the start waits for a message",
        "<bpmn:outgoing>to_ask</bpmn:outgoing>\n",
        '<bpmn:outgoing>to_ask</bpmn:outgoing>\n      <bpmn:messageEventDefinition messageRef="docs" />\n',
        "AM751",
        'id="start"',
    ),
    Edit(
        "the end throws a message",
        "<bpmn:incoming>to_end</bpmn:incoming>\n",
        "<bpmn:incoming>to_end</bpmn:incoming>\n      <bpmn:messageEventDefinition />\n",
        "AM751",
        'id="end"',
    ),
    Edit(
        "a subprocess is started by an event",
        '<bpmn:subProcess id="checks"',
        '<bpmn:subProcess id="checks" triggeredByEvent="true"',
        "AM751",
    ),
    Edit(
        "a task is there for compensation",
        '<bpmn:serviceTask id="ask"',
        '<bpmn:serviceTask id="ask" isForCompensation="true"',
        "AM751",
    ),
    *(
        Edit(
            f"a task has {name}",
            "<bpmn:outgoing>to_wait</bpmn:outgoing>\n",
            f"<bpmn:outgoing>to_wait</bpmn:outgoing>\n      <bpmn:{name} />\n",
            "AM751",
            f"<bpmn:{name}",
        )
        for name in ("multiInstanceLoopCharacteristics", "standardLoopCharacteristics")
    ),
]


@pytest.mark.req("PRX-15", "PRX-18", "X-25")
@pytest.mark.parametrize("edit", ELEMENTS, ids=lambda edit: edit.name)
def test_the_elements_have_the_forms_of_the_profile(edit: Edit) -> None:
    assert meets(edit)


# 4.3 The graph

GRAPH = [
    Edit(
        "a process has two starts",
        '    <bpmn:startEvent id="start">\n',
        '    <bpmn:startEvent id="second" />\n    <bpmn:startEvent id="start">\n',
        "AM753",
        "<bpmn:process",
    ),
    Edit(
        "a process has no start",
        '    <bpmn:startEvent id="start">\n      <bpmn:outgoing>to_ask</bpmn:outgoing>\n    </bpmn:startEvent>\n',
        "",
        "AM753",
        "<bpmn:process",
    ),
    Edit("a process has two ends", _END, f'    <bpmn:endEvent id="other" />\n{_END}', "AM753", "<bpmn:process"),
    Edit(
        "a process has no end",
        f"{_END}      <bpmn:incoming>to_end</bpmn:incoming>\n    </bpmn:endEvent>\n",
        "",
        "AM753",
        "<bpmn:process",
    ),
    Edit("a node cannot be reached", _END, f'    <bpmn:receiveTask id="lost" messageRef="docs" />\n{_END}', "AM719"),
    Edit(
        "a node in a subprocess cannot be reached",
        _INNER_END,
        f'      <bpmn:receiveTask id="lost" messageRef="docs" />\n{_INNER_END}',
        "AM719",
    ),
    Edit("a flow leads back", *_flow("to_end", "ask"), "AM751", '<bpmn:serviceTask id="ask"'),
    Edit("a flow leads to where it comes from", *_flow("to_wait", "ask"), "AM751", '<bpmn:serviceTask id="ask"'),
    Edit(
        "a flow leads back in a subprocess",
        _INNER_FLOWS,
        _INNER_FLOWS + '      <bpmn:sequenceFlow id="inner_3" sourceRef="check" targetRef="check" />\n',
        "AM751",
        '<bpmn:serviceTask id="check"',
    ),
]


@pytest.mark.req("PRX-16", "X-26")
@pytest.mark.parametrize("edit", GRAPH, ids=lambda edit: edit.name)
def test_the_graph(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("X-25", "X-26")
def test_a_loop_is_an_error_under_strict_v1_alone() -> None:
    text = MODEL.replace('sourceRef="check" targetRef="inner_end"', 'sourceRef="check" targetRef="again"').replace(
        _INNER_END,
        '      <bpmn:exclusiveGateway id="again" default="out" />\n'
        + _INNER_END
        + '      <bpmn:sequenceFlow id="out" sourceRef="again" targetRef="inner_end" />\n'
        + '      <bpmn:sequenceFlow id="back" sourceRef="again" targetRef="check">\n'
        + "        <bpmn:conditionExpression>=orch_approved = true</bpmn:conditionExpression>\n"
        + "      </bpmn:sequenceFlow>\n",
    )

    assert [f.code for f in found(text) if f.severity is Severity.ERROR] == ["AM751"]
    assert [f.code for f in found(text, profile="hollow") if f.severity is Severity.ERROR] == []


# 4.4 The flows

FLOWS = [
    Edit("a flow has no id", ' id="to_ask" sourceRef', " sourceRef", "HB008"),
    Edit("a flow has no source", ' sourceRef="start" targetRef="ask"', ' targetRef="ask"', "HB008"),
    Edit("a flow has no target", ' sourceRef="start" targetRef="ask"', ' sourceRef="start"', "HB008"),
    Edit("a flow comes from nowhere", 'sourceRef="start" targetRef="ask"', 'sourceRef="gone" targetRef="ask"', "HB010"),
    Edit("a flow leads nowhere", *_flow("to_ask", "gone"), "HB010"),
    Edit("a flow leads to something that is no node", *_flow("to_ask", "docs"), "HB010"),
    Edit(
        "the start leads nowhere",
        '    <bpmn:sequenceFlow id="to_ask" sourceRef="start" targetRef="ask" />\n',
        "",
        "AM719",
        '<bpmn:startEvent id="start"',
    ),
    Edit("no flow enters the end", *_flow("to_end", "tell"), "AM719", '<bpmn:endEvent id="end"'),
    Edit("no flow enters a service task", *_flow("to_ask", "wait"), "AM719", '<bpmn:serviceTask id="ask"'),
    Edit("no flow enters a send task", *_flow("to_tell", "join"), "AM719", '<bpmn:sendTask id="tell"'),
    Edit("no flow enters a user task", *_flow("to_review", "decide"), "AM719", '<bpmn:userTask id="Review"'),
    Edit("no flow enters a receive task", *_flow("to_wait", "checks"), "AM719", '<bpmn:receiveTask id="wait"'),
    Edit("no flow enters a catching event", *_flow("to_catch", "join"), "AM719", 'Event id="catch"'),
    Edit("no flow enters a throwing event", *_flow("to_throw", "join"), "AM719", 'Event id="notify"'),
    Edit("no flow enters a gateway", *_flow("to_decide", "tell"), "AM719", 'Gateway id="decide"'),
    Edit("no flow enters a subprocess", *_flow("to_check", "Review"), "AM719", '<bpmn:subProcess id="checks"'),
    Edit(
        "no flow leaves a gateway",
        '    <bpmn:sequenceFlow id="to_end" sourceRef="join" targetRef="end" />\n',
        "",
        "AM719",
        'Gateway id="join"',
    ),
]


@pytest.mark.req("PRX-17")
@pytest.mark.parametrize("edit", FLOWS, ids=lambda edit: edit.name)
def test_the_flows(edit: Edit) -> None:
    assert meets(edit)


# 4.5 Waits: every other shape. What catches a message and is no element of the profile is in the list of elements.

WAITS = [
    Edit(
        "a boundary event waits",
        _END,
        '    <bpmn:boundaryEvent id="late" attachedToRef="wait"><bpmn:messageEventDefinition messageRef="paid" />'
        f"</bpmn:boundaryEvent>\n{_END}",
        "AM751",
    ),
    Edit("a gateway waits for events", _END, f'    <bpmn:eventBasedGateway id="race" />\n{_END}', "AM751"),
    Edit("a receive task names no message", ' messageRef="docs"', "", "HB029"),
]


@pytest.mark.req("PRX-18", "PRX-30", "X-25")
@pytest.mark.parametrize("edit", WAITS, ids=lambda edit: edit.name)
def test_waits_have_two_shapes(edit: Edit) -> None:
    assert meets(edit)


# 4.6 Subprocesses

_INNER_START = '      <bpmn:startEvent id="inner_start" />\n'
SUBPROCESSES = [
    Edit("a subprocess has no start", _INNER_START, "", "HB020", '<bpmn:subProcess id="checks"'),
    Edit(
        "a subprocess has two starts",
        _INNER_START,
        f'{_INNER_START}      <bpmn:startEvent id="two" />\n',
        "HB020",
        '<bpmn:subProcess id="checks"',
    ),
    Edit(
        "the start of a subprocess has a definition",
        _INNER_START,
        '      <bpmn:startEvent id="inner_start"><bpmn:messageEventDefinition messageRef="docs" /></bpmn:startEvent>\n',
        "HB020",
    ),
    Edit(
        "a subprocess has no end",
        _INNER_END,
        "",
        "AM753",
        '<bpmn:subProcess id="checks"',
        also=(('      <bpmn:sequenceFlow id="inner_2" sourceRef="check" targetRef="inner_end" />\n', ""),),
    ),
    Edit(
        "the end of a subprocess throws",
        _INNER_END,
        '      <bpmn:endEvent id="inner_end"><bpmn:messageEventDefinition /></bpmn:endEvent>\n',
        "AM751",
    ),
]


@pytest.mark.req("PRX-19")
@pytest.mark.parametrize("edit", SUBPROCESSES, ids=lambda edit: edit.name)
def test_a_subprocess(edit: Edit) -> None:
    assert meets(edit)


@pytest.mark.req("PRX-19")
def test_a_subprocess_may_have_several_ends() -> None:
    text = MODEL.replace(
        _INNER_END,
        _INNER_END
        + '      <bpmn:endEvent id="inner_other" />\n'
        + '      <bpmn:exclusiveGateway id="fork" default="inner_4" />\n',
    )
    text = text.replace('sourceRef="check" targetRef="inner_end" />', 'sourceRef="check" targetRef="fork" />').replace(
        "    </bpmn:subProcess>\n",
        '      <bpmn:sequenceFlow id="inner_4" sourceRef="fork" targetRef="inner_end" />\n'
        '      <bpmn:sequenceFlow id="inner_5" sourceRef="fork" targetRef="inner_other">\n'
        "        <bpmn:conditionExpression>=orch_approved = true</bpmn:conditionExpression>\n"
        "      </bpmn:sequenceFlow>\n    </bpmn:subProcess>\n",
    )

    assert found(text) == []


# 5.2 Placement

_DEFINITION = '<ameide:taskDefinition type="claim.ask" policyRef="standard" />'
PLACES = [
    Edit("a part stands in the process itself", _END, f"    {_DEFINITION}\n{_END}", "AM702"),
    Edit(
        "a part stands in the file itself",
        '  <bpmn:message id="docs"',
        f'  {_DEFINITION}\n  <bpmn:message id="docs"',
        "AM702",
    ),
    Edit(
        "a part stands in an event that waits",
        '    <bpmn:intermediateCatchEvent id="catch">\n',
        '    <bpmn:intermediateCatchEvent id="catch"><bpmn:extensionElements>\n<ameide:subscription '
        'correlationKeyTemplate="${state.claim_id}" messageIdPath="message_id" /></bpmn:extensionElements>\n',
        "AM702",
        '<ameide:subscription correlationKeyTemplate="${state.claim_id}" messageIdPath="message_id" /></',
    ),
    *(
        Edit(
            f"a throwing event has {part}",
            'idempotencyKeyTemplate="notify/${state.claim_id}" />\n',
            f'idempotencyKeyTemplate="notify/${{state.claim_id}}" />\n<ameide:{part}><!-- --></ameide:{part}>\n',
            "AM752",
            f"<ameide:{part}><!--",
        )
        for part in ("taskHeaders", "ioMapping")
    ),
]


@pytest.mark.req("PRX-11")
@pytest.mark.parametrize("edit", PLACES, ids=lambda edit: edit.name)
def test_every_part_of_the_extension_has_its_place(edit: Edit) -> None:
    assert meets(edit)
