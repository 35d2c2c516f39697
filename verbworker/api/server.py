"""The server of messages and cases: builds the application, listens, and shuts down without losing an answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from typing import Any
from uuid import uuid4

from verbworker.api.admission import Admission
from verbworker.api.api_application import build_application
from verbworker.api.event_stream import EventStreams
from verbworker.api.guard import Guard, KnownSenders
from verbworker.api.message_routes import MessageRoutes
from verbworker.api.settings import IngressSettings
from verbworker.app.selfcheck import open_with_database
from verbworker.app.settings import Settings
from verbworker.app.tracing.choice import open_tracer
from verbworker.background.body_reader import BodyReader
from verbworker.background.poll_loop import running
from verbworker.client.client import Client
from verbworker.client.resources import Resources
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine
from verbworker.errors import ContractInvalid
from verbworker.http.address import is_loopback
from verbworker.http.answers import probe_routes
from verbworker.http.live_credentials import LiveCredentials
from verbworker.http.rate import GuessBrake, Rates
from verbworker.http.server import ServerOptions, bind, open_server
from verbworker.http.waiting_server import open_probes, open_waiting_server
from verbworker.job.trace import Tracer
from verbworker.job.trace_context import carry_trace
from verbworker.stores import durability
from verbworker.stores.database import Database
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.messages.ingress import ImmediateDelivery, Ingress

# A message takes a few milliseconds; more senders than this wait for each other's database connections.
_MOST_CONNECTIONS = 256
# Each stream holds a connection and asks the database once a second; the other half of the connections is for requests.
_MOST_STREAMS = 128


async def serve(
    settings: Settings,
    ingress: IngressSettings,
    registry: Registry,
    engine: Engine,
    stop: asyncio.Event,
    *,
    is_open: bool = False,
) -> None:
    """Serve messages and cases until `stop` is set, then finish the requests under way."""
    guard = make_guard(ingress, is_open=is_open)
    advice = "choose another with --port or VERBWORKER_INGRESS_PORT"
    options = ServerOptions(
        *(_MOST_CONNECTIONS, ingress.drain, ingress.tls_certificate, ingress.tls_key), proxies=ingress.proxies
    )
    probe_port = ingress.probe_port
    waiting = partial(open_waiting_server, ingress.host, ingress.port, options, advice=advice, probe_port=probe_port)
    opening = partial(_open_stores, settings, engine)
    async with (
        open_with_database(settings.database(), stop, opening, waiting=waiting) as opened,
        AsyncExitStack() as stack,
    ):
        if opened is None:
            return
        database, tracer = opened
        listener = stack.enter_context(closing(bind(ingress.host, ingress.port, advice=advice)))
        inbox = Inbox(database, engine_id=engine.engine_id, owner=uuid4(), quotas=settings.quotas())
        letters = DeadLetters(database)
        tenant = settings.tenant_ids[0] if settings.tenant_ids else None
        delivery = MessageDelivery(registry, inbox, letters, engine, tenant=tenant)
        reader = await stack.enter_async_context(BodyReader())
        taking = Ingress(
            *(inbox, letters), ttl=ingress.message_ttl, limit=ingress.body_limit, delivery=delivery, reader=reader
        )
        resources = Resources(settings, database, stack, registry, ingress=taking, tracer=tracer)
        client = Client(settings, by="api", resources=resources)
        immediate = ImmediateDelivery(registry, inbox, letters, engine, ttl=ingress.message_ttl, tenant=tenant)
        streams, stopping = EventStreams(_MOST_STREAMS), asyncio.Event()
        probes = probe_routes(database.ping, stopping.is_set)
        await stack.enter_async_context(open_probes(ingress.host, probe_port, probes))
        app = build_application(
            MessageRoutes(client, immediate, ingress.body_limit, reader),
            client=client,
            admission=Admission(
                *(guard, Rates(ingress.rate, ingress.burst), ingress.body_limit, GuessBrake(ingress.proxies)), reader
            ),
            streams=streams,
            probes=[*probes],
        )
        async with running([delivery.service], stop), open_server(carry_trace(app), listener, options):
            await stop.wait()
            stopping.set()
            streams.stop()


@asynccontextmanager
async def _open_stores(settings: Settings, engine: Engine) -> AsyncIterator[tuple[Database, Tracer]]:
    """Open what needs Postgres; the engine comes last, so that it is opened once however often this begins anew."""
    # Requests serve the tenant of their sender; what runs beside them, the server's own.
    size = settings.control_connections
    async with (
        durability.open_writable(settings.database(), size=size, tenant=settings.tenant) as database,
        open_tracer(settings, database) as tracer,
        engine,
    ):
        yield database, tracer


def describe() -> dict[str, Any]:
    """Return the OpenAPI document of the server, which needs neither database nor engine."""
    nothing: Any = None
    return build_application(MessageRoutes(nothing, nothing, 0), client=nothing).openapi()


def make_guard(settings: IngressSettings, *, is_open: bool) -> Guard:
    """Build the guard from the settings. Without authentication only for trials on this machine."""
    senders = LiveCredentials(lambda: KnownSenders(settings.load_credentials()), settings.live_file)
    if is_open:
        if senders.current():
            raise ContractInvalid("--insecure-no-auth cannot be combined with credentials: remove one of them")
        if not is_loopback(settings.host):
            raise ContractInvalid("--insecure-no-auth may only listen on this machine: use 127.0.0.1")
    elif not senders.current():
        raise ContractInvalid(
            "no senders are configured: set VERBWORKER_INGRESS_CREDENTIALS_FILE (or try it out by --insecure-no-auth)"
        )
    return Guard(senders, tolerance=settings.tolerance.total_seconds(), open_to_all=is_open)
