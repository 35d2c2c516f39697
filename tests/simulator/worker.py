"""One boot of a worker: the product's own parts, put together as `ops.app` and `ops.staff` do."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from tests.simulator.client import SimulatedEngine
from tests.simulator.loop import Loop, Process
from tests.simulator.shapes import REGISTRY
from tests.simulator.store import SimulatedDatabase
from verbworker.job import Job
from verbworker.stores._database import Database
from verbworker.stores.dead_letters import DeadLetters
from verbworker.stores.deployments import Deployments
from verbworker.stores.dispatches import Dispatches
from verbworker.stores.frames import Frames
from verbworker.stores.inbox import Inbox
from verbworker.stores.instances import Instances
from verbworker.work.bridge import Bridge
from verbworker.work.cancelling import Cancelling
from verbworker.work.completion import Completion
from verbworker.work.desk import Desk
from verbworker.work.dispatcher import Dispatcher
from verbworker.work.executor import Databases, Executor
from verbworker.work.gate_desk import GateDesk
from verbworker.work.gates import GateRelay
from verbworker.work.heart import Heart
from verbworker.work.messenger import Messenger
from verbworker.work.performance import Performance
from verbworker.work.reception import Reception
from verbworker.work.reconciler import Reconciler
from verbworker.work.relay import Relay
from verbworker.work.returns import Returns
from verbworker.work.strays import Strays

LEASE = timedelta(seconds=30)
ENGINE_TIMEOUT = timedelta(seconds=60)
GATE_TIMEOUT = timedelta(seconds=60)
RECONCILE_AFTER = timedelta(seconds=90)
# Looking for work that is not there is most of what a schedule costs.
_EVERY = 6.0

Service = Callable[[], Coroutine[Any, Any, None]]


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
        self.frames = Frames(control, engine_id=engine.engine_id, owner=owner, lease=LEASE)
        heart = Heart(self.frames, engine, engine_timeout_ms=int(ENGINE_TIMEOUT / timedelta(milliseconds=1)))
        performance = Performance(cast(Any, None))  # no verb here needs a thread
        dispatches = Dispatches(control, engine_id=engine.engine_id, owner=owner)
        strays = Strays(engine, dispatches)
        self._executor = Executor(REGISTRY, engine, self.frames, pools, heart, performance, strays=strays)
        inbox = Inbox(control, engine_id=engine.engine_id, owner=owner)
        reception = Reception(control, engine, strays)
        cancelling = Cancelling(control, dispatches, engine, every=_EVERY)
        bridge = Bridge(REGISTRY, control, Deployments(control, engine_id=engine.engine_id), inbox, reception)
        gates = GateDesk(REGISTRY, engine, control, strays=strays, timeout=GATE_TIMEOUT)
        desks: list[Desk] = [*bridge.desks(), Completion(REGISTRY, control, reception, cancelling), gates]
        self._desks = {desk.type: desk for desk in desks}
        dispatcher = Dispatcher(dispatches, Instances(control), engine, every=_EVERY)
        messenger = Messenger(REGISTRY, inbox, DeadLetters(control), engine, every=_EVERY)
        self.pokes = (dispatcher.poke, messenger.poke)
        self.services: dict[str, Service] = {
            "frames": self.frames.run,
            "heart": heart.run,
            "relay": Relay(self.frames, Returns(engine, self.frames)).run,
            "dispatcher": dispatcher.run,
            "messenger": messenger.run,
            "cancelling": cancelling.run,
            "gate relay": GateRelay(control, engine, timeout=GATE_TIMEOUT, every=_EVERY).run,
            "reconciler": Reconciler(control, engine, cancelling, after=RECONCILE_AFTER).run,
        }

    def open(self, ended: Callable[[Process, str, "asyncio.Task[None]"], None]) -> None:
        """Start the services; how one ends is told."""
        for name, service in self.services.items():
            task = self._loop.spawn(self.process, service())
            task.add_done_callback(lambda task, name=name: ended(self.process, name, task))

    def take(self, job: Job) -> None:
        """Work on a delivery, in a task of its own."""
        desk = self._desks.get(job.type)
        work = self._executor.execute(job) if desk is None else desk.serve(job)
        self._loop.create_task(work)
