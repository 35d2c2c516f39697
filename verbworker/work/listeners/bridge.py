"""The event bridge: turns reports of the engine's listeners into waits and events of the runbook."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

from verbworker.contract.registry import Registry
from verbworker.errors import TransientInfrastructure
from verbworker.job.frame import InstanceFacts
from verbworker.model.waits import ModelWait, Waits, due, ends
from verbworker.model.weave import FIRED, PARK, START, UNPARK
from verbworker.runbook.event import Kind, ParkedToken, Wait
from verbworker.stores.cases.runbook import ClosedToken, Runbook
from verbworker.stores.database import Connection, Database
from verbworker.stores.deployments import Definition, Deployments
from verbworker.stores.messages.inbox import UNNAMED, EndedWait, Inbox
from verbworker.work.jobs.step_guard import VisitIdentity
from verbworker.work.listeners.job_handler import JobHandler, JobVisit, ListenerJobs, ListenerKind, with_texts


class Bridge:
    """Opens a wait when the engine starts to wait, closes it when the engine continues, and records both once."""

    def __init__(
        self,
        registry: Registry,
        database: Database,
        deployments: Deployments,
        inbox: Inbox,
        listener_jobs: ListenerJobs,
    ) -> None:
        self._registry = registry
        self._deployments = deployments
        self._inbox = inbox
        self._listener_jobs = listener_jobs
        self._runbook = Runbook(database)
        self._visits = VisitIdentity(deployments)

    def handlers(self) -> list[JobHandler]:
        """Return the handlers of all listeners except the last one, which ends an entry."""
        served = {UNPARK: self.unpark, FIRED: self.record_boundary, START: self.start}
        receive = self._listener_jobs.receive
        parking = ListenerKind(PARK, partial(receive, act=self.park), variables=with_texts(self._registry))
        return [parking, *(ListenerKind(kind, partial(receive, act=act)) for kind, act in served.items())]

    async def park(self, connection: Connection, visit: JobVisit) -> bool:
        """Record that the engine is about to wait."""
        waits = await self._waits(connection, visit)
        here = waits[visit.job.element_id]
        reason, key = f"Awaiting {here.name}", self._key(here, visit.instance)
        token = visit.token(_kind(here), reason, message=here.message, key=key)
        known = due(waits, visit.job.element_id, visit.job.variables, datetime.now(UTC))
        same = await self._visits.identify(visit.job, visit.reserved.hash, connection)
        token = replace(token, due=known, input_hash=same)
        _, is_new = await self._runbook.park_in(connection, token)
        is_back = here.message is not None and same is not None and await self._wait_again(connection, visit, token)
        if same is not None and (is_new or is_back):
            await self._runbook.displace_in(connection, token)
        detail = _detail(visit, here, wait=token.kind.value, reason=reason, correlation_key=key)
        await self._append(connection, visit, Kind.PARKED, detail, again=is_back)
        return True

    async def _wait_again(self, connection: Connection, visit: JobVisit, token: ParkedToken) -> bool:
        """Return whether the engine forgot the message that ended this wait, and have it sent once more if so."""
        uid, name, ended = visit.instance_uid, token.message_name or "", EndedWait(token.element_id, token.input_hash)
        # A late delivery of a listener job that is gone opens nothing.
        if not await self._inbox.has_ended_in(connection, uid, name, ended) or not await self._listener_jobs.has(
            visit.job
        ):
            return False
        await self._inbox.forget_in(connection, uid, name, ended)
        return await self._runbook.reopen_in(connection, token)

    async def unpark(self, connection: Connection, visit: JobVisit) -> bool:
        """Record that the awaited event has arrived."""
        waits = await self._waits(connection, visit)
        here = waits[visit.job.element_id]
        is_recorded = await self._runbook.is_recorded_in(
            connection, visit.instance.entry_id, _once(visit, Kind.RESUMED)
        )
        closed = await self._runbook.unpark_in(
            connection, visit.instance.engine_id, visit.job.element_instance_key, closed_as="resumed"
        )
        if is_recorded and not closed:
            return True
        if here.behind is not None:
            await self._close(connection, visit, [here.behind], closed_as="resumed")
        if not is_recorded:
            known = next((token.input_hash for token in closed if token.input_hash is not None), None)
            ended = UNNAMED if known is None else EndedWait(visit.job.element_id, known)
            await self._came(connection, visit, here, ended)
        detail = _detail(visit, here, wait=_kind(here).value)
        await self._append(connection, visit, Kind.RESUMED, detail, again=is_recorded)
        return True

    async def record_boundary(self, connection: Connection, visit: JobVisit) -> bool:
        """Record that a boundary event has fired; an interrupting one ends every wait inside its activity."""
        waits = await self._waits(connection, visit)
        element_id = visit.job.element_id
        here = waits[element_id]
        if here.kind in (Wait.TIMER, Wait.EXTERNAL_SIGNAL):
            # Its own wait was never recorded. It is stored as closed, so that a second delivery is recognized.
            _, is_new = await self._runbook.park_in(connection, visit.token(_kind(here), here.name))
            await self._runbook.unpark_in(
                connection, visit.instance.engine_id, visit.job.element_instance_key, closed_as="fired"
            )
        else:
            is_new = False
        closed: list[ClosedToken] = []
        if here.interrupting:
            ended = [other for other in waits if other != element_id and ends(waits, element_id, other)]
            closed = await self._close(connection, visit, ended, closed_as="fired")
        if is_new:
            await self._came(connection, visit, here)
        for token in closed:
            detail = _detail(visit, here, wait=token.kind.value, reason=token.reason, gate=token.gate)
            await self._runbook.append_in(
                connection, token.entry_id, Kind.RESUMED, once=f"fired:{token.token_id}", detail=detail
            )
        return True

    async def start(self, connection: Connection, visit: JobVisit) -> bool:
        """Accept an awaited instance that a message started; `ListenerJobs` has pinned it."""
        return True

    # ---- events that arrived --------------------------------------------------------------------------------------

    async def _came(self, connection: Connection, visit: JobVisit, here: ModelWait, ended: EndedWait = UNNAMED) -> None:
        if here.kind == Wait.TIMER:
            await self._append(connection, visit, Kind.TIMER_FIRED, _detail(visit, here))
        key = self._key(here, visit.instance)
        if here.message is not None and key is not None:
            await self._inbox.consume_in(connection, visit.instance_uid, here.message, key, ended=ended)

    async def _close(
        self, connection: Connection, visit: JobVisit, places: Iterable[str], *, closed_as: str
    ) -> list[ClosedToken]:
        engine_id, instance_key = visit.instance.engine_id, visit.job.process_instance_key
        return await self._runbook.unpark_elements_in(
            connection, engine_id, instance_key, list(places), closed_as=closed_as
        )

    async def _append(
        self,
        connection: Connection,
        visit: JobVisit,
        kind: Kind,
        detail: Mapping[str, object],
        *,
        again: bool = False,
    ) -> None:
        """Append an event once; with `again`, because the engine forgot it, once more."""
        entry_id: UUID = visit.instance.entry_id
        once = _once(visit, kind) + (f":{visit.job.activated_ms}" if again else "")
        await self._runbook.append_in(connection, entry_id, kind, once=once, detail=detail)

    def _key(self, here: ModelWait, instance: InstanceFacts) -> str | None:
        """Return the current correlation key of the awaited message."""
        workflow = self._registry.workflows.get(instance.verb)
        if workflow is None or here.message is None:
            return None
        return instance.correlation.get(workflow.messages.get(here.message, ""))

    async def _waits(self, connection: Connection, visit: JobVisit) -> Waits:
        waits = await self._deployments.waits(Definition.of(visit.job), on=connection)
        if waits is None:
            raise TransientInfrastructure(
                f"no deployment of {visit.job.process_id} version {visit.job.process_version} is recorded;"
                " deploy with verbworker deploy",
                code="DeploymentUnknown",
            )
        if visit.job.element_id not in waits:
            raise TransientInfrastructure(
                f"the deployment of {visit.job.process_id} version {visit.job.process_version} knows no wait at"
                f" {visit.job.element_id}",
                code="WaitUnknown",
            )
        return waits


def _kind(here: ModelWait) -> Wait:
    return Wait.TIMER if here.kind == Wait.TIMER else Wait.EXTERNAL_SIGNAL


def _once(visit: JobVisit, kind: Kind) -> str:
    return f"{kind.value}:{visit.job.element_instance_key}"


def _detail(visit: JobVisit, here: ModelWait, **more: object) -> dict[str, object]:
    """Return the details of an event: the element's name for people, its keys for finding it in the engine."""
    detail = {"name": here.name, "message_name": here.message, **more}
    keys = {"instance_key": visit.job.process_instance_key, "element_instance_key": visit.job.element_instance_key}
    return {name: value for name, value in detail.items() if value is not None} | keys
