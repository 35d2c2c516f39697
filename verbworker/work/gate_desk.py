"""The desk of human gates: a user task's job says that somebody is asked, and stays until that person decided."""

import json
import logging
from datetime import timedelta
from uuid import UUID

from verbworker.crossing import Luggage, correlated
from verbworker.engine import Engine
from verbworker.errors import (
    EngineError,
    PermanentContract,
    StoreConflict,
    StoreError,
    StoreUnavailable,
    TransientInfrastructure,
)
from verbworker.event import Kind, Token, Wait
from verbworker.frame import Correlation
from verbworker.job import Job
from verbworker.registry import Registry
from verbworker.stores._database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.gates import GateBook, Silent
from verbworker.stores.instances import Instances
from verbworker.stores.runbook import Runbook
from verbworker.work.gates import Teller
from verbworker.work.strays import Strays
from verbworker.workflow import Gate, WorkflowVerb

_log = logging.getLogger(__name__)

USER_TASK = "io.camunda.zeebe:userTask"
_COME_AGAIN_MS = 2_000
_PLAIN = {"assignee": "assignee", "dueDate": "due", "followUpDate": "follow_up", "formKey": "form"}
_LISTS = {"candidateGroups": "groups", "candidateUsers": "users"}


class GateDesk:
    """Parks entries at their gates. The job stays activated; that it comes again says that the engine still waits."""

    type = USER_TASK

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        database: Database,
        *,
        strays: Strays | None = None,
        timeout: timedelta = timedelta(minutes=5),
        concurrency: int = 32,
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._database = database
        self._book = GateBook(database)
        self._runbook = Runbook(database)
        self._instances = Instances(database)
        self._deployments = Deployments(database, engine_id=engine.engine_id)
        self._names: dict[int, dict[str, str]] = {}
        self._teller = Teller(database, engine)
        self._strays = strays
        self.timeout: timedelta | None = timeout
        self.concurrency = concurrency

    async def serve(self, job: Job) -> None:
        """Park the entry of a task, or complete a task whose decision got lost on its way."""
        try:
            await self._serve(job)
        except (StoreUnavailable, StoreConflict, TransientInfrastructure) as error:
            _log.warning("gate left to the engine", extra={"job_key": job.key, "reason": str(error)})
            await self._extend(job, _COME_AGAIN_MS)
        except StoreError as error:
            _log.error("the database refuses a gate", extra={"job_key": job.key, "reason": str(error)})
        except Exception:
            _log.exception("a bug at a gate; the engine delivers the task again", extra={"job_key": job.key})

    async def _serve(self, job: Job) -> None:
        luggage = Luggage.of(job)
        uid = luggage.instance_uid
        instance = None if uid is None else await self._instances.known(uid)
        if uid is not None and self._strays is not None and await self._strays.catch(job, instance, uid):
            return
        try:
            known, instance_uid = correlated(job, luggage, instance)
        except PermanentContract as error:
            _log.info("a task that is not ours is left alone", extra={"job_key": job.key, "reason": str(error)})
            return await self._extend(job, job.timeout_ms)
        workflow = self._registry.workflows.get(known.verb)
        if workflow is None or workflow.process != job.process_id:
            _log.warning("a gate of a verb unknown here", extra={"job_key": job.key, "verb": known.verb})
            return await self._extend(job, job.timeout_ms)
        await self._pin(job, known, instance_uid)
        await self._park(job, known, instance_uid, await self._gate(job, workflow))

    async def _gate(self, job: Job, workflow: WorkflowVerb) -> Gate:
        """The gate at a task: as the contract declares it, else as its model names it, and then it takes any word."""
        declared = next((gate for gate in workflow.gates.values() if gate.task == job.element_id), None)
        if declared is not None:
            return declared
        definition_key = job.process_definition_key
        if definition_key not in self._names:
            deployment = await self._deployments.find(definition_key)
            # What was not deployed by us may be recorded later; what is recorded never changes.
            if deployment is None:
                return Gate(f"Update_{job.element_id}", job.element_id)
            self._names[definition_key] = {
                element_id: waiting.gate for element_id, waiting in deployment.waits.items() if waiting.gate
            }
        name = self._names[definition_key].get(job.element_id, f"Update_{job.element_id}")
        return Gate(name, job.element_id)

    async def _park(self, job: Job, known: Correlation, instance_uid: UUID, gate: Gate) -> None:
        token = self._token(job, known, instance_uid, gate)
        async with self._database.transaction() as connection:
            token_id, is_new = await self._runbook.park_in(connection, token)
            if is_new:
                await self._runbook.append_in(
                    connection,
                    known.entry_id,
                    Kind.PARKED,
                    once=f"parked:{job.element_instance_key}",
                    detail={
                        "wait": token.kind.value,
                        "reason": token.reason,
                        "gate": gate.name,
                        "token_id": str(token_id),
                    },
                )
            verdict = None if is_new else await self._book.verdict_in(connection, token_id)
        if verdict is not None:
            await self._teller.again(token_id, job.key)
        elif is_new:
            # Its time may have been up before we parked: whoever told so then found nothing to close.
            gate_now = Silent(token_id, known.entry_id, job.element_instance_key, job.key, gate.name)
            await self._teller.probe(gate_now, job.timeout_ms)
        else:
            await self._extend(job, job.timeout_ms)

    def _token(self, job: Job, known: Correlation, instance_uid: UUID, gate: Gate) -> Token:
        return Token(
            tenant_id=known.tenant_id,
            entry_id=known.entry_id,
            instance_uid=instance_uid,
            engine_id=self._engine.engine_id,
            instance_key=job.process_instance_key,
            element_instance_key=job.element_instance_key,
            element_id=job.element_id,
            kind=Wait.HUMAN_GATE,
            reason=f"Awaiting {gate.audience or gate.name}",
            gate=gate.name,
            job_key=job.key,
            detail={"decisions": list(gate.decisions), **asked_of(job)},
        )

    async def _pin(self, job: Job, known: Correlation, instance_uid: UUID) -> None:
        """Note the engine's key of an instance whose starter died before it could."""
        if known.instance_key is None:
            await self._instances.pin(
                instance_uid,
                instance_key=job.process_instance_key,
                definition_key=job.process_definition_key,
                version=job.process_version,
            )

    async def _extend(self, job: Job, timeout_ms: int) -> None:
        """Let the task come again after so long: it was handed out for a few seconds only."""
        try:
            await self._engine.extend(job.key, timeout_ms)
        except EngineError as error:
            _log.debug("left undone", extra={"job_key": job.key, "reason": str(error)})


def asked_of(job: Job) -> dict[str, object]:
    """Whom the model asks, until when, and where the form is: what the engine put into the task's headers."""
    given = {name.removeprefix("io.camunda.zeebe:"): value for name, value in job.headers.items()}
    plain: dict[str, object] = {ours: given[theirs] for theirs, ours in _PLAIN.items() if given.get(theirs)}
    return plain | {ours: _names(given[theirs]) for theirs, ours in _LISTS.items() if given.get(theirs)}


def _names(text: str) -> object:
    """Names as the engine writes them: a JSON list."""
    try:
        names = json.loads(text)
    except ValueError:
        return [text]
    return names if isinstance(names, list) else [text]
