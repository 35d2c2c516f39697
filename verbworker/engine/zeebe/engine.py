"""Zeebe over gRPC, and over REST where required: every call has a deadline, errors are translated."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from pyzeebe.proto import gateway_pb2 as pb

from verbworker.engine.known_faults import version_number
from verbworker.engine.protocol import (
    ActiveElement,
    Ask,
    Deployed,
    EngineFacts,
    EngineIncident,
    EngineJob,
    EngineOffers,
    EngineUserTask,
    InstanceState,
    Resource,
    Signal,
    Start,
    Started,
    Variables,
)
from verbworker.engine.zeebe import wire
from verbworker.engine.zeebe.auth import access
from verbworker.engine.zeebe.channel import cut_connections
from verbworker.engine.zeebe.connection import GatewayAddress
from verbworker.engine.zeebe.instance_probe import exists
from verbworker.engine.zeebe.offers import ClusterOffers
from verbworker.engine.zeebe.rest_client import RestClient, UserTaskCalls
from verbworker.engine.zeebe.rest_gateway import correlate
from verbworker.engine.zeebe.search import WAIT_STATES_SINCE, Search
from verbworker.engine.zeebe.status import REPEATED, Rpc
from verbworker.engine.zeebe.transport import transport
from verbworker.errors import ContractInvalid, EngineError
from verbworker.job.job import Job

_log = logging.getLogger(__name__)

_POLL_GRACE_S: Final = 5.0  # for a slow gateway to answer after the wait that it was asked for
_GIVE_BACK_S: Final = 2.0  # a stopping worker does not wait longer for a courtesy


class ZeebeEngine:
    """A Zeebe cluster behind its gateway. Nothing is retried here: the caller knows when that is safe."""

    def __init__(self, connection: GatewayAddress, *, engine_id: str, leases: bool = False) -> None:
        """Connect to a cluster. With `leases` every job is activated under a token (8.10 and later)."""
        # Two new clusters count job keys from the same number, so no default would be safe.
        if not engine_id.strip():
            raise ContractInvalid("a Zeebe engine needs an engine id that no other cluster has")
        self._connection = connection
        self._engine_id = engine_id
        credentials = access(connection)
        self._rest = RestClient(connection, credentials)
        self._leases = leases
        self._is_lease_missed = False
        self._number: tuple[int, int, int] | None = None
        self._gateway = transport(connection, credentials, self._rest)
        self._offers = ClusterOffers(connection, credentials, self._rest)
        self._tasks = UserTaskCalls(self._rest)
        self._search = Search(self._rest)

    @property
    def engine_id(self) -> str:
        """The name under which this cluster's job keys are unique."""
        return self._engine_id

    @property
    def pushes_jobs(self) -> bool:
        """Whether the transport in use can push jobs: not over REST."""
        return self._gateway.pushes_jobs

    async def facts(self) -> EngineFacts:
        """Return the gateway's version and the size of the cluster."""
        facts = wire.facts(await self._send("Topology", wire.message(pb.TopologyRequest)))
        self._number = version_number(facts.version)
        return facts

    async def now(self) -> datetime | None:
        """Return the gateway's clock from the Date header of a REST answer; None without a REST address."""
        return await self._rest.date()

    async def offers(self) -> EngineOffers:
        """Return which of gRPC, REST and search the cluster offers; kept for some minutes."""
        return await self._offers.look(pushes_jobs=self.pushes_jobs)

    async def deploy(self, resources: Sequence[Resource]) -> list[Deployed]:
        """Deploy the models together; unchanged ones keep their version."""
        request = wire.deployment(list(resources), self._connection.tenant_id)
        return wire.read_deployments(await self._send("DeployResource", request))

    async def start(self, start: Start) -> Started:
        """Create an instance, pinned to the returned version; a business id is sent to 8.9 and later."""
        if start.business_id is not None and not await self._is_since(wire.BUSINESS_IDS_SINCE):
            start = replace(start, business_id=None)
        request = wire.creation(start, self._connection.tenant_id)
        return wire.read_start(await self._send("CreateProcessInstance", request))

    async def activate(self, ask: Ask, limit: int, wait_ms: int) -> list[Job]:
        """Activate up to `limit` jobs, waiting up to `wait_ms` for the first.

        Jobs that arrived before the poll fails are returned; the next poll raises the error. Jobs that arrived before
        the caller cancels are given back without costing a retry. Jobs still in transit stay locked until their
        timeout, so end a poll with a short wait, not by cancelling.
        """
        request = wire.poll(ask, self._connection.tenant_ids, limit, wait_ms, with_lease=self._leases)
        jobs: list[Job] = []

        def take(answer: Any) -> None:
            jobs.extend(self._job(told, ask) for told in answer.jobs)

        try:
            deadline = max(wait_ms, 0) / 1000 + _POLL_GRACE_S
            await self._gateway.collect("ActivateJobs", request, take, timeout_s=deadline)
        except EngineError:
            if not jobs:
                raise
        except asyncio.CancelledError:
            await self._give_back(jobs)
            raise
        return jobs

    async def stream(self, ask: Ask) -> AsyncGenerator[Job, None]:
        """Receive jobs as they are created; each is read from the channel when requested.

        The stream ends after a lifetime of some seconds: open the next one before. The gateway ends it shortly after,
        even if this process is suspended. Poll as well: jobs older than the stream are not pushed, and timed-out jobs
        only by some versions (8.6 does, to any open stream; 8.10 does not).
        """
        request = wire.subscription(ask, self._connection.tenant_ids, with_lease=self._leases)
        unread: list[Any] = []
        pushed = self._gateway.listen(
            "StreamActivatedJobs", request, unread, lifetime_s=self._connection.stream_lifetime_s
        )
        try:
            async with aclosing(pushed):
                async for told in pushed:
                    yield self._job(told, ask)
        finally:
            await self._give_back([self._job(told, ask) for told in unread])

    async def complete(self, job_key: int, variables: Variables, *, lease_token: str | None = None) -> None:
        """Complete a job with these variables."""
        text = wire.text_of(variables)
        request = wire.message(pb.CompleteJobRequest, jobKey=job_key, variables=text)
        await self._send("CompleteJob", wire.add_lease(request, lease_token))

    async def fail(
        self, job_key: int, *, retries: int, message: str, backoff_ms: int = 0, lease_token: str | None = None
    ) -> None:
        """Give a job back with exactly `retries` left."""
        request = wire.message(
            pb.FailJobRequest,
            jobKey=job_key,
            retries=retries,
            errorMessage=wire.cut(message),
            retryBackOff=backoff_ms,
        )
        await self._send("FailJob", wire.add_lease(request, lease_token))

    async def throw(self, job_key: int, *, code: str, message: str, lease_token: str | None = None) -> None:
        """End a job with a BPMN error; if uncaught, Zeebe raises an incident on the same job."""
        request = wire.message(pb.ThrowErrorRequest, jobKey=job_key, errorCode=code, errorMessage=wire.cut(message))
        await self._send("ThrowError", wire.add_lease(request, lease_token))

    async def extend(self, job_key: int, timeout_ms: int, *, lease_token: str | None = None) -> None:
        """Set the activation to expire `timeout_ms` from now; `JobNotActive` if it has already ended."""
        request = wire.message(pb.UpdateJobTimeoutRequest, jobKey=job_key, timeout=timeout_ms)
        await self._send("UpdateJobTimeout", wire.add_lease(request, lease_token))

    async def release(self, job_key: int, *, retries: int, incident_key: int | None = None) -> None:
        """Give a job in an incident new retries, then resolve the incident if its key is known."""
        request = wire.message(pb.UpdateJobRetriesRequest, jobKey=job_key, retries=retries)
        await self._send("UpdateJobRetries", request)
        if incident_key is not None:
            await self.resolve_incident(incident_key)

    async def resolve_incident(self, incident_key: int) -> None:
        """Resolve an incident; that of a job without retries is raised again."""
        await self._send("ResolveIncident", wire.message(pb.ResolveIncidentRequest, incidentKey=incident_key))

    async def set_flags(self, instance_key: int, flags: Variables) -> None:
        """Set flags of an instance; `JobGone` if it has ended."""
        text = wire.text_of(flags)
        request = wire.message(pb.SetVariablesRequest, elementInstanceKey=instance_key, variables=text, local=True)
        await self._send("SetVariables", request)

    # ---- searches: see `Search` --------------------------------------------------------------------------------------

    async def incidents(self, instance_keys: Sequence[int] = ()) -> list[EngineIncident]:
        """Return the active incidents of these instances, or all without keys."""
        return await self._search.incidents(instance_keys)

    async def waits(self, instance_key: int) -> list[ActiveElement]:
        """Return where the tokens of an instance are."""
        return await self._search.waits(instance_key, by_wait_states=await self._is_since(WAIT_STATES_SINCE))

    async def instance_states(self, instance_keys: Sequence[int]) -> dict[int, InstanceState]:
        """Return the states of those instances that the search finds."""
        return await self._search.instance_states(instance_keys)

    async def terminations(self, since: datetime) -> list[int]:
        """Return the instances that were terminated since a moment."""
        return await self._search.terminations(since)

    async def open_jobs(self, instance_keys: Sequence[int]) -> list[EngineJob]:
        """Return the jobs of these instances that can still run."""
        return await self._search.open_jobs(instance_keys)

    async def user_tasks(self, instance_keys: Sequence[int] = ()) -> list[EngineUserTask]:
        """Return the native user tasks that wait for a person."""
        return await self._search.user_tasks(instance_keys)

    # ---- messages and instances --------------------------------------------------------------------------------------

    async def publish(self, signal: Signal) -> None:
        """Publish a message; one still buffered under the same id counts as published."""
        request = wire.publication(signal, self._connection.tenant_id)
        await self._gateway.send(
            "PublishMessage",
            request,
            timeout_s=self._connection.call_timeout_s,
            settled=REPEATED,
        )

    async def correlate(
        self, name: str, correlation_key: str, variables: Variables, *, tenant_id: str | None = None
    ) -> int | None:
        """Deliver a message to a current subscriber; uses REST, the only API that offers it."""
        tenant = tenant_id or self._connection.tenant_id
        return await correlate(self._rest, name, correlation_key, dict(variables), tenant)

    async def complete_user_task(self, key: int) -> None:
        """Complete a native user task over REST; the call waits for its listeners."""
        await self._tasks.complete(key)

    async def assign_user_task(self, key: int, assignee: str, *, override: bool = False) -> None:
        """Assign a native user task over REST."""
        await self._tasks.assign(key, assignee, override=override)

    async def unassign_user_task(self, key: int) -> None:
        """Remove the assignee of a native user task over REST."""
        await self._tasks.unassign(key)

    async def deny(self, job_key: int, reason: str, *, lease_token: str | None = None) -> None:
        """Complete a task listener's job with a no and its reason."""
        await self._send("CompleteJob", wire.add_lease(wire.denial(job_key, reason), lease_token))

    async def cancel(self, instance_key: int) -> None:
        """Cancel an instance."""
        request = wire.message(pb.CancelProcessInstanceRequest, processInstanceKey=instance_key)
        await self._send("CancelProcessInstance", request)

    async def alive(self, instance_key: int) -> bool:
        """Return whether an instance exists; an element's key is none."""
        return await exists(self._send, instance_key)

    async def __aenter__(self) -> Self:
        """Open the channel; the first call connects it."""
        await self._gateway.open()
        await self._rest.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the channel; calls in progress end with `EngineUnavailable`."""
        await self._rest.close()
        await self._gateway.close()

    def interrupt(self) -> int:
        """Close the connections to the gateway, from any thread; the next call reconnects."""
        return sum(cut_connections(address) for address in self._connection.addresses())

    def _job(self, told: pb.ActivatedJob, ask: Ask) -> Job:
        job = wire.job(told, ask.timeout_ms, with_lease=self._leases)
        if self._leases and job.lease_token is None and not self._is_lease_missed:
            self._is_lease_missed = True
            # An older gateway ignores the field it does not know, and an older broker cannot lease.
            _log.warning("leases are on, but the engine leased no job: it is older than 8.10; working without leases")
        return job

    async def _is_since(self, version: tuple[int, int, int]) -> bool:
        if self._number is None:
            with suppress(EngineError):  # the command itself reports what is wrong
                await self.facts()
        return self._number is not None and self._number >= version

    async def _send(self, rpc: Rpc, request: Any) -> Any:
        return await self._gateway.send(rpc, request, timeout_s=self._connection.call_timeout_s)

    async def _give_back(self, jobs: Sequence[Job]) -> None:
        # Old ones too: Zeebe 8.6.0 may have lost their timeout. A worker that got the job meanwhile finishes its run
        # all the same, and its frame turns away the next worker that gets the job.
        async with asyncio.TaskGroup() as tasks:
            for job in jobs:
                tasks.create_task(self._give_back_one(job))

    async def _give_back_one(self, job: Job) -> None:
        request = wire.message(
            pb.FailJobRequest, jobKey=job.key, retries=job.retries, errorMessage="given back: not started"
        )
        # A job that cannot be given back is delivered again after its timeout.
        with suppress(EngineError):
            await self._gateway.send("FailJob", wire.add_lease(request, job.lease_token), timeout_s=_GIVE_BACK_S)
