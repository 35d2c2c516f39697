"""A model that has everything the profile strict-v1 has, and edits that make one thing of it wrong.

An edit replaces one text, which stands in the model once, by another.
"""

from dataclasses import dataclass
from functools import cache

from verblint.contracts.contract import (
    Contracts,
    DirectVerb,
    Flag,
    FlagType,
    Gate,
    Origin,
    PolicyFields,
    RetryFields,
    WorkflowVerbFields,
)
from verblint.linter import inspect
from verblint.report import Finding, Severity
from verblint.settings import Settings

_HERE = Origin("verbs/claim.yaml")


def _task(kind: str, name: str, verb: str, *, flows: str, parts: str) -> str:
    return f"""\
    <bpmn:{kind} id="{name}">
      <bpmn:extensionElements>
        <zeebe:taskDefinition type="{verb}" />
        <ameide:taskDefinition type="{verb}" policyRef="standard" idempotencyKeyTemplate="{name}/${{state.claim_id}}" />
{parts}      </bpmn:extensionElements>
{flows}    </bpmn:{kind}>
"""


def _flows(incoming: str, outgoing: str) -> str:
    return f"""\
      <bpmn:incoming>{incoming}</bpmn:incoming>
      <bpmn:outgoing>{outgoing}</bpmn:outgoing>
"""


_ASK = """\
        <ameide:taskHeaders>
          <ameide:header key="letter.kind-1" value="first" />
        </ameide:taskHeaders>
        <zeebe:taskHeaders>
          <zeebe:header key="letter.kind-1" value="first" />
        </zeebe:taskHeaders>
        <ameide:ioMapping>
          <ameide:input source="state.claim_id" target="request.claim" />
          <ameide:output source="result.sent.at" target="state.asked_at" />
        </ameide:ioMapping>
"""
_TELL = """\
        <ameide:taskHeaders />
        <ameide:ioMapping />
"""
_CHECK = """\
        <ameide:taskHeaders></ameide:taskHeaders>
        <ameide:ioMapping></ameide:ioMapping>
"""

_THROWN = f"""\
{_flows("to_throw", "to_catch")}\
      <bpmn:messageEventDefinition />
"""

MODEL = f"""\
<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions id="claim-model" targetNamespace="urn:verblint:strict"
    xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:ameide="https://ameide.io/schema/bpmn/extensions/v1"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"
    xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI"
    xmlns:dc="http://www.omg.org/spec/DD/20100524/DC">
  <bpmn:message id="docs" name="documents-received">
    <bpmn:extensionElements>
      <zeebe:subscription correlationKey="=corr_documents" />
      <ameide:subscription correlationKeyTemplate="${{state.claim_id}}" messageIdPath="message_id" />
    </bpmn:extensionElements>
  </bpmn:message>
  <bpmn:message id="paid" name="payment-confirmed">
    <bpmn:extensionElements>
      <zeebe:subscription correlationKey="=corr_payment" />
      <ameide:subscription correlationKeyTemplate="pay/${{state.payment.id}}" messageIdPath="message_id" />
    </bpmn:extensionElements>
  </bpmn:message>
  <bpmn:process id="claim" isExecutable="true">
    <bpmn:extensionElements>
      <ameide:workflowDefinition definitionId="claim/1" workflowIdTemplate="claim/${{state.claim_id}}" />
    </bpmn:extensionElements>
    <bpmn:startEvent id="start">
      <bpmn:outgoing>to_ask</bpmn:outgoing>
    </bpmn:startEvent>
{_task("serviceTask", "ask", "claim.ask", flows=_flows("to_ask", "to_wait"), parts=_ASK)}\
    <bpmn:receiveTask id="wait" messageRef="docs">
{_flows("to_wait", "to_check")}\
    </bpmn:receiveTask>
    <bpmn:subProcess id="checks">
{_flows("to_check", "to_review")}\
      <bpmn:startEvent id="inner_start" />
{_task("serviceTask", "check", "claim.check", flows="", parts=_CHECK)}\
      <bpmn:endEvent id="inner_end" />
      <bpmn:sequenceFlow id="inner_1" sourceRef="inner_start" targetRef="check" />
      <bpmn:sequenceFlow id="inner_2" sourceRef="check" targetRef="inner_end" />
    </bpmn:subProcess>
    <bpmn:userTask id="Review">
      <bpmn:extensionElements>
        <zeebe:userTask />
        <ameide:updateDefinition name="Update_Review" />
      </bpmn:extensionElements>
{_flows("to_review", "to_decide")}\
    </bpmn:userTask>
    <bpmn:exclusiveGateway id="decide" default="to_tell">
{_flows("to_decide", "to_tell")}\
      <bpmn:outgoing>to_throw</bpmn:outgoing>
    </bpmn:exclusiveGateway>
{_task("sendTask", "tell", "claim.tell", flows=_flows("to_tell", "tell_join"), parts=_TELL)}\
{_task("intermediateThrowEvent", "notify", "claim.notify", flows=_THROWN, parts="")}\
    <bpmn:intermediateCatchEvent id="catch">
{_flows("to_catch", "catch_join")}\
      <bpmn:messageEventDefinition messageRef="paid" />
    </bpmn:intermediateCatchEvent>
    <bpmn:exclusiveGateway id="join">
      <bpmn:incoming>catch_join</bpmn:incoming>
{_flows("tell_join", "to_end")}\
    </bpmn:exclusiveGateway>
    <bpmn:endEvent id="end">
      <bpmn:incoming>to_end</bpmn:incoming>
    </bpmn:endEvent>
    <bpmn:sequenceFlow id="to_ask" sourceRef="start" targetRef="ask" />
    <bpmn:sequenceFlow id="to_wait" sourceRef="ask" targetRef="wait" />
    <bpmn:sequenceFlow id="to_check" sourceRef="wait" targetRef="checks" />
    <bpmn:sequenceFlow id="to_review" sourceRef="checks" targetRef="Review" />
    <bpmn:sequenceFlow id="to_decide" sourceRef="Review" targetRef="decide" />
    <bpmn:sequenceFlow id="to_tell" sourceRef="decide" targetRef="tell" />
    <bpmn:sequenceFlow id="to_throw" sourceRef="decide" targetRef="notify">
      <bpmn:conditionExpression>=orch_approved = true</bpmn:conditionExpression>
    </bpmn:sequenceFlow>
    <bpmn:sequenceFlow id="to_catch" sourceRef="notify" targetRef="catch" />
    <bpmn:sequenceFlow id="tell_join" sourceRef="tell" targetRef="join" />
    <bpmn:sequenceFlow id="catch_join" sourceRef="catch" targetRef="join" />
    <bpmn:sequenceFlow id="to_end" sourceRef="join" targetRef="end" />
  </bpmn:process>
  <bpmndi:BPMNDiagram id="diagram">
    <bpmndi:BPMNPlane id="plane" bpmnElement="claim">
      <bpmndi:BPMNShape id="start_shape" bpmnElement="start">
        <dc:Bounds x="100" y="100" width="36" height="36" />
      </bpmndi:BPMNShape>
    </bpmndi:BPMNPlane>
  </bpmndi:BPMNDiagram>
</bpmn:definitions>
"""


@dataclass(frozen=True, slots=True)
class Edit:
    """One thing made wrong: what to call it, the text to replace, and the code and line of the error it earns.

    The line is the first one that holds `at`; left out, the first one of what was written. Further replacements belong
    to the same change.
    """

    name: str
    old: str
    new: str
    code: str = ""
    at: str = ""
    also: tuple[tuple[str, str], ...] = ()

    @property
    def model(self) -> str:
        """The model with this edit."""
        text = MODEL
        for old, new in ((self.old, self.new), *self.also):
            assert text.count(old) == 1, f"{old!r} stands in the model {text.count(old)} times"
            text = text.replace(old, new)
        return text

    @property
    def line(self) -> int:
        """The line where the error must be."""
        place = self.model.index(self.at) if self.at else MODEL.index(self.old)
        return self.model.count("\n", 0, place) + 1


@cache
def contracts() -> Contracts:
    """The contract that the model keeps."""
    verbs = ("claim.ask", "claim.check", "claim.tell", "claim.notify")
    verb = WorkflowVerbFields(
        name="claim.settle",
        version=1,
        process="claim",
        origin=_HERE,
        sub_verbs=verbs,
        flags={"orch_approved": Flag("orch_approved", FlagType.BOOLEAN, False)},
        policy="standard",
        correlation={"corr_documents": "${state.claim}", "corr_payment": "${state.claim}"},
        messages={"documents-received": "corr_documents", "payment-confirmed": "corr_payment"},
        gates={"review": Gate("review", "Review", ("approve", "reject"))},
    )
    directs = {name: DirectVerb(name=name, writes=(), origin=_HERE) for name in verbs}
    policy = PolicyFields(
        name="standard",
        schedule_to_close_timeout_seconds=600,
        start_to_close_timeout_seconds=60,
        retry=RetryFields(
            maximum_attempts=3, initial_interval_seconds=1, maximum_interval_seconds=60, backoff_coefficient=2
        ),
        origin=_HERE,
    )
    return Contracts({verb.name: verb}, directs, {policy.name: policy})


def found(model: str, *, profile: str = "strict-v1", known: Contracts | None = None) -> list[Finding]:
    """What the rules find in a model, under a profile and with the contract it keeps."""
    settings = Settings(profile=profile)
    return list(inspect(model.encode(), "claim.bpmn", settings, contracts() if known is None else known).findings)


def meets(edit: Edit) -> bool:
    """True when an edit earns its error at its line; otherwise AssertionError, with what was found instead."""
    errors = [(f.code, f.line, f.message) for f in found(edit.model) if f.severity is Severity.ERROR]
    assert (edit.code, edit.line) in {error[:2] for error in errors}, f"line {edit.line}, and found: {errors}"
    return True
