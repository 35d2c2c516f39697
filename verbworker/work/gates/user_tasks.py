"""The handlers of native user tasks: each change of a task reaches its gate through a task listener.

`creating` opens the gate, `assigning` mirrors its claim, `completing` takes a decision that was made in the engine's
task list, `canceling` closes the gate. The engine waits for each answer; `completing` and `assigning` may deny.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from verbworker.contract.person import Person
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import OWN_ACTION, Engine, EngineUserTask
from verbworker.errors import (
    InvocationInvalid,
    NotAllowed,
    NotFound,
    PermanentContract,
    RequestConflict,
    TransientInfrastructure,
)
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import ENTRY_ID, INSTANCE_UID, TENANT_ID, Job
from verbworker.job.outcome import NO_RESULT
from verbworker.model.native_tasks import ASSIGNING, CANCELING, COMPLETING, CREATING, DECISION, INPUTS, REASON
from verbworker.model.waits import due, ends
from verbworker.payload.boundary import JobVariables
from verbworker.runbook.event import ParkedToken
from verbworker.stores.cases.gates import EarlierGate, GateStore, HumanGate
from verbworker.stores.cases.incidents import Incidents
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database
from verbworker.stores.deployments import Definition, Deployments
from verbworker.stores.people.people import People
from verbworker.work.gates.assignees import ENGINE_PERSON, tasks_of
from verbworker.work.gates.gate_jobs import gate_of, gate_token
from verbworker.work.gates.gate_writes import (
    CLAIMED_FOR,
    DecisionInput,
    GateWrites,
    require_choice,
    require_open,
    require_readable,
)
from verbworker.work.jobs.step_guard import VisitIdentity
from verbworker.work.listeners.job_handler import (
    InternalJobs,
    JobHandler,
    JobVisit,
    ListenerJobs,
    ListenerKind,
    with_texts,
)
from verbworker.work.starts.duplicate_instances import InstanceIdentity

_log = logging.getLogger(__name__)

_HEADERS = "io.camunda.zeebe:"
_IDENTITY = (ENTRY_ID, INSTANCE_UID, TENANT_ID)

Change = Callable[[Connection, Job, HumanGate | None], Awaitable[bool]]
"""Applies a change of a task to its gate; returns whether it brought the decision. Raises what is denied."""


class UserTaskJobs:
    """Keeps gates and native user tasks in step.

    The gate of a task is found by the engine's keys, never by variables: a completion may bring variables of any name.
    """

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        database: Database,
        listener_jobs: ListenerJobs,
        *,
        identity: InstanceIdentity | None = None,
        refuse_unknown: bool = False,
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._database = database
        self._listener_jobs = listener_jobs
        self._instances = Instances(database)
        self._incidents = Incidents(database, engine_id=engine.engine_id)
        self._gates = GateStore(database)
        self._runbook = Runbook(database)
        self._people = People(database)
        self._writes = GateWrites(database, refuse_unknown=refuse_unknown)
        self._deployments = Deployments(database, engine_id=engine.engine_id)
        self._visits = VisitIdentity(self._deployments)
        self._jobs = InternalJobs(database, engine, identity)

    def handlers(self) -> list[JobHandler]:
        """Return the handlers of all task listeners."""
        create = partial(self._listener_jobs.receive, act=self.open)
        decision = (*_IDENTITY, DECISION, REASON, INPUTS)
        return [
            ListenerKind(CREATING, create, variables=with_texts(self._registry)),
            ListenerKind(ASSIGNING, partial(self.serve, change=self.assign), variables=_IDENTITY),
            ListenerKind(COMPLETING, partial(self.serve, change=self.decide), variables=decision),
            ListenerKind(CANCELING, partial(self.serve, change=self.withdraw), variables=_IDENTITY),
        ]

    async def serve(self, job: Job, change: Change) -> bool:
        """Apply a change to the gate and answer the engine; return False if the job must be redelivered."""

        async def deny(error: PermanentContract) -> bool:
            await tasks_of(self._engine).deny(job.key, str(error), lease_token=job.lease_token)
            return True

        return await self._jobs.serve(job, partial(self._settle, job, change), refuse=deny)

    async def _settle(self, job: Job, change: Change) -> bool:
        if await self._jobs.is_lost(job):
            return True
        try:
            async with self._database.transaction() as connection:
                gate = await self._gates.hold_task_in(connection, self._engine.engine_id, job.element_instance_key)
                is_decision = await change(connection, job, gate)
        except (InvocationInvalid, NotAllowed, NotFound, RequestConflict) as no:
            _log.info("a change of a user task is denied", extra={"job_key": job.key, "reason": str(no)})
            await tasks_of(self._engine).deny(job.key, str(no), lease_token=job.lease_token)
            return True
        await self._engine.complete(job.key, NO_RESULT, lease_token=job.lease_token)
        if is_decision and gate is not None:
            await self._gates.record_answer(gate.token_id, gone=False)
        return True

    # ---- creating ---------------------------------------------------------------------------------------------------

    async def open(self, connection: Connection, visit: JobVisit) -> bool:
        """Park the entry at the gate of a task that is about to be created."""
        job = visit.job
        workflow = self._registry.workflows.get(visit.instance.verb)
        if workflow is None or workflow.process != job.process_id:
            raise TransientInfrastructure(f"the verb {visit.instance.verb} is unknown here", code="VerbUnknown")
        waits = await self._deployments.waits(Definition.of(job), on=connection) or {}
        token = replace(
            gate_token(visit, gate_of(job, workflow, waits), waits),
            due=due(waits, job.element_id, job.variables, datetime.now(UTC)),
            input_hash=await self._visits.identify(job, visit.reserved.hash, connection),
        )
        earlier = None if token.input_hash is None else await self._gates.earlier(token, connection)
        if earlier is None:
            await self._park(connection, job, token)
        elif await self._listener_jobs.has(job):  # a late delivery of a task that was lost moves nothing
            await self._move(connection, job, token, earlier)
        return True

    async def open_found(self, task: EngineUserTask) -> bool:
        """Open the gate of a task that a search found and no listener reported; return whether its entry is open."""
        uid = (await self._incidents.find_running([task.instance_key])).get(task.instance_key)
        if uid is None:
            return False
        async with self._database.transaction() as connection:
            instance = await self._instances.hold_in(connection, uid)
            workflow = None if instance is None else self._registry.workflows.get(instance.verb)
            if instance is None or instance.has_ended or workflow is None:
                return False
            job = _creating_job(task, instance, workflow.process)
            waits = await self._deployments.waits(Definition.of(job), on=connection) or {}
            visit = JobVisit(job, JobVariables.of(job), instance, uid)
            await self._park(connection, job, gate_token(visit, gate_of(job, workflow, waits), waits))
            if task.assignee is not None:
                key = self._engine.engine_id, task.element_instance_key
                await self.assign(connection, job, await self._gates.hold_task_in(connection, *key))
        _log.warning("a user task had no gate; it was opened", extra={"user_task_key": task.user_task_key})
        return True

    async def _park(self, connection: Connection, job: Job, token: ParkedToken) -> None:
        parked = await self._writes.park_in(connection, job, token)
        await self._gates.name_task_in(connection, parked.token_id, _task_key(job))
        if parked.is_decided:
            await self._gates.tell_anew_in(connection, parked.token_id)

    async def _move(self, connection: Connection, job: Job, token: ParkedToken, earlier: EarlierGate) -> None:
        """Move a gate to a task that the engine lost and created anew; a decision applies to the new task."""
        is_decided = await self._writes.move_in(connection, job, earlier, token)
        await self._gates.name_task_in(connection, earlier.token_id, _task_key(job))
        if is_decided:
            await self._gates.tell_anew_in(connection, earlier.token_id)

    # ---- assigning --------------------------------------------------------------------------------------------------

    async def assign(self, connection: Connection, job: Job, gate: HumanGate | None) -> bool:
        """Mirror an assignment that was made in the engine; deny one of a gate that another person just claimed here.

        A claim that the engine does not have yet differs from the assignee that it had.
        """
        assignee = _header(job, "assignee")
        if gate is None or gate.closed_at is not None:
            return False
        is_pending = gate.claimed_by != gate.engine_assignee
        if is_pending and not _is_own(job) and assignee is not None:
            require_open(gate, gate.token_id, Person(assignee))
        await self._gates.assign_in(connection, gate.token_id, assignee)
        if is_pending or gate.claimed_by == assignee:
            return False
        if assignee is None:
            await self._writes.mirror_release_in(connection, gate, ENGINE_PERSON)
        else:
            await self._writes.mirror_claim_in(connection, gate, assignee)
        return False

    # ---- completing -------------------------------------------------------------------------------------------------

    async def decide(self, connection: Connection, job: Job, gate: HumanGate | None) -> bool:
        """Take a decision from the task list, or let our own completion of a decided gate pass."""
        if gate is None:
            raise NotFound("the runtime does not know this task yet; try again in a moment")
        _require_own_identity(job, gate)
        if gate.verdict is not None and _is_own(job):
            return False
        if gate.verdict is not None and gate.job_key == job.key:
            return True  # its answer was lost, and the job is delivered again
        assignee = _header(job, "assignee")
        # The engine tells no roles of an assignee; here they are known from the last login.
        person = await self._people.named_in(connection, gate.tenant_id, assignee) if assignee else None
        word = _word(job, require_open(gate, gate.token_id, person), person)
        require_readable(word)
        require_choice(gate, word.decision)
        await self._gates.take_in(connection, gate.token_id, job.key)
        # Our answer to this job tells the engine; if it gets lost, a relay completes the task.
        await self._writes.decide_in(connection, gate, word, send_within=CLAIMED_FOR)
        return True

    # ---- canceling --------------------------------------------------------------------------------------------------

    async def withdraw(self, connection: Connection, job: Job, gate: HumanGate | None) -> bool:
        """Close the gate of a task that the engine withdraws."""
        if gate is None or gate.closed_at is not None:
            return False
        waits = await self._deployments.waits(Definition.of(job), on=connection) or {}
        # An event that interrupts the task is told by its own listener, and a cancellation by its result.
        is_interruptible = any(one.interrupting and ends(waits, key, job.element_id) for key, one in waits.items())
        is_recorded = is_interruptible or await self._runbook.is_cancelling_in(connection, gate.entry_id)
        await self._writes.withdraw_in(connection, gate, is_recorded=is_recorded)
        return False


def _creating_job(task: EngineUserTask, instance: InstanceFacts, process_id: str) -> Job:
    """Return the report that a listener would have brought."""
    return Job(
        key=task.user_task_key,
        type=CREATING,
        retries=1,
        activated_ms=0,
        timeout_ms=0,
        process_instance_key=task.instance_key,
        element_instance_key=task.element_instance_key,
        process_definition_key=instance.definition_key or 0,
        process_version=0,
        process_id=process_id,
        element_id=task.element_id,
        tenant_id=instance.tenant_id,
        headers={f"{_HEADERS}{name}": value for name, value in _headers_of(task).items() if value},
    )


def _headers_of(task: EngineUserTask) -> dict[str, str]:
    """Return what a search knows of a task, in the words of a listener's headers."""
    return {
        "userTaskKey": str(task.user_task_key),
        "assignee": task.assignee or "",
        "candidateGroups": json.dumps(task.candidate_groups) if task.candidate_groups else "",
        "candidateUsers": json.dumps(task.candidate_users) if task.candidate_users else "",
        "dueDate": _date(task.due_at),
        "followUpDate": _date(task.follow_up_at),
        "priority": "" if task.priority is None else str(task.priority),
        "formKey": task.form or "",
    }


def _date(at: datetime | None) -> str:
    """Return a date as the engine writes it into a header: without seconds if they are zero."""
    if at is None:
        return ""
    exact = "minutes" if not (at.second or at.microsecond) else "seconds"
    return at.astimezone(UTC).isoformat(timespec=exact).replace("+00:00", "Z")


def _task_key(job: Job) -> int:
    key = _header(job, "userTaskKey")
    if key is None or not key.isdecimal():
        raise TransientInfrastructure("the engine did not name the key of a user task", code="TaskKeyMissing")
    return int(key)


def _header(job: Job, name: str) -> str | None:
    value = job.headers.get(f"{_HEADERS}{name}")
    return str(value) if value else None


def _is_own(job: Job) -> bool:
    return _header(job, "action") == OWN_ACTION


def _require_own_identity(job: Job, gate: HumanGate) -> None:
    """Raise for a completion with variables of ours: the mapping that keeps all others local writes one of them."""
    own = {ENTRY_ID: gate.entry_id, INSTANCE_UID: gate.instance_uid, TENANT_ID: gate.tenant_id}
    for name, value in own.items():
        if job.variables.get(name, str(value)) != str(value):
            raise InvocationInvalid(f"{name} is the runtime's own variable; complete the task without it")


def _word(job: Job, gate: HumanGate, person: Person | None) -> DecisionInput:
    """Return what a person decided in the task list, as its variables tell."""
    decision, reason = job.variables.get(DECISION), job.variables.get(REASON)
    takes = f", one of {', '.join(gate.decisions)}" if gate.decisions else ""
    if not isinstance(decision, str) or not decision:
        raise InvocationInvalid(f"{gate.gate} needs a decision: set the variable {DECISION}{takes}")
    if not isinstance(reason, str | None):
        raise InvocationInvalid(f"the variable {REASON} must be text")
    # Of a gate without inputs the variable is somebody else's, and stays local to the task.
    inputs = job.variables.get(INPUTS) if gate.detail.get("inputs") else None
    if not isinstance(inputs, Mapping | None):
        raise InvocationInvalid(f"the variable {INPUTS} must be an object")
    if person is None:
        raise InvocationInvalid(f"assign {gate.gate} to a person first: the runbook records who decided")
    return DecisionInput(decision, reason or "", person, inputs or {})
