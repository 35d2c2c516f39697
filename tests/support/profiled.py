"""A process with a profile: it asks, waits for the answer by a key of its own making, settles, perhaps asks again."""

from dataclasses import dataclass, field
from hashlib import sha256

from pydantic import BaseModel

from tests.support.flags import flag_contract
from tests.support.rig import Rig
from verblint.bpmn.element import AMEIDE, BPMN, ZEEBE
from verblint.contracts.contract import Flag, FlagType
from verbworker.contract.policy import Policy, RetryPolicy
from verbworker.contract.registry import Registry
from verbworker.contract.verb import Call, Result
from verbworker.contract.workflow import WorkflowVerb
from verbworker.job.job import Job
from verbworker.job.outcome import NO_RESULT
from verbworker.model.weave import PARK, UNPARK, weave
from verbworker.stores.deployments import Deployments
from verbworker.work.starts.deploy import Deploy, DeployedModel, ReadyModel

KEY = "asking/${state.customer.id}/${step_instance_id}"
DATA = {"customer": {"name": "Ada", "id": 7}, "note": "private", "rounds": 1}
PATIENT = Policy(
    name="patient",
    schedule_to_close_timeout_seconds=600,
    start_to_close_timeout_seconds=20,
    retry=RetryPolicy(
        maximum_attempts=4,
        initial_interval_seconds=1,
        maximum_interval_seconds=2,
        backoff_coefficient=1.5,
        non_retryable_error_types=("ZeroDivisionError",),
    ),
)


def _headers(prefix: str) -> str:
    entries = "".join(f'<{prefix}:header key="{key}" value="{text}"/>' for key, text in HEADERS.items())
    return f"<{prefix}:taskHeaders>{entries}</{prefix}:taskHeaders>"


HEADERS = {"channel": "letter", "letter.kind-1": "first"}
ASK_MAPPING = f"""{_headers("zeebe")}{_headers("ameide")}<ameide:ioMapping>
  <ameide:input source="state.customer.name" target="request.who"/>
  <ameide:output source="result.reference" target="state.asked.reference"/>
  <ameide:output source="result.absent" target="state.note"/>
</ameide:ioMapping>"""
SETTLE_MAPPING = """<ameide:ioMapping>
  <ameide:input source="state.asked" target="request.asked"/>
  <ameide:input source="state.rounds" target="request.rounds"/>
  <ameide:output source="result.rounds" target="state.rounds"/>
</ameide:ioMapping>"""


class Question(BaseModel):
    """What the asking verb is given, and its answer."""

    who: str
    reference: str | None = None


class Asked(BaseModel):
    reference: str


class Settlement(BaseModel):
    """What the settling verb is given, and its answer."""

    asked: Asked
    rounds: int


@dataclass
class VerbRecorder:
    """What the verbs saw, and how the first of them behaves."""

    questions: list[tuple[Question, str, int]] = field(default_factory=list)
    settled: list[Settlement] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    error: Exception | None = None
    reference: str | None = "ref-1"


def profiled_registry(domain: str, recorder: VerbRecorder, *, mode: str = "external") -> Registry:
    """The verbs `<domain>.ask` and `<domain>.settle` and the workflow verb around them."""
    verbs = Registry()

    async def ask(question: Question, call: Call) -> Question:
        """Ask somebody outside."""
        recorder.questions.append((question, call.idempotency_key, call.attempt))
        recorder.headers.append(dict(call.headers))
        if recorder.error is not None:
            raise recorder.error
        return question.model_copy(update={"reference": recorder.reference})

    async def settle(case: Settlement) -> Result[Settlement]:
        """Settle what was answered."""
        recorder.settled.append(case)
        left = case.model_copy(update={"rounds": case.rounds - 1})
        return Result(left, flags={"orch_again": left.rounds > 0})

    verbs.verb(f"{domain}.ask", mode=mode, writes=("asked", "note"))(ask)  # type: ignore[arg-type]
    verbs.verb(f"{domain}.settle", mode="transactional", writes=("rounds",))(settle)
    workflow = WorkflowVerb(
        name=f"{domain}.open",
        version=1,
        process=domain,
        schema=f"{domain}.open/v1",
        sub_verbs=(f"{domain}.ask", f"{domain}.settle"),
        correlation={"corr_answer": "${state.asked.reference}"},
        messages={f"{domain}.answered": "corr_answer"},
        flag_contract=flag_contract(Flag("orch_again", FlagType.BOOLEAN, False)),
        policy="patient",
    )
    return verbs.declare(workflow, policies=[PATIENT]).check()


def profiled_model(domain: str, *, definition: str = "1", key: str = KEY) -> bytes:
    """The model: begin, ask, wait, settle, and once more while a flag says so."""
    return f"""<definitions xmlns="{BPMN}" xmlns:zeebe="{ZEEBE}" xmlns:ameide="{AMEIDE}" targetNamespace="urn:tests">
  <process id="{domain}" isExecutable="true">
    <extensionElements>
      <ameide:workflowDefinition definitionId="{definition}" workflowIdTemplate="${{state.customer.id}}"/>
    </extensionElements>
    <startEvent id="begin"/>
    {_task("ask", f"{domain}.ask", f' idempotencyKeyTemplate="{key}"', ASK_MAPPING)}
    <receiveTask id="wait" messageRef="answered"/>
    {_task("settle", f"{domain}.settle", "", SETTLE_MAPPING)}
    <exclusiveGateway id="again" default="no"/>
    <endEvent id="end"/>
    <sequenceFlow id="first" sourceRef="begin" targetRef="ask"/>
    <sequenceFlow id="asked" sourceRef="ask" targetRef="wait"/>
    <sequenceFlow id="came" sourceRef="wait" targetRef="settle"/>
    <sequenceFlow id="settled" sourceRef="settle" targetRef="again"/>
    <sequenceFlow id="yes" sourceRef="again" targetRef="ask">
      <conditionExpression>=orch_again = true</conditionExpression>
    </sequenceFlow>
    <sequenceFlow id="no" sourceRef="again" targetRef="end"/>
  </process>
  <message id="answered" name="{domain}.answered">
    <extensionElements>
      <zeebe:subscription correlationKey="=corr_answer"/>
      <ameide:subscription correlationKeyTemplate="${{state.asked.reference}}" messageIdPath="message_id"/>
    </extensionElements>
  </message>
</definitions>""".encode()


def _task(name: str, kind: str, more: str, mapping: str) -> str:
    return f"""<serviceTask id="{name}"><extensionElements>
      <zeebe:taskDefinition type="{kind}"/>
      <ameide:taskDefinition type="{kind}" policyRef="patient"{more}/>
      {mapping}
    </extensionElements></serviceTask>"""


async def deployed(rig: Rig, content: bytes) -> DeployedModel:
    """Weave a model and bring it to the rig's engine, as `verbworker deploy` does."""
    ready = ReadyModel(weave(content, rig.registry), "process.bpmn", sha256(content).digest())
    deploy = Deploy(rig.engine, Deployments(rig.database, engine_id=rig.engine.engine_id))
    return await deploy.deploy(ready, by="tests")


async def at_the_wait(rig: Rig) -> Job:
    """Let the process stand at its wait; nobody else is there to serve the listeners."""
    job = await rig.heard(PARK)
    await rig.engine.complete(job.key, NO_RESULT)
    return job


async def beyond_the_wait(rig: Rig) -> None:
    """Let the process go on behind its wait."""
    job = await rig.heard(UNPARK)
    await rig.engine.complete(job.key, NO_RESULT)
