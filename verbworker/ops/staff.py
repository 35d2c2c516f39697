"""The staff of a worker: who serves the jobs that are no verbs, and who works in the background."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from verbworker.engine import Engine
from verbworker.integrity import KeyRing
from verbworker.ops.config import Settings
from verbworker.ops.export import ExportDirectory
from verbworker.poll_loop import Service
from verbworker.registry import Registry
from verbworker.stores._database import Database
from verbworker.stores.dead_letters import DeadLetters
from verbworker.stores.deployments import Deployments
from verbworker.stores.dispatches import Dispatches
from verbworker.stores.inbox import Inbox
from verbworker.stores.instances import Instances
from verbworker.trace import Tracer
from verbworker.work.bridge import Bridge
from verbworker.work.cancelling import Cancelling
from verbworker.work.compensation import CompensationDesk
from verbworker.work.completion import Completion
from verbworker.work.desk import Desk
from verbworker.work.dispatcher import Dispatcher
from verbworker.work.duplicate_instances import InstanceIdentity
from verbworker.work.executor import Databases
from verbworker.work.gate_desk import GateDesk
from verbworker.work.gates import GateRelay
from verbworker.work.messenger import Messenger
from verbworker.work.performance import Performance
from verbworker.work.reception import Reception
from verbworker.work.reconciler import Reconciler
from verbworker.work.retention import Retention


@dataclass(frozen=True, slots=True)
class Staff:
    """Everybody but the executor of verbs."""

    identity: InstanceIdentity
    reconciler: Reconciler
    desks: Sequence[Desk]
    services: Sequence[Service]


def hire(
    settings: Settings,
    registry: Registry,
    engine: Engine,
    databases: Databases,
    performance: Performance,
    *,
    owner: UUID,
    ring: KeyRing | None,
    tracer: Tracer,
) -> Staff:
    """Everybody who carries entries from their start to their end."""
    control = databases.control
    tenant = settings.tenant_ids[0] if settings.tenant_ids else None
    dispatches = Dispatches(control, engine_id=engine.engine_id, owner=owner)
    dispatcher = Dispatcher(dispatches, Instances(control), engine, tenant=tenant)
    inbox = Inbox(control, engine_id=engine.engine_id, owner=owner)
    messenger = Messenger(registry, inbox, DeadLetters(control), engine, tenant=tenant)
    identity = InstanceIdentity(Instances(control), engine, dispatches)
    reception = Reception(control, engine, identity)
    cancelling = Cancelling(control, dispatches, engine)
    bridge = Bridge(registry, control, Deployments(control, engine_id=engine.engine_id), inbox, reception)
    undoing = CompensationDesk(
        *(registry, engine, databases, performance),
        owner=owner,
        lease=settings.lease,
        timeout=settings.engine_timeout,
        ring=ring,
        tracer=tracer,
        identity=identity,
    )
    desks: list[Desk] = [
        *bridge.desks(),
        Completion(registry, control, reception, cancelling, ring=ring),
        GateDesk(registry, engine, control, identity=identity, timeout=settings.gate_timeout),
        undoing,
    ]
    reconciler = Reconciler(control, engine, cancelling, after=settings.reconcile_after)
    services = (
        dispatcher.service,
        messenger.service,
        cancelling.service,
        GateRelay(control, engine, timeout=settings.gate_timeout).service,
        reconciler.service,
        *undoing.services,
        retention(settings, control, owner=owner).service,
    )
    return Staff(identity, reconciler, desks, services)


def retention(settings: Settings, database: Database, *, owner: UUID | None = None) -> Retention:
    """Build retention as the settings want it."""
    export = None if settings.export_dir is None else ExportDirectory(settings.export_dir).write
    return Retention(database, settings.keep(), export=export, owner=owner)
