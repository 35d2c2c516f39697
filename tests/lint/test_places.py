"""Every place of a model where an expression or data access could hide, and the code that meets it there."""

import pytest

from tests.support.bpmn import conditional_flow, document, process
from tests.support.fixture_models import contracts
from verblint.bpmn.zeebe_schema import SHAPES, ZeebeShape
from verblint.linter import inspect
from verblint.settings import Settings

READ = "=domain_payload.amount"


def node(kind: str, *parts: str, attributes: str = "") -> str:
    return f'<{kind} id="n" {attributes}>{"".join(parts)}</{kind}>'


def extended(kind: str, *extensions: str, attributes: str = "") -> str:
    return node(kind, "<extensionElements>", *extensions, "</extensionElements>", attributes=attributes)


def model(*parts: str, root: str = "") -> bytes:
    return document(root, process(*parts, key="kyc-open-case"))


def message(*extensions: str, name: str = "documents-received") -> str:
    return f'<message id="m" name="{name}"><extensionElements>{"".join(extensions)}</extensionElements></message>'


LOOP = "multiInstanceLoopCharacteristics"
# The number is the place's in the table the linter was designed from.
PLACES: list[tuple[int, str, bytes]] = [
    (1, "HB208", model(conditional_flow(READ))),
    (1, "HB205", model(conditional_flow("=count(orders) = 1"))),
    (2, "HB115", model(node("startEvent", "<conditionalEventDefinition><condition>=x</condition>"
                            "</conditionalEventDefinition>"))),
    (3, "HB115", model(node("startEvent", "<conditionalEventDefinition><extensionElements><zeebe:conditionalFilter "
                            'variableNames="x"/></extensionElements></conditionalEventDefinition>'))),
    (4, "HB107", model(node("serviceTask", f"<{LOOP}><extensionElements><zeebe:loopCharacteristics "
                            f'inputCollection="=xs"/></extensionElements></{LOOP}>'))),
    (5, "HB107", model(node("serviceTask", f"<{LOOP}><extensionElements><zeebe:loopCharacteristics "
                            f'outputElement="=x" outputCollection="xs"/></extensionElements></{LOOP}>'))),
    (6, "HB107", model(node("task", f"<{LOOP}><completionCondition>=x</completionCondition></{LOOP}>"))),
    (6, "HB107", model(node("task", "<standardLoopCharacteristics/>"))),
    (7, "HB106", model(extended("adHocSubProcess", '<zeebe:adHoc activeElementsCollection="=x"/>'))),
    (7, "HB109", model(extended("serviceTask", '<zeebe:ioMapping><zeebe:input source="=fromAi(x)" target="x"/>'
                                "</zeebe:ioMapping>"))),
    (8, "HB101", model(extended("scriptTask", '<zeebe:script expression="=x" resultVariable="x"/>'))),
    (8, "HB101", model(node("scriptTask", "<script>x</script>"))),
    (9, "HB102", model(extended("businessRuleTask", '<zeebe:calledDecision decisionId="=x" resultVariable="x"/>'))),
    (10, "HB105", model(extended("callActivity", '<zeebe:calledElement processId="=x"/>'))),
    (11, "HB402", model(extended("serviceTask", '<zeebe:taskDefinition type="=x"/>'))),
    (11, "HB401", model(extended("sendTask", '<zeebe:taskDefinition type="x"/>'))),
    (11, "HB103", model(extended("serviceTask", '<zeebe:taskDefinition type="io.camunda:http-json:1"/>'))),
    (12, "HB403", model(extended("serviceTask", '<zeebe:taskDefinition type="x" retries="=x"/>'))),
    (12, "HB126", model(node("serviceTask", attributes='zeebe:retryCounter="3"'))),
    (13, "HB309", model(extended("serviceTask", '<zeebe:taskHeaders><zeebe:header key="k" value="=x"/>'
                                 "</zeebe:taskHeaders>"))),
    (13, "HB123", model(extended("serviceTask", '<zeebe:taskHeaders><zeebe:header key="k" value="{{secrets.x}}"/>'
                                 "</zeebe:taskHeaders>"))),
    (13, "HB311", model(extended("serviceTask", '<zeebe:taskHeaders><zeebe:header key="k" value="https://x"/>'
                                 "</zeebe:taskHeaders>"))),
    (14, "HB302", model(extended("serviceTask", '<zeebe:ioMapping><zeebe:input source="=x" target="y"/>'
                                 "</zeebe:ioMapping>"))),
    (14, "HB302", model(extended("serviceTask", '<zeebe:ioMapping><zeebe:input target="y"/></zeebe:ioMapping>'))),
    (15, "HB304", model(extended("serviceTask", '<zeebe:ioMapping><zeebe:output source="=orch_docs_received" '
                                 'target="orch_docs_received"/></zeebe:ioMapping>'))),
    (16, "HB305", model(extended("serviceTask", '<zeebe:ioMapping><zeebe:output source="=x" target="x.y"/>'
                                 "</zeebe:ioMapping>"))),
    *(
        (17, "HB303", model(extended(kind, '<zeebe:ioMapping><zeebe:input source="=domain_payload" '
                                     'target="domain_payload"/></zeebe:ioMapping>')))
        for kind in ("startEvent", "receiveTask", "userTask", "subProcess", "callActivity", "boundaryEvent")
    ),
    (18, "HB310", model(extended("userTask", '<zeebe:assignmentDefinition assignee="=x"/>'))),
    (18, "HB309", model(extended("userTask", '<zeebe:assignmentDefinition candidateUsers="=orch_x"/>'))),
    (19, "HB310", model(extended("userTask", '<zeebe:taskSchedule dueDate="=now()"/>'))),
    (20, "HB310", model(extended("userTask", '<zeebe:priorityDefinition priority="=1 + 1"/>'))),
    (21, "HB309", model(extended("userTask", '<zeebe:formDefinition formId="=x"/>'))),
    (21, "HB124", model(extended("userTask", '<zeebe:formDefinition formKey="camunda-forms:bpmn:x"/>'))),
    (21, "HB309", model(extended("userTask", '<zeebe:formDefinition formKey="=x"/>'))),
    (22, "HB124", document(extended("process", '<zeebe:userTaskForm id="f">{}</zeebe:userTaskForm>'))),
    (24, "HB108", model(extended("userTask", '<zeebe:taskListeners><zeebe:taskListener eventType="creating" '
                                 'type="x"/></zeebe:taskListeners>'))),
    (25, "HB108", document(extended("process", '<zeebe:executionListeners><zeebe:executionListener '
                                    'eventType="start" type="x"/></zeebe:executionListeners>'))),
    (25, "HB309", model(extended("serviceTask", '<zeebe:executionListeners><zeebe:executionListener '
                                 'eventType="end" type="=x"/></zeebe:executionListeners>'))),
    (26, "HB505", model(root=message(name="=x"))),
    (26, "HB506", model('<receiveTask id="r" messageRef="m"/>', root=message(name="x"))),
    (27, "HB502", model(root=message('<zeebe:subscription correlationKey="=x.y"/>'))),
    (27, "HB504", model(extended("receiveTask", '<zeebe:subscription correlationKey="=corr_documents"/>'))),
    (28, "HB117", model(extended("sendTask", '<zeebe:publishMessage correlationKey="=x"/>'))),
    (29, "HB116", model(root='<signal id="s" name="=x"/>')),
    (30, "HB309", model(root='<error id="e" errorCode="=x"/>')),
    (31, "HB309", model(root='<escalation id="e" escalationCode="=x"/>')),
    (32, "HB507", model(node("intermediateCatchEvent", "<timerEventDefinition><timeDuration>=x</timeDuration>"
                             "</timerEventDefinition>"))),
    (32, "HB508", model(node("startEvent", "<timerEventDefinition><timeCycle>R/P1D</timeCycle>"
                             "</timerEventDefinition>"))),
    (33, "HB508", model(node("startEvent", "<signalEventDefinition/>"))),
    (33, "HB508", model(extended("startEvent", '<zeebe:formDefinition formId="x"/>'))),
    (34, "HB118", model(extended("serviceTask", '<zeebe:jobPriorityDefinition priority="=x"/>'))),
    (34, "HB309", model(extended("serviceTask", '<zeebe:jobPriorityDefinition priority="=x"/>'))),
    (35, "HB309", document(extended("process", '<zeebe:versionTag value="=x"/>'))),
    (36, "HB309", model(extended("task", '<zeebe:properties><zeebe:property name="n" value="=x"/>'
                                 "</zeebe:properties>"))),
    (36, "HB103", model(extended("task", '<zeebe:properties><zeebe:property name="inbound.type" value="x"/>'
                                 "</zeebe:properties>"))),
    (37, "HB111", model(extended("serviceTask", '<zeebe:linkedResources><zeebe:linkedResource resourceId="x"/>'
                                 "</zeebe:linkedResources>"))),
    (38, "HB109", model(extended("serviceTask", '<zeebe:agentDefinition agentType="x"/>'))),
    (39, "HB104", model(node("task", attributes='zeebe:modelerTemplate="x"'))),
    (39, "HB104", model(root='<message id="m" name="x" zeebe:modelerTemplate="x"/>')),
    (40, "HB123", model(node("intermediateCatchEvent", "<timerEventDefinition><timeDuration>=camunda.vars.x"
                             "</timeDuration></timerEventDefinition>"))),
    (41, "HB408", model('<boundaryEvent id="b" attachedToRef="a"><compensateEventDefinition/></boundaryEvent>'
                        '<association id="l" sourceRef="b" targetRef="h"/><task id="a"/>'
                        '<serviceTask id="h" isForCompensation="true"/>')),
    (42, "HB113", model(node("task", "<dataInputAssociation><targetRef>x</targetRef><assignment><from>=x</from>"
                             "<to>y</to></assignment></dataInputAssociation>"))),
    (42, "HB114", model('<dataObject id="o"/>')),
    (43, "HB112", model(node("complexGateway", "<activationCondition>=x</activationCondition>"))),
    (43, "HB125", model(node("userTask", "<potentialOwner><resourceAssignmentExpression><formalExpression>x"
                             "</formalExpression></resourceAssignmentExpression></potentialOwner>"))),
    (43, "HB125", document('<import namespace="x" location="x" importType="x"/>')),
    (44, "HB110", model('<task id="t" xmlns:c="http://camunda.org/schema/1.0/bpmn" c:asyncBefore="true"/>')),
    (44, "HB122", model(extended("task", '<a:rule xmlns:a="urn:a" when="#{x}"/>'))),
    (45, "AM701", model(extended("task", "<ameide:rule/>"))),
    (47, "HB602", document(process(key="kyc-open-case"), '<process id="p"/>')),
    (47, "HB012", document('<process id="p"/>')),
    (48, "HB118", model(extended("task", "<zeebe:novelty/>"))),
    (48, "HB119", model(extended("serviceTask", '<zeebe:taskDefinition type="x" bogus="x"/>'))),
]  # fmt: skip


def _name(value: object) -> str:
    return str(value) if isinstance(value, int | str) else ""


@pytest.mark.req("LNT-01", "LNT-02", "LNT-05", "LNT-08", "LNT-09", "LNT-10")
@pytest.mark.parametrize(("number", "code", "content"), PLACES, ids=_name)
def test_what_does_not_belong_in_a_place_is_found_there(number: int, code: str, content: bytes) -> None:
    codes = {finding.code for finding in inspect(content, contracts=contracts()).findings}

    assert code in codes
    assert "HB099" not in codes


@pytest.mark.parametrize(("engine", "native", "code"), [("8.10", "", "HB509"), ("8.7", "<zeebe:userTask/>", "HB510")])
def test_a_user_task_is_of_the_kind_its_engine_makes(engine: str, native: str, code: str) -> None:
    """Place 23."""
    findings = inspect(model(extended("userTask", native)), settings=Settings(engine=engine)).findings

    assert code in {finding.code for finding in findings}


@pytest.mark.parametrize("text", ["documentation", "textAnnotation", "task"])
def test_what_people_read_is_never_evaluated(text: str) -> None:
    """Place 46."""
    parts = {
        "documentation": f"<documentation>{READ}</documentation>",
        "textAnnotation": f'<textAnnotation id="a"><text>{READ}</text></textAnnotation>',
        "task": f'<task id="t" name="{READ}"/>',
    }

    assert "HB301" not in {finding.code for finding in inspect(model(parts[text])).findings}


def test_of_foreign_attributes_only_those_with_an_expression_are_found() -> None:
    attributes = f'a:note="{READ[1:]}" a:when="{READ}" a:name="{READ}"'
    content = model(f'<task id="t" xmlns:a="urn:a" {attributes}/>')

    for code in ("HB122", "HB301"):
        (found,) = [finding for finding in inspect(content).findings if finding.code == code]
        assert content.index(b"a:when") < found.column < content.index(b"a:name")


def _places_of(local: str, shape: ZeebeShape) -> list[str]:
    """One element of the extension in the right place, once for each of its attributes, which reads the payload."""
    element = [f'<zeebe:{local} {attribute}="{READ}"/>' for attribute in shape.attributes]
    parent = shape.parents[0] if shape.parents else "task"
    if parent.startswith("zeebe:"):
        outer = parent.removeprefix("zeebe:")
        holder = (*SHAPES[outer].parents, "task")[0]
        return [extended(holder, f"<zeebe:{outer}>{inner}</zeebe:{outer}>") for inner in element]
    return [extended(parent, inner) for inner in element]


EVERYWHERE = [
    pytest.param(place, id=f"{local} {number}")
    for local, shape in SHAPES.items()
    for number, place in enumerate(_places_of(local, shape))
]


@pytest.mark.req("LNT-02")
@pytest.mark.parametrize("place", EVERYWHERE)
def test_the_payload_is_seen_in_every_attribute_of_the_extension(place: str) -> None:
    content = document(place) if place.startswith(("<process", "<message")) else model(place)

    assert "HB301" in {finding.code for finding in inspect(content).findings}


def test_the_table_has_no_hole() -> None:
    """Places 23 and 46 have tests of their own above."""
    assert {number for number, _, _ in PLACES} == set(range(1, 49)) - {23, 46}
