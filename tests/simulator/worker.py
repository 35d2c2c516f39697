"""One boot of a worker: the product's own parts, put together as `ops.app` and `ops.staff` do."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

from tests.simulator.client import SimulatedEngine
from tests.simulator.loop import Loop, Process
from tests.simulator.shapes import REGISTRY
from tests.simulator.store import SimulatedDatabase
from verbworker.background.poll_loop import Service
from verbworker.job.job import Job
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.leases import ExpiredLeases
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.feeds.leases import Leases
from verbworker.work.gates.decide import GateRelay
from verbworker.work.gates.gate_jobs import GateJobs
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.jobs.verdicts import JobResults, Relay
from verbworker.work.listeners.bridge import Bridge
from verbworker.work.listeners.completion import CompletionListener
from verbworker.work.listeners.job_handler import JobHandler, ListenerJobs, Serving
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.dispatcher import Dispatcher
from verbworker.work.starts.duplicate_instances import CONTENDED_FOR, InstanceIdentity
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.stalls import StallDetector
from verbworker.work.upkeep.sweep import Sweep

LEASE = timedelta(seconds=30)
GRACE = timedelta(seconds=5)
ENGINE_TIMEOUT = timedelta(seconds=60)
GATE_TIMEOUT = timedelta(seconds=60)
RECONCILE_AFTER = timedelta(seconds=90)
STALL_GRACE = timedelta(seconds=20)
# Looking for work that is not there is most of what a schedule costs.
_EVERY = 6.0

LEFT_OUT = frozenset({"tick", "quotas", "reaper", "retention", "seal", "search", "suspensions"})
"""Services that a schedule of minutes has no need of; those of undoing are left out with it.

Nor is there a search in the simulated engine, and none of its instances is suspended.
"""


class Boot:
    """A running worker process."""

    def __init__(
        self,
        loop: Loop,
        process: Process,
        control_pool: SimulatedDatabase,
        verb_pool: SimulatedDatabase,
        engine: SimulatedEngine,
        owner: UUID,
    ) -> None:
        self.process = process
        self._loop = loop
        control = cast(Database, control_pool)
        pools = Databases(control, cast(Database, verb_pool))
        engine_id = engine.engine_id
        frames = Frames(control, engine_id=engine_id, owner=owner, lease=LEASE)
        leases = Leases(frames, engine, engine_timeout_ms=int(ENGINE_TIMEOUT / timedelta(milliseconds=1)))
        verb_run = VerbRun(cast(Any, None))  # no verb here needs a thread
        dispatches = Dispatches(control, engine_id=engine_id, owner=owner)
        identity = InstanceIdentity(Instances(control), engine, dispatches, patience=CONTENDED_FOR)
        self._executor = Executor(REGISTRY, engine, frames, pools, leases, verb_run, identity=identity)
        inbox = Inbox(control, engine_id=engine_id, owner=owner)
        listener_jobs = ListenerJobs(control, engine, identity)
        cancelling = Cancellation(control, dispatches, engine, every=_EVERY)
        reconciler = Reconciler(control, engine, cancelling, after=RECONCILE_AFTER)
        deliveries = Deliveries(control, engine_id=engine_id, owner=owner, lease=LEASE)
        self._serving = Serving(deliveries, self._executor.give_back_without_claim)
        bridge = Bridge(REGISTRY, control, Deployments(control, engine_id=engine_id), inbox, listener_jobs)
        gates = GateJobs(REGISTRY, engine, control, identity=identity, timeout=GATE_TIMEOUT)
        handlers: list[JobHandler] = [
            *bridge.handlers(),
            CompletionListener(REGISTRY, control, listener_jobs, cancelling),
            gates,
        ]
        self._handlers = {handler.type: handler for handler in handlers}
        dispatcher = Dispatcher(dispatches, Instances(control), engine, every=_EVERY)
        message_delivery = MessageDelivery(REGISTRY, inbox, DeadLetters(control), engine, every=_EVERY)
        self.pokes = (dispatcher.service.poke, message_delivery.service.poke)
        expired = ExpiredLeases(control, frames, grace=GRACE)
        sweep = Sweep(engine, frames, expired, deliveries, reconciler, every=timedelta(seconds=_EVERY))
        booted_at = loop.now
        stalls = StallDetector(
            control,
            engine,
            after=ENGINE_TIMEOUT + STALL_GRACE,
            gates_after=GATE_TIMEOUT + STALL_GRACE,
            caught_up_for=lambda: loop.now - booted_at,
        )
        self.services: tuple[Service, ...] = (
            *(*frames.services, *leases.services, Relay(frames, JobResults(engine, frames)).service),
            *self._serving.services,
            *(dispatcher.service, message_delivery.service, cancelling.service, reconciler.service),
            *(GateRelay(control, engine, timeout=GATE_TIMEOUT, every=_EVERY).service, sweep.service, stalls.service),
        )

    def open(self, ended: "Callable[[Process, str, asyncio.Task[None]], None]") -> None:
        """Start the services; how one ends is told."""
        for service in self.services:
            task = self._loop.spawn(self.process, service.run())
            task.add_done_callback(partial(ended, self.process, service.name))

    def take(self, job: Job) -> None:
        """Work on a delivery, in a task of its own."""
        handler = self._handlers.get(job.type)
        work = self._executor.execute(job) if handler is None else self._serving.serve(handler, job)
        self._loop.create_task(work)
