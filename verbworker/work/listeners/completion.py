"""Completion: the last listener of a process brings the final payload, and the entry ends with its result."""

import logging
from datetime import timedelta
from uuid import UUID

from verbworker.contract.registry import Registry
from verbworker.errors import PayloadIntegrityError, StoreError
from verbworker.job.job import PAYLOAD, RESERVED, Job
from verbworker.job.trace import UNTRACED, Tracer
from verbworker.model.start_variables import seal_of
from verbworker.model.weave import COMPLETE
from verbworker.payload.boundary import open_payload, owner
from verbworker.payload.canonical import canonical
from verbworker.payload.envelope import payload_bytes
from verbworker.payload.record import Head
from verbworker.payload.signature import KeyRing, Seal, SealedPlace, digest
from verbworker.runbook.event import Kind
from verbworker.stores.cases import payloads
from verbworker.stores.cases.runbook import Runbook
from verbworker.stores.database import Connection, Database
from verbworker.work.jobs.flag_guard import check_flags
from verbworker.work.listeners.job_handler import JobVisit, ListenerJobs
from verbworker.work.starts.cancel import Cancellation

_log = logging.getLogger(__name__)


class CompletionListener:
    """The handler of the last listener. The engine ends the instance only when the entry has its result."""

    type = COMPLETE
    timeout: timedelta | None = None

    def __init__(
        self,
        registry: Registry,
        database: Database,
        listener_jobs: ListenerJobs,
        cancelling: Cancellation,
        *,
        ring: KeyRing | None = None,
        concurrency: int = 16,
        tracer: Tracer = UNTRACED,
    ) -> None:
        self._registry = registry
        self._listener_jobs = listener_jobs
        self._cancelling = cancelling
        self._ring = ring
        self._tracer = tracer
        self._runbook = Runbook(database)
        self.concurrency = concurrency

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the variables of a job: the payload, and every flag of our processes."""
        flags = {name for workflow in self._registry.workflows.values() for name in workflow.flag_contract.flags}
        return (*RESERVED, *sorted(flags))

    async def serve(self, job: Job) -> bool:
        """End the entry of an instance that reached its end; return False if the job must be redelivered."""
        overtaken: list[UUID] = []
        ended: list[tuple[UUID, str]] = []

        async def complete(connection: Connection, visit: JobVisit) -> bool:
            # The first request to end decides how the entry ends; the engine has not ended the instance yet.
            if await self._runbook.is_cancelling_in(connection, visit.instance.entry_id):
                overtaken.append(visit.instance.entry_id)
                return False
            ended[:] = await self._complete(connection, visit)
            return True

        is_answered = await self._listener_jobs.receive(job, complete)
        for entry_id, status in ended:
            await self._tracer.record_case_end(entry_id, status)
        for entry_id in overtaken:
            await self._cancel(entry_id)
        return is_answered

    async def _complete(self, connection: Connection, visit: JobVisit) -> list[tuple[UUID, str]]:
        """End the entry; return it with its status if this call ended it."""
        job, entry_id = visit.job, visit.instance.entry_id
        workflow = owner(job, visit.instance, self._registry)
        await check_flags(connection, job, visit.instance, visit.instance_uid, workflow.flag_contract.flags)
        seal = seal_of(workflow, self._ring)
        # After parallel branches the engine has only the last writer's payload; the payload of record has all changes.
        head = await payloads.head_in(connection, visit.instance_uid)
        await self._check(connection, visit, seal, head)
        content = head.check(seal, tenant=visit.instance.tenant_id, instance_uid=visit.instance_uid)
        payload = open_payload(content, workflow, self._registry.upgrades)
        known = {**job.variables, **(head.flags or {})}
        flags = {name: known[name] for name in workflow.flag_contract.flags if name in known}
        workflow.flag_contract.check(flags)
        detail: dict[str, object] = {
            "result": "ok",
            "instance_key": job.process_instance_key,
            "payload_version": head.version,
            "payload_hash": digest(content),
            "flags": flags,
        }
        named = workflow.outcome_name(flags)
        if named is not None:
            detail["outcome"] = named
        undone = await self._runbook.verbs_in(connection, entry_id, Kind.COMPENSATED)
        if undone:
            detail |= {
                "done": await self._runbook.verbs_in(connection, entry_id, Kind.STEP_COMPLETED),
                "undone": undone,
            }
            if named is None:
                # The case says no more than that; with an outcome of its own it ended as its process intends.
                detail |= {"result": "err", "code": "Compensated", "text": "what was done has been undone"}
        outcome = canonical(workflow.outcome_of(payload.data))
        if not await self._runbook.end_in(connection, entry_id, outcome=outcome, detail=detail):
            return []
        return [(entry_id, "failed" if undone else "completed")]

    async def _check(self, connection: Connection, visit: JobVisit, seal: Seal, head: Head) -> None:
        """Check that the engine's final payload is what the last step, or a step before it, left."""
        reserved, uid = visit.reserved, visit.instance_uid
        payload_bytes(visit.job.variables.get(PAYLOAD))
        version = await payloads.version_in(connection, uid, reserved.hash)
        place = SealedPlace(visit.instance.tenant_id, str(uid), version, head.unversioned_until)
        seal.check(reserved.content, reserved.seal, place)
        if version is None:
            raise PayloadIntegrityError(
                "the payload does not match any version of this instance", code="PayloadForeign"
            )

    async def _cancel(self, entry_id: UUID) -> None:
        try:
            await self._cancelling.carry_out(entry_id)
        except StoreError as error:
            _log.warning("cancellation postponed", extra={"entry_id": str(entry_id), "reason": str(error)})
