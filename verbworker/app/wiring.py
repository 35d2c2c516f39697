"""The application: builds every part of a worker process, owns their lifetimes, and alone chooses the engine."""

import asyncio
import gc
import importlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from verbworker.app import selfcheck
from verbworker.app.probes import WaitingProbes, WorkerProbes
from verbworker.app.services import build_services
from verbworker.app.settings import Settings
from verbworker.app.tracing.choice import open_tracer
from verbworker.background.outages import ENGINE, POSTGRES
from verbworker.contract.consumer import Consumer
from verbworker.contract.policy import DEFAULT_POLICY
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine
from verbworker.errors import CannotRun, ContractInvalid, VerbworkerError
from verbworker.payload.signature import KeyRing
from verbworker.stores import durability, migrations
from verbworker.stores.cases.suspensions import Suspensions
from verbworker.stores.database import Database
from verbworker.stores.jobs.deliveries import Deliveries
from verbworker.stores.jobs.frames import Frames
from verbworker.stores.jobs.leases import ExpiredLeases
from verbworker.stores.task_profiles import TaskProfileStore
from verbworker.work.feeds.leases import Leases
from verbworker.work.feeds.worker import Abandon, Pace, Worker
from verbworker.work.jobs.containment import contain_verbs
from verbworker.work.jobs.executor import Databases, Executor
from verbworker.work.jobs.perform import VerbRun
from verbworker.work.jobs.verdicts import JobResults, Relay
from verbworker.work.listeners.job_handler import Serving
from verbworker.work.upkeep.retention import Archiver
from verbworker.work.upkeep.stalls import StallDetector
from verbworker.work.upkeep.sweep import Sweep

if TYPE_CHECKING:
    from verbworker.app.health import Probes

_log = logging.getLogger(__name__)

_MOST_VERB_CONNECTIONS = 64  # Postgres allows 100 by default, and other processes need some
_MOST_THREADS = 256  # each has its own stack; further sync calls wait for a free thread
# For statements that find rows by key. What is off is not forbidden but priced beyond measure, and a plan of such a
# price would be compiled, hence no JIT.
_KEYED = {"enable_seqscan": "off", "enable_bitmapscan": "off", "plan_cache_mode": "force_generic_plan", "jit": "off"}
_UNTIL_TIMED_OUT = timedelta(seconds=1)  # lets a verb's own timeout fire before the server's


def load_app(place: str) -> Registry:
    """Import the registry that `place` names, as `module:attribute`, with the working directory first on the path."""
    found = _load(place, "--app", "verbs:registry")
    if not isinstance(found, Registry):
        attribute = place.partition(":")[2]
        raise ContractInvalid(f"--app {place}: {attribute} is of type {type(found).__name__}, not a Registry")
    return found.check()


def load_consumer(place: str) -> Consumer:
    """Import the consumer that `place` names, as `module:attribute`."""
    found = _load(place, "--from", "bus:documents")
    if not callable(found):
        attribute = place.partition(":")[2]
        raise ContractInvalid(
            f"--from {place}: {attribute} is of type {type(found).__name__}, not an async generator function"
        )
    return cast("Consumer", found)


def _load(place: str, option: str, example: str) -> object:
    """Import an object of the application that an option names."""
    module_name, colon, attribute = place.partition(":")
    if not (module_name and colon and attribute):
        raise ContractInvalid(f"{option} {place!r}: write it as module:attribute, for example {example}")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ContractInvalid(_explain_missing(error, module_name, f"{option} {place}")) from error
    except VerbworkerError:
        raise
    except SyntaxError as error:
        where = f"{error.filename}, line {error.lineno}"
        raise ContractInvalid(f"{option} {place}: {where} is not valid Python: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise ContractInvalid(
            f"{option} {place}: importing {module_name} raised {type(error).__name__}; run with --debug to see where"
        ) from error
    found: object = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise ContractInvalid(f"{option} {place}: the module {module_name} has no {attribute}")
    return found


def _explain_missing(error: ModuleNotFoundError, module_name: str, place: str) -> str:
    if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
        return f"{place}: there is no module {error.name} in {Path.cwd()} or among the installed packages"
    return f"{place}: {module_name} imports {error.name}, which is not installed"


def choose_engine(settings: Settings, *, is_working: bool = True) -> Engine:
    """Return the engine that the settings name; its address and credentials come from the engine's own variables.

    Pass `is_working=False` for read-only use: an embedded engine then fires no timers.
    """
    match settings.engine:
        case "zeebe":
            # Imported here: gRPC takes a third of a second to import, and most commands do not need it.
            from verbworker.engine.zeebe.connection import GatewayAddress
            from verbworker.engine.zeebe.engine import ZeebeEngine

            address = GatewayAddress.from_environment(os.environ)
            return ZeebeEngine(address, engine_id=settings.cluster(), leases=settings.engine_leases == "on")
        case "embedded":
            from verbworker.engine.embedded.engine import EmbeddedEngine

            return EmbeddedEngine(
                engine_pool(settings),
                engine_id=settings.cluster(),
                retention=settings.engine_retention,
                run_timers=is_working,
            )


def engine_variables(settings: Settings) -> tuple[str, ...]:
    """Return the variables that say where the engine is; none if one is so wrong that it names itself."""
    if settings.engine == "embedded":
        return ("VERBWORKER_DSN",)
    from verbworker.engine.zeebe.connection import address_variables

    try:
        return address_variables(os.environ)
    except ContractInvalid:
        return ()


def has_rest_address() -> bool:
    """Return whether a variable says where a cluster's REST API is."""
    from verbworker.engine.zeebe.connection import GatewayAddress

    return GatewayAddress.from_environment(os.environ).rest_url is not None


def keep_for_good() -> None:
    """Exclude everything loaded so far from garbage collection: it lives as long as the process.

    Only for processes that serve. Collections would otherwise cost about 6 % of a worker's time, and a large body could
    have one stop all of a server's requests.
    """
    gc.collect()
    gc.freeze()


@dataclass(frozen=True, slots=True)
class App:
    """An open worker, and the address of its health server if it has one."""

    worker: Worker
    health: tuple[str, int] | None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then drain."""
        address = None if self.health is None else "{}:{}".format(*self.health)
        _log.info("working", extra={"health": address})
        await self.worker.run(stop)
        _log.info("drained")


@asynccontextmanager
async def open_app(
    settings: Settings, registry: Registry, engine: Engine | None = None, *, abandon: Abandon | None = None
) -> AsyncIterator[App]:
    """Build, check and open a worker; close everything in an order that loses nothing.

    `abandon` ends the process if verbs still run after they were cancelled.
    """
    ring = _check_settings(settings, registry)
    chosen = engine or choose_engine(settings)
    async with AsyncExitStack() as stack:
        await migrations.require(settings.database())
        control = await stack.enter_async_context(control_pool(settings))
        verbs = await stack.enter_async_context(verb_pool(settings, registry))
        await durability.require_durable(control)
        await stack.enter_async_context(chosen)
        await selfcheck.greet(chosen, settings)
        owner = uuid4()
        frames = Frames(control, engine_id=chosen.engine_id, owner=owner, lease=settings.lease)
        suspensions = Suspensions(control, engine_id=chosen.engine_id)
        timeout_ms = int(settings.engine_timeout / timedelta(milliseconds=1))
        job_leases = Leases(frames, chosen, engine_timeout_ms=timeout_ms, suspensions=suspensions)
        threads = stack.enter_context(_threads(registry))
        verb_run = VerbRun(threads, tracebacks=settings.log_tracebacks)
        contain_verbs(asyncio.get_running_loop())
        tracer = await stack.enter_async_context(open_tracer(settings, control))
        pools = Databases(control, verbs)
        built = build_services(settings, registry, chosen, pools, verb_run, owner=owner, ring=ring, tracer=tracer)
        executor = Executor(
            registry, chosen, frames, pools, job_leases, verb_run, ring=ring, tracer=tracer, identity=built.identity
        )
        relay = Relay(frames, JobResults(chosen, frames, suspensions=suspensions))
        reaper = Archiver(frames, TaskProfileStore(control, engine_id=chosen.engine_id), after=settings.archive_after)
        deliveries = Deliveries(control, engine_id=chosen.engine_id, owner=owner, lease=settings.lease)
        leases = ExpiredLeases(control, frames, grace=settings.sweep_grace)
        sweep = Sweep(chosen, frames, leases, deliveries, built.reconciler, every=settings.sweep_every)
        stalls = StallDetector(
            control,
            chosen,
            after=settings.engine_timeout + settings.stall_grace,
            gates_after=settings.gate_timeout + settings.stall_grace,
            caught_up_for=lambda: worker.caught_up_for(),
        )
        worker = Worker(
            *(registry, chosen, frames, executor, job_leases, relay, reaper, _pace(settings)),
            handlers=built.handlers,
            services=(*built.services, sweep.service, stalls.service),
            serving=Serving(deliveries, executor.give_back_without_claim),
            abandon=abandon,
        )
        probes = WorkerProbes(worker, control, chosen, poll_wait=settings.poll_wait)
        yield App(worker, await stack.enter_async_context(_open_health(settings, probes)))


def _check_settings(settings: Settings, registry: Registry) -> KeyRing | None:
    """Refuse what cannot run whatever the database says; return the signing keys."""
    if not list(registry) and not registry.tasks:
        raise CannotRun("the registry has no verb and no plain task, so there is nothing to work on")
    return selfcheck.required_ring(registry, settings)


@asynccontextmanager
async def open_app_patiently(
    settings: Settings, registry: Registry, stop: asyncio.Event, *, abandon: Abandon | None = None
) -> AsyncIterator[App | None]:
    """Open a worker once Postgres is there, alive and not ready until then; yield None if `stop` is set first."""
    _check_settings(settings, registry)
    settings.cluster()
    async with selfcheck.open_with_database(
        settings.database(),
        stop,
        lambda: open_app(settings, registry, abandon=abandon),
        waiting=lambda: _open_health(settings, WaitingProbes()),
    ) as app:
        yield app


@asynccontextmanager
async def _open_health(settings: Settings, probes: "Probes") -> AsyncIterator[tuple[str, int] | None]:
    if not settings.http_port:
        yield None
        return
    # Imported here: the HTTP server takes a moment to import, and other commands need none.
    from verbworker.app.health import open_health

    async with open_health(settings.http_host, settings.http_port, probes) as address:
        yield address


def control_pool(settings: Settings) -> Database:
    """Build the pool for claims, heartbeats and verdicts: all its statements are keyed, so plans are made once."""
    return Database(
        settings.database(),
        size=settings.control_connections,
        settings=_KEYED,
        name="control",
        own=True,
    )


def engine_pool(settings: Settings) -> Database:
    """Build the embedded engine's pool: keyed statements over arrays, so rows are always looked up one by one."""
    return Database(
        settings.database(),
        size=settings.engine_connections,
        settings={**_KEYED, "enable_hashjoin": "off", "enable_mergejoin": "off"},
        name="engine",
        own=True,
        outages=(POSTGRES, ENGINE),
    )


def verb_pool(settings: Settings, registry: Registry) -> Database:
    """Build the pool for transactional verbs: the server ends a session that hangs inside its transaction.

    A verb may idle there until its own timeout: if its session ended sooner, it would be run again without end.
    """
    wanted = sum(verb.concurrency for verb in registry if verb.mode == "transactional")
    policies = (DEFAULT_POLICY, *registry.policies.values())
    longest = timedelta(seconds=max(policy.start_to_close_timeout_seconds for policy in policies))
    return Database(
        settings.database(),
        size=settings.verb_connections or min(max(wanted, 1), _MOST_VERB_CONNECTIONS),
        settings={
            "idle_in_transaction_session_timeout": _milliseconds(max(settings.lease, longest + _UNTIL_TIMED_OUT)),
            "statement_timeout": _milliseconds(settings.statement_timeout),
            "lock_timeout": _milliseconds(settings.lock_timeout),
        },
        name="verbs",
        own=True,
    )


def _milliseconds(duration: timedelta) -> str:
    return f"{max(1, round(duration / timedelta(milliseconds=1)))}ms"


def _pace(settings: Settings) -> Pace:
    return Pace(
        name=settings.worker_name,
        engine_timeout=settings.engine_timeout,
        poll_wait=settings.poll_wait,
        grace=settings.grace,
        streaming=settings.streaming,
        tenant_ids=settings.tenant_ids,
        leases=settings.engine == "zeebe" and settings.engine_leases == "on",
    )


@contextmanager
def _threads(registry: Registry) -> Iterator[ThreadPoolExecutor]:
    """Provide one thread for each sync verb or task that may run concurrently, so that none waits for a thread."""
    wanted = sum(work.concurrency for work in (*registry, *registry.tasks.values()) if work.needs_threads)
    pool = ThreadPoolExecutor(max_workers=min(max(wanted, 1), _MOST_THREADS), thread_name_prefix="verb")
    try:
        yield pool
    finally:
        # A thread cannot be stopped; the process does not wait for one that outlives the drain.
        pool.shutdown(wait=False, cancel_futures=True)
