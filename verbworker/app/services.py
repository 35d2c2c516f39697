"""The services of a worker: handlers of internal jobs, and background services."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from verbworker.app.export_directory import ExportDirectory
from verbworker.app.settings import Settings
from verbworker.background.poll_loop import Service
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine, UserTasks
from verbworker.job.trace import Tracer
from verbworker.payload.signature import KeyRing
from verbworker.stores.cases.dispatches import Dispatches
from verbworker.stores.cases.instances import Instances
from verbworker.stores.cases.seals import Seals
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.database import Database
from verbworker.stores.deployments import Deployments
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.stores.upkeep_turns import UpkeepTurns
from verbworker.work.gates.decide import GateRelay
from verbworker.work.gates.gate_jobs import GateJobs
from verbworker.work.gates.user_tasks import UserTaskJobs
from verbworker.work.jobs.executor import Databases
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.listeners.bridge import Bridge
from verbworker.work.listeners.cancel_listener import CancelListener
from verbworker.work.listeners.compensation import CompensationJobs
from verbworker.work.listeners.completion import CompletionListener
from verbworker.work.listeners.job_handler import JobHandler, ListenerJobs
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.starts.cancel import Cancellation
from verbworker.work.starts.dispatcher import Dispatcher
from verbworker.work.starts.duplicate_instances import CONTENDED_FOR, InstanceIdentity
from verbworker.work.upkeep.quota_watch import QuotaWatch
from verbworker.work.upkeep.reconciler import Reconciler
from verbworker.work.upkeep.retention import Retention
from verbworker.work.upkeep.sealer import ANY_ENGINE, SERVICE, Sealer
from verbworker.work.upkeep.search_reconciler import SearchReconciler
from verbworker.work.upkeep.suspension_watch import SuspensionWatch

# A turn takes well under a second; after that another worker takes over.
_SEAL_HOLD = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Services:
    """Everything in a worker except the executor of verbs."""

    identity: InstanceIdentity
    reconciler: Reconciler
    handlers: Sequence[JobHandler]
    services: Sequence[Service]


def build_services(
    settings: Settings,
    registry: Registry,
    engine: Engine,
    databases: Databases,
    verb_run: VerbRun,
    *,
    owner: UUID,
    ring: KeyRing | None,
    tracer: Tracer,
) -> Services:
    """Build the handlers and services that carry entries from start to end."""
    control, strict = databases.control, settings.unknown_roles == "refuse"
    tenant = settings.tenant_ids[0] if settings.tenant_ids else None
    dispatches = Dispatches(control, engine_id=engine.engine_id, owner=owner)
    inbox = Inbox(control, engine_id=engine.engine_id, owner=owner)
    delivery = MessageDelivery(registry, inbox, DeadLetters(control), engine, tenant=tenant, tracer=tracer)
    identity = InstanceIdentity(Instances(control), engine, dispatches, patience=CONTENDED_FOR)
    listener_jobs = ListenerJobs(control, engine, identity)
    cancelling = Cancellation(control, dispatches, engine, tracer=tracer)
    bridge = Bridge(registry, control, Deployments(control, engine_id=engine.engine_id), inbox, listener_jobs)
    undoing = CompensationJobs(
        *(registry, engine, databases, verb_run),
        owner=owner,
        lease=settings.lease,
        timeout=settings.engine_timeout,
        ring=ring,
        tracer=tracer,
        identity=identity,
    )
    user_tasks = None  # an engine without native user tasks has only jobs
    if isinstance(engine, UserTasks):
        user_tasks = UserTaskJobs(registry, engine, control, listener_jobs, identity=identity, refuse_unknown=strict)
    open_gate = None if user_tasks is None else user_tasks.open_found
    handlers: list[JobHandler] = [
        *bridge.handlers(),
        CompletionListener(registry, control, listener_jobs, cancelling, ring=ring, tracer=tracer),
        CancelListener(control, engine, cancelling),
        GateJobs(registry, engine, control, identity=identity, timeout=settings.gate_timeout),
        *([] if user_tasks is None else user_tasks.handlers()),
        undoing,
    ]
    reconciler = Reconciler(control, engine, cancelling, after=settings.reconcile_after)
    turns = UpkeepTurns(control, engine_id=engine.engine_id, service="search", owner=owner)
    suspensions, is_cluster = Suspensions(control, engine_id=engine.engine_id), settings.engine == "zeebe"
    services = (
        Dispatcher(dispatches, Instances(control), engine, tenant=tenant).service,
        delivery.service,
        cancelling.service,
        GateRelay(control, engine, timeout=settings.gate_timeout).service,
        reconciler.service,
        SearchReconciler(control, engine, reconciler, open_gate=open_gate, turns=turns).service,
        *undoing.services,
        retention(settings, control).service,
        QuotaWatch(control, settings.quotas()).service,
        _sealer(settings, control, owner).service,
        # Instances of the embedded engine cannot be suspended.
        *([SuspensionWatch(suspensions, engine, timeout=settings.engine_timeout).service] if is_cluster else []),
    )
    return Services(identity, reconciler, handlers, services)


def retention(settings: Settings, database: Database) -> Retention:
    """Build retention from the settings."""
    export = None if settings.export_dir is None else ExportDirectory(settings.export_dir).write
    return Retention(database, settings.keep(), export=export, seals=Seals(database, settings.seal_ring()))


def _sealer(settings: Settings, database: Database, owner: UUID) -> Sealer:
    turns = UpkeepTurns(database, engine_id=ANY_ENGINE, service=SERVICE, owner=owner, hold=_SEAL_HOLD)
    return Sealer(Seals(database, settings.seal_ring()), turns)
