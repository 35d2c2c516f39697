"""A small project with the extension profile, in a folder of its own: one process, its contract, policies and verbs."""

from pathlib import Path

from tests.support.project import Project

MODEL = "processes/loan-apply/process.bpmn"
LOCK = "processes/loan-apply/compile.lock.json"
MODULE = "verbs/loan_apply_gen.py"
CONTRACT = "verbs/loan.yaml"
POLICIES = "verbs/policies.yaml"
CODE = "verbs/__init__.py"
APP = ("--app", "verbs:registry")

_SETTINGS = '[tool.verblint]\nverbs = "verbs"\n'
_POLICIES = """version: 1
policies:
  - name: standard
    schedule_to_close_timeout_seconds: 3600
    start_to_close_timeout_seconds: 30
    retry:
      maximum_attempts: 3
      initial_interval_seconds: 1
      maximum_interval_seconds: 60
      backoff_coefficient: 2.0
      non_retryable_error_types: []
"""
_CONTRACT = """verbs:
  - verb: loan.apply
    version: 1
    strategy: workflow
    args:
      customer: {type: string, required: true}
    process: loan-apply
    correlation:
      business_key: "loan/${args.customer}"
      keys:
        corr_papers: "${state.customer}"
    payload:
      initial:
        customer: args.customer
    sub_verbs: [loan.ask, loan.record]
    flags:
      orch_asked: {type: boolean, initial: false}
    messages:
      loan.papers: corr_papers
    gates:
      decide: {task: decide, decisions: [grant, refuse]}
    policy: standard
    compensation:
      loan.ask: loan.withdraw
  - {verb: loan.ask, version: 1, mode: external, on_unknown: rerun, writes: [asked]}
  - {verb: loan.record, version: 1, mode: external, writes: [decided]}
  - {verb: loan.withdraw, version: 1, mode: external, writes: [asked]}
"""
_CODE = '''"""The verbs of the loan."""

from pathlib import Path

from pydantic import BaseModel

from verbworker import Registry, Result

HERE = Path(__file__).parent
registry = Registry()


class Loan(BaseModel):
    """One loan."""

    customer: str
    asked: bool = False
    decided: bool = False


@registry.verb("loan.ask", mode="external", writes=("asked",))
async def ask(loan: Loan) -> Result[Loan]:
    """Ask for papers."""
    return Result(loan.model_copy(update={"asked": True}), flags={"orch_asked": True})


@registry.verb("loan.record", mode="external", writes=("decided",))
async def record(loan: Loan) -> Result[Loan]:
    """Record what was decided."""
    return Result(loan.model_copy(update={"decided": True}))


@registry.verb("loan.withdraw", mode="external", writes=("asked",))
async def withdraw(loan: Loan) -> Result[Loan]:
    """Ask no more."""
    return Result(loan.model_copy(update={"asked": False}))


registry.load(HERE, policies=HERE / "policies.yaml")
'''
_MODEL = """<?xml version="1.0" encoding="UTF-8"?>
<bpmn:definitions xmlns:bpmn="http://www.omg.org/spec/BPMN/20100524/MODEL"
    xmlns:zeebe="http://camunda.org/schema/zeebe/1.0"
    xmlns:ameide="https://ameide.io/schema/bpmn/extensions/v1" targetNamespace="http://verbworker/tests">
  <bpmn:message id="papers" name="loan.papers">
    <bpmn:extensionElements>
      <zeebe:subscription correlationKey="=corr_papers"/>
      <ameide:subscription correlationKeyTemplate="${state.customer}" messageIdPath="message_id"/>
    </bpmn:extensionElements>
  </bpmn:message>
  <bpmn:process id="loan-apply" name="Apply for a loan" isExecutable="true">
    <bpmn:extensionElements>
      <ameide:workflowDefinition definitionId="loan-apply/1" workflowIdTemplate="loan/${state.customer}"/>
    </bpmn:extensionElements>
    <bpmn:startEvent id="begin"/>
    <bpmn:sequenceFlow id="to_ask" sourceRef="begin" targetRef="ask"/>
    <bpmn:serviceTask id="ask" name="Ask for papers">
      <bpmn:extensionElements>
        <zeebe:taskDefinition type="loan.ask" retries="3"/>
        <ameide:taskDefinition type="loan.ask" policyRef="standard"/>
        <ameide:ioMapping>
          <ameide:input source="state.customer" target="request.customer"/>
          <ameide:output source="result.asked" target="state.asked"/>
        </ameide:ioMapping>
      </bpmn:extensionElements>
    </bpmn:serviceTask>
    <bpmn:sequenceFlow id="to_wait" sourceRef="ask" targetRef="wait"/>
    <bpmn:receiveTask id="wait" name="Papers" messageRef="papers"/>
    <bpmn:sequenceFlow id="to_decide" sourceRef="wait" targetRef="decide"/>
    <bpmn:userTask id="decide" name="Grant it?"/>
    <bpmn:boundaryEvent id="late" attachedToRef="decide">
      <bpmn:outgoing>from_late</bpmn:outgoing>
      <bpmn:timerEventDefinition><bpmn:timeDuration>P5D</bpmn:timeDuration></bpmn:timerEventDefinition>
    </bpmn:boundaryEvent>
    <bpmn:sequenceFlow id="from_late" sourceRef="late" targetRef="record"/>
    <bpmn:sequenceFlow id="to_record" sourceRef="decide" targetRef="record"/>
    <bpmn:serviceTask id="record" name="Record it">
      <bpmn:extensionElements>
        <zeebe:taskDefinition type="loan.record"/>
        <ameide:taskDefinition type="loan.record" policyRef="standard"/>
        <ameide:ioMapping>
          <ameide:input source="state.customer" target="request.customer"/>
          <ameide:output source="result.decided" target="state.decided"/>
        </ameide:ioMapping>
      </bpmn:extensionElements>
    </bpmn:serviceTask>
    <bpmn:sequenceFlow id="to_undo" sourceRef="record" targetRef="undo"/>
    <bpmn:serviceTask id="undo" name="Undo">
      <bpmn:extensionElements>
        <zeebe:taskDefinition type="verbworker.compensate"/>
      </bpmn:extensionElements>
    </bpmn:serviceTask>
    <bpmn:sequenceFlow id="to_end" sourceRef="undo" targetRef="end"/>
    <bpmn:endEvent id="end"/>
  </bpmn:process>
</bpmn:definitions>
"""


def make_loan(folder: Path) -> Project:
    """Write the project into a folder; nothing is compiled yet."""
    loan = Project(folder)
    files = {"pyproject.toml": _SETTINGS, POLICIES: _POLICIES, CONTRACT: _CONTRACT, CODE: _CODE, MODEL: _MODEL}
    for name, text in files.items():
        loan.write(name, text)
    return loan


def make_verified_loan(folder: Path) -> Project:
    """The same, compiled and agreeing in everything."""
    loan = make_loan(folder)
    said = loan.verify("--write", *APP)
    assert said.code == 0, said.out + said.err
    return loan
