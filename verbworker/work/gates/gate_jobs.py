"""The handler of human gates: a user task's job parks its entry until a person has decided."""

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from verblint.contracts.contract import Gate
from verbworker.contract.registry import Registry
from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Engine
from verbworker.errors import PermanentContract
from verbworker.job.job import Job
from verbworker.model.waits import Waits, due
from verbworker.runbook.decision_form import form_of
from verbworker.runbook.event import ParkedToken, Wait
from verbworker.stores.cases.gates import EarlierGate, GateStore, SilentGate
from verbworker.stores.database import Database
from verbworker.stores.deployments import Definition, Deployments
from verbworker.work.gates.decide import DecisionSender
from verbworker.work.gates.gate_writes import GateWrites
from verbworker.work.jobs.step_guard import VisitIdentity
from verbworker.work.listeners.job_handler import InternalJobs, JobVisit, with_texts
from verbworker.work.starts.duplicate_instances import InstanceIdentity, has_job

_log = logging.getLogger(__name__)

USER_TASK = "io.camunda.zeebe:userTask"
_PLAIN = {
    "assignee": "assignee",
    "dueDate": "due",
    "followUpDate": "follow_up",
    "formKey": "form",
    "priority": "priority",
}
_USUAL_PRIORITY = "50"  # the engine's default, which tells a reader nothing
_LISTS = {"candidateGroups": "groups", "candidateUsers": "users"}


class GateJobs:
    """Parks entries at their gates. The job stays activated; its redelivery shows that the engine still waits."""

    type = USER_TASK

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        database: Database,
        *,
        identity: InstanceIdentity | None = None,
        timeout: timedelta = timedelta(minutes=5),
        concurrency: int = 32,
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._database = database
        self._gates = GateStore(database)
        self._writes = GateWrites(database)
        self._deployments = Deployments(database, engine_id=engine.engine_id)
        self._visits = VisitIdentity(self._deployments)
        self._sender = DecisionSender(database, engine)
        self._jobs = InternalJobs(database, engine, identity)
        self.timeout: timedelta | None = timeout
        self.concurrency = concurrency
        self.variables = with_texts(registry)

    async def serve(self, job: Job) -> bool:
        """Park the entry of a task, or complete a task whose decision was lost; return False to have it redelivered."""
        return await self._jobs.serve(job, partial(self._serve, job), refuse=partial(self._leave_alone, job))

    async def _leave_alone(self, job: Job, why: PermanentContract) -> bool:
        _log.info("a task that is not ours is left alone", extra={"job_key": job.key, "reason": str(why)})
        await self._jobs.extend(job, job.timeout_ms)
        return True

    async def _serve(self, job: Job) -> bool:
        visit = await self._jobs.admit_running(job)
        workflow = self._registry.workflows.get(visit.instance.verb)
        if workflow is None or workflow.process != job.process_id:
            _log.warning("a gate of a verb unknown here", extra={"job_key": job.key, "verb": visit.instance.verb})
            await self._jobs.extend(job, job.timeout_ms)
            return True
        # A model that was not deployed by us has no recorded waits.
        waits = await self._deployments.waits(Definition.of(job)) or {}
        token = gate_token(visit, gate_of(job, workflow, waits), waits)
        token = replace(token, engine_id=self._engine.engine_id, job_key=job.key)
        ends = due(waits, job.element_id, job.variables, datetime.now(UTC))
        same = await self._visits.identify(job, visit.reserved.hash)
        await self._park(job, replace(token, due=ends, input_hash=same))
        # A parked task stays with the engine: a decision completes it whether or not its timeout still works.
        return True

    async def _park(self, job: Job, token: ParkedToken) -> None:
        earlier = None if token.input_hash is None else await self._gates.earlier(token)
        if earlier is not None:
            return await self._move(job, token, earlier)
        async with self._database.transaction() as connection:
            parked = await self._writes.park_in(connection, job, token)
        if parked.is_decided:
            await self._sender.again(parked.token_id, job.key, job.lease_token)
        elif parked.is_opened:
            # Its timer may have fired before we parked: that event found nothing to close.
            gate_now = SilentGate(parked.token_id, token.entry_id, job.element_instance_key, job.key, token.gate or "")
            await self._sender.probe(gate_now, job.timeout_ms, job.lease_token)
        else:
            await self._jobs.extend(job, job.timeout_ms)

    async def _move(self, job: Job, token: ParkedToken, earlier: EarlierGate) -> None:
        """Move a gate to a task that the engine lost and created anew; a decision applies to the new task."""
        if not await has_job(self._engine, job):
            return  # a late delivery of the task that was lost
        async with self._database.transaction() as connection:
            is_decided = await self._writes.move_in(connection, job, earlier, token)
        if is_decided:
            await self._sender.again(earlier.token_id, job.key, job.lease_token)


def gate_of(job: Job, workflow: WorkflowVerb, waits: Waits) -> Gate:
    """Return a task's gate: as the contract declares it, else as the model names it, accepting any decision."""
    declared = next((gate for gate in workflow.gates.values() if gate.task == job.element_id), None)
    if declared is not None:
        return declared
    named = waits[job.element_id].gate if job.element_id in waits else None
    return Gate(named or f"Update_{job.element_id}", job.element_id)


def gate_token(visit: JobVisit, gate: Gate, waits: Waits) -> ParkedToken:
    """Return the wait of an entry at a gate; the form is the model's, because the engine tells at most its key."""
    known = waits.get(visit.job.element_id)
    form = {"form": known.form} if known is not None and known.form else {}
    return replace(
        visit.token(Wait.HUMAN_GATE, f"Awaiting {' or '.join(gate.roles) or gate.name}"),
        gate=gate.name,
        detail={"decisions": list(gate.decisions), **asked_of(visit.job), **form, **_rules(gate), **_page(gate)},
    )


def _rules(gate: Gate) -> dict[str, object]:
    """Return who may decide, as far as the contract says."""
    rules = {"audience": list(gate.roles), "four_eyes": gate.four_eyes, "distinct_from": list(gate.distinct_from)}
    return {name: rule for name, rule in rules.items() if rule}


def _page(gate: Gate) -> dict[str, object]:
    """Return what the task's page shows. Only the declaration is stored here; the values stay in the payload."""
    form = form_of(gate)
    if not gate.show:
        return form
    names = ("field", "label", "format", "currency")
    rows = [{name: getattr(fact, name) for name in names if getattr(fact, name) is not None} for fact in gate.show]
    return {"show": rows, **form}


def asked_of(job: Job) -> dict[str, object]:
    """Return assignees, due dates and form, as the engine puts them into the task's headers."""
    given = {name.removeprefix("io.camunda.zeebe:"): value for name, value in job.headers.items()}
    if given.get("priority") == _USUAL_PRIORITY:
        del given["priority"]
    plain: dict[str, object] = {ours: given[theirs] for theirs, ours in _PLAIN.items() if given.get(theirs)}
    return plain | {ours: _names(given[theirs]) for theirs, ours in _LISTS.items() if given.get(theirs)}


def _names(text: str) -> object:
    """Parse names as the engine writes them: a JSON list."""
    try:
        names = json.loads(text)
    except ValueError:
        return [text]
    return names if isinstance(names, list) else [text]
