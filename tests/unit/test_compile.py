"""A compiled process: what changes its digest and what does not, and the lock that keeps it."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.bpmn import document, process
from verblint.contracts.contract_files import read_contracts
from verblint.linter import inspect
from verblint.report import Severity
from verblint.settings import Settings
from verbs import __file__ as registry_file
from verbs import registry
from verbworker.contract.policy import Policy
from verbworker.engine.embedded.kernel.definition import compile_models
from verbworker.errors import ContractInvalid, Refused
from verbworker.profile.compile import Compiled, compile_model
from verbworker.profile.lock import Difference, Lock, differences, lock_of, read_lock

MODEL = Path(__file__).parents[2] / "processes" / "kyc-open-case" / "process.bpmn"
WORKFLOW = registry.workflows["kyc.open-case"]


def compiled(content: bytes | None = None, policies: Mapping[str, Policy] = registry.policies) -> Compiled:
    return compile_model(MODEL.read_bytes() if content is None else content, [WORKFLOW], policies)


def edited(old: str, new: str) -> bytes:
    """The model with one part of its text replaced."""
    text = MODEL.read_text()
    assert text.count(old) == 1
    return text.replace(old, new).encode()


def node(found: Compiled, name: str) -> dict[str, Any]:
    return next(node for node in found.ir["nodes"] if node["id"] == name)


# ---- what is in it --------------------------------------------------------------------------------------------------


@pytest.mark.req("CPL-01", "PRX-21")
def test_it_tells_what_the_process_is() -> None:
    found = compiled()

    assert (found.process_id, found.verb, found.definition_id) == ("kyc-open-case", "kyc.open-case", "kyc-open-case/1")
    assert found.ir["process"]["workflow_type"] == "kyc-open-case"
    assert found.ir["process"]["workflow_id_template"] == "${state.case_type}/${state.entity}"
    assert found.ir["messages"] == [
        {
            "id": "documents_received",
            "name": "kyc.documents-received",
            "key": "corr_documents",
            "template": "${state.case_id}",
        }
    ]


@pytest.mark.req("CPL-01", "PRX-28")
def test_it_tells_what_every_node_does() -> None:
    found = compiled()

    assert node(found, "screen") == {
        "id": "screen",
        "name": "Screen against sanctions",
        "type": "serviceTask",
        "scope": "evidence",
        "task": {
            "type": "kyc.screen-sanctions",
            "policy": "patient",
            "idempotency_key_template": "screening/${state.case_id}/${step_instance_id}",
        },
        "mapping": [
            ["input", "state.entity", "request.entity"],
            ["input", "state.case_type", "request.case_type"],
            ["output", "result.screening", "state.screening"],
        ],
    }
    assert node(found, "request")["keys"] == ["corr_documents"]
    assert node(found, "review")["gate"] == {"name": "review", "gate": "review", "decisions": ["approve", "reject"]}
    assert node(found, "await_documents")["message"] == "kyc.documents-received"
    assert node(found, "overdue") == {
        "id": "overdue",
        "name": "Review overdue",
        "type": "boundaryEvent",
        "scope": "reviewing",
        "attached_to": "review",
        "interrupting": False,
        "timer": {"kind": "timeDuration", "when": "=orch_review_deadline"},
    }
    assert node(found, "sanctions_hit")["error"] == "SANCTIONS_HIT"
    assert "policy" not in node(found, "undo")["task"]
    edges = {edge["id"]: edge for edge in found.ir["edges"]}
    assert edges["to_approved"]["condition"] == '=orch_review_outcome = "approved"'
    assert found.ir["flags"]["orch_review_outcome"]["values"] == ["pending", "approved", "rejected"]


@pytest.mark.req("POL-04", "POL-05")
def test_policies_are_resolved_and_only_those_that_are_named() -> None:
    spare = registry.policies["standard"].model_copy(update={"name": "spare"})

    found = compiled(policies={**registry.policies, "spare": spare})

    assert sorted(found.policies) == ["patient", "standard"]
    assert found.policies["patient"]["retry"]["maximum_attempts"] == 5


@pytest.mark.req("POL-04")
def test_a_policy_that_nobody_wrote_is_refused() -> None:
    with pytest.raises(Refused, match="names the policy patient, which no loaded policies file has"):
        compiled(policies={"standard": registry.policies["standard"]})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"<x", "cannot be read"),
        (b'<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"/>', "this one has none"),
        (
            edited('<bpmn:process id="kyc-open-case"', '<bpmn:process id="other"'),
            "no workflow verb has the process other",
        ),
    ],
)
def test_what_cannot_be_compiled_says_why(content: bytes, why: str) -> None:
    with pytest.raises(Refused, match=why):
        compiled(content)


@pytest.mark.req("TST-07")
def test_the_example_is_the_process_that_the_plan_asks_for() -> None:
    """Seed 004, section 12: direct verbs, one review by a person, a timer at it that escalates, and flags alone."""
    found = compiled()
    edges = {edge["source"]: edge["target"] for edge in found.ir["edges"]}
    written = [edge["condition"] for edge in found.ir["edges"] if "condition" in edge]
    written += [node["timer"]["when"] for node in found.ir["nodes"] if "timer" in node]

    called = {node["task"]["type"] for node in found.ir["nodes"] if node["type"] == "serviceTask" and "task" in node}
    assert called >= {
        *("kyc.create-case-record", "kyc.request-documents", "kyc.screen-sanctions", "kyc.record-review-decision"),
    }
    assert [node["id"] for node in found.ir["nodes"] if node["type"] == "userTask"] == ["review"]
    assert (node(found, "overdue")["attached_to"], edges["overdue"]) == ("review", "escalate")
    assert node(found, "escalate")["task"]["type"] == "kyc.escalate"
    assert written
    assert all(re.fullmatch(r'=orch_[a-z_]+( = ("[a-z]+"|true|false))?', text) for text in written), written


# ---- what changes it ------------------------------------------------------------------------------------------------


@pytest.mark.req("CPL-02", "PRX-14")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<dc:Bounds x="160"', '<dc:Bounds x="161"'),
        ("<bpmn:incoming>to_create</bpmn:incoming>", "<!-- moved --> <bpmn:incoming>to_create</bpmn:incoming>"),
        ('targetNamespace="urn:verbworker:example"', 'targetNamespace="urn:another"'),
        ('executionPlatformVersion="8.6.0"', 'executionPlatformVersion="8.7.0"'),
    ],
)
def test_what_nobody_acts_on_changes_nothing(old: str, new: str) -> None:
    text = MODEL.read_text()
    assert old in text

    assert compiled(text.replace(old, new, 1).encode()).ir_digest == compiled().ir_digest


_REVIEW = '<ameide:updateDefinition name="review" />'
_SCREEN = '<bpmn:serviceTask id="screen" name="Screen against sanctions">'
# What the two other profiles write into a model: whom a person sees and by which form, and where a message comes from.
UI = {
    "form": (_REVIEW, f'{_REVIEW}<zeebe:formDefinition formId="review-form" />'),
    "assignment": (_REVIEW, f'{_REVIEW}<zeebe:assignmentDefinition assignee="ada" candidateGroups="reviewers" />'),
    "schedule": (_REVIEW, f'{_REVIEW}<zeebe:taskSchedule dueDate="2030-01-01T00:00:00Z" />'),
    "words": (_SCREEN, f"{_SCREEN}<bpmn:documentation>Ask the provider.</bpmn:documentation>"),
    "layout": ('<dc:Bounds x="160"', '<dc:Bounds x="161"'),
}
INTEGRATION = {
    "topic": (_REVIEW, f'{_REVIEW}<zeebe:properties><zeebe:property name="topic" value="kyc" /></zeebe:properties>'),
}


@pytest.mark.req("PRX-08", "NOT-05")
@pytest.mark.parametrize("name", [*UI, *INTEGRATION])
def test_what_is_for_people_and_for_wiring_never_changes_what_is_executed(name: str) -> None:
    old, new = (UI | INTEGRATION)[name]
    content = MODEL.read_text()
    assert old in content

    told = content.replace(old, new, 1).encode()

    assert errors_in(told) == []
    assert compiled(told) == compiled()
    assert executed(told) == executed(MODEL.read_bytes())


@pytest.mark.req("PRX-08")
def test_a_change_of_execution_is_seen_by_the_same_comparison() -> None:
    other = edited('cancelActivity="false"', 'cancelActivity="true"')

    assert compiled(other) != compiled()
    assert executed(other) != executed(MODEL.read_bytes())


def errors_in(content: bytes) -> list[str]:
    """What the linter refuses in the example's model."""
    report = inspect(content, "process.bpmn", Settings(engine="8.6"), read_contracts(Path(registry_file).parent))
    return [f"{finding.code} {finding.message}" for finding in report.findings if finding.severity is Severity.ERROR]


def executed(content: bytes) -> object:
    """What the embedded engine does with a model; only what a user task shows to people is left out."""
    (definition,) = compile_models(content, "process.bpmn")
    nodes = {name: replace(node, headers={}) for name, node in definition.nodes.items()}
    return replace(definition, nodes=nodes)


@pytest.mark.req("CPL-02", "CPL-03")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('definitionId="kyc-open-case/1"', 'definitionId="kyc-open-case/2"'),
        ('workflowIdTemplate="${state.case_type}/${state.entity}"', 'workflowIdTemplate="${state.entity}"'),
        ("screening/${state.case_id}/${step_instance_id}", "screening/${step_instance_id}"),
        ('correlationKeyTemplate="${state.case_id}"', 'correlationKeyTemplate="${state.entity}"'),
        ('<ameide:output source="result.screening" target="state.screening" />', ""),
        ('=orch_review_outcome = "approved"', '=orch_review_outcome = "rejected"'),
        ('cancelActivity="false"', 'cancelActivity="true"'),
        ("<bpmn:timeDuration>=orch_review_deadline", "<bpmn:timeDuration>P1D"),
        ('errorCode="SANCTIONS_HIT"', 'errorCode="HIT"'),
        ('name="kyc.documents-received"', 'name="kyc.documents-came"'),
        ('type="kyc.screen-sanctions" policyRef="patient"', 'type="kyc.screen-sanctions" policyRef="standard"'),
        ('default="to_undo"', 'default="to_approved"'),
    ],
)  # fmt: skip
def test_what_somebody_acts_on_changes_the_digest(old: str, new: str) -> None:
    assert compiled(edited(old, new)).ir_digest != compiled().ir_digest


@pytest.mark.req("CPL-02", "POL-07")
def test_a_number_of_a_policy_changes_the_digest_and_is_named() -> None:
    patient = registry.policies["patient"]
    retry = patient.retry.model_copy(update={"maximum_attempts": 6})
    changed = compiled(policies={**registry.policies, "patient": patient.model_copy(update={"retry": retry})})

    assert changed.ir_digest != compiled().ir_digest
    found = differences(lock_of(compiled()), lock_of(changed))
    assert found == [Difference("policies.patient.retry.maximum_attempts", 5, 6)]


@pytest.mark.req("PRX-01")
def test_the_order_of_elements_in_the_file_is_not_part_of_it() -> None:
    text = MODEL.read_text()
    start = text.index('    <bpmn:endEvent id="approved"')
    end = text.index("</bpmn:endEvent>", start) + len("</bpmn:endEvent>\n")
    moved = text[:start] + text[end:]
    moved = moved.replace(
        '    <bpmn:sequenceFlow id="to_create"', text[start:end] + '    <bpmn:sequenceFlow id="to_create"'
    )

    assert compiled(moved.encode()).ir_digest == compiled().ir_digest


# ---- the lock -------------------------------------------------------------------------------------------------------


@pytest.mark.req("CPL-04", "POL-07")
def test_a_lock_is_the_same_bytes_every_time_and_comes_back() -> None:
    lock = lock_of(compiled())
    content = lock.to_bytes()

    assert content == lock_of(compiled()).to_bytes()
    assert read_lock(content, "compile.lock.json") == Lock.model_validate_json(content)
    assert read_lock(content, "x").to_bytes() == content
    assert read_lock(content, "x").is_true
    assert json.loads(content)["tool"].startswith("verbworker ")
    assert differences(lock, read_lock(content, "x")) == []


def test_a_lock_that_was_edited_by_hand_is_not_true() -> None:
    lock = lock_of(compiled())
    policies = {**lock.policies, "patient": {}}

    assert not lock.model_copy(update={"policies": policies}).is_true


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"lock": 2}', b'{"lock": 1, "tool": 3}'])
def test_what_is_no_lock_says_so_in_one_sentence(content: bytes) -> None:
    with pytest.raises(ContractInvalid, match=r"^dir/compile\.lock\.json: .*verify --write$"):
        read_lock(content, "dir/compile.lock.json")


def test_differences_are_told_by_name_and_not_by_place() -> None:
    was, now = lock_of(compiled()), lock_of(compiled(edited('name="Tell the head of KYC"', 'name="Tell the boss"')))

    assert differences(was, now) == [Difference("ir.nodes.escalate.name", "Tell the head of KYC", "Tell the boss")]


def test_what_came_and_what_went_is_told() -> None:
    lock = lock_of(compiled())
    more = lock.model_copy(update={"policies": {**lock.policies, "new": 1}})

    assert differences(lock, more) == [Difference("policies.new", None, 1)]
    assert differences(more, lock) == [Difference("policies.new", 1, None)]


def test_a_contract_is_part_of_it() -> None:
    other = replace(WORKFLOW, gates={})

    assert compile_model(MODEL.read_bytes(), [other], registry.policies).ir_digest != compiled().ir_digest


def test_every_kind_of_event_says_what_it_is() -> None:
    events = {
        "error": '<errorEventDefinition errorRef="e"/>',
        "escalation": '<escalationEventDefinition escalationRef="unknown"/>',
        "signal": '<signalEventDefinition signalRef="s"/>',
        "link": '<linkEventDefinition name="there"/>',
        "compensates": "<compensateEventDefinition/>",
        "terminates": "<terminateEventDefinition/>",
        "timer": "<timerEventDefinition/>",
        "event": "<cancelEventDefinition/>",
    }
    ends = "".join(f'<endEvent id="{name}">{inside}</endEvent>' for name, inside in events.items())
    receive = '<receiveTask id="wait" messageRef="m"/><receiveTask id="unkeyed" messageRef="n"/>'
    loop = "<multiInstanceLoopCharacteristics/>"
    start = f'<startEvent id="begin" isInterrupting="false"/><manualTask id="each">{loop}</manualTask>'
    declared = '<error id="e" name="E7"/><signal id="s" name="alarm"/><message id="m" name="answered"/>'
    content = document(process(start, receive, ends, key=WORKFLOW.process), declared)
    found = compile_model(content, [WORKFLOW], {})

    said = {name: node(found, name)[name] for name in events}
    assert said == {
        "error": "E7",
        "escalation": "unknown",
        "signal": "alarm",
        "link": "there",
        "compensates": "",
        "terminates": True,
        "timer": {"kind": "", "when": ""},
        "event": "cancelEventDefinition",
    }
    assert (node(found, "wait")["message"], node(found, "unkeyed")["message"]) == ("answered", "n")
    assert node(found, "begin")["interrupting"] is False
    assert node(found, "each")["multi_instance"] == "parallel"
    assert found.ir["messages"] == [{"id": "m", "name": "answered"}]


def test_a_key_without_a_template_of_its_own_has_the_contracts_and_names_the_jobs_before_it() -> None:
    (key, template), *_ = WORKFLOW.correlation.items()
    bound = '<extensionElements><zeebe:taskDefinition type="{0}"/>{1}</extensionElements>'
    header = '<ameide:taskHeaders><ameide:header key="letter" value="short"/></ameide:taskHeaders>'
    jobs = "".join(
        f'<serviceTask id="{name}">{bound.format("kyc.check", header if name == "a" else "")}</serviceTask>'
        for name in ("a", "b")
    )
    nodes = f'<startEvent id="begin"/><parallelGateway id="fork"/><parallelGateway id="join"/>{jobs}'
    arrows = ("begin", "fork"), ("fork", "a"), ("fork", "b"), ("a", "join"), ("b", "join"), ("join", "wait")
    flows = "".join(f'<sequenceFlow id="{a}_{b}" sourceRef="{a}" targetRef="{b}"/>' for a, b in arrows)
    wait = '<receiveTask id="wait" messageRef="m"/>'
    subscription = f'<extensionElements><zeebe:subscription correlationKey="={key}"/></extensionElements>'
    message = f'<message id="m" name="answered">{subscription}</message>'
    content = document(process(nodes, wait, flows, key=WORKFLOW.process), message)
    found = compile_model(content, [replace(WORKFLOW, policy=None, policies={})], {})

    assert found.ir["messages"] == [{"id": "m", "name": "answered", "key": key, "template": template}]
    assert node(found, "a")["headers"] == {"letter": "short"}
    assert [node(found, name).get("ripe_keys") for name in ("a", "b")] == [[key], [key]]
