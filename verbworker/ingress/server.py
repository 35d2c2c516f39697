"""The ingress server: builds the application, listens, and shuts down without losing an answer."""

import asyncio
from contextlib import AsyncExitStack, closing
from uuid import uuid4

from verbworker.app.settings import Settings
from verbworker.background.poll_loop import running
from verbworker.contract.registry import Registry
from verbworker.engine.protocol import Engine
from verbworker.errors import ContractInvalid
from verbworker.http.address import is_loopback
from verbworker.http.oidc import Issuer
from verbworker.http.server import ServerOptions, bind, open_server
from verbworker.ingress.guard import Guard
from verbworker.ingress.rate import Rates
from verbworker.ingress.routes import Routes
from verbworker.ingress.settings import IngressSettings
from verbworker.stores import durability, migrations
from verbworker.stores.database import Database
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.messages.delivery import MessageDelivery
from verbworker.work.messages.ingress import Ingress, MessageCounter

# A message takes a few milliseconds; more senders than this wait for each other's database connections.
_MOST_CONNECTIONS = 256


async def serve(
    settings: Settings,
    ingress: IngressSettings,
    registry: Registry,
    engine: Engine,
    stop: asyncio.Event,
    *,
    is_open: bool = False,
) -> None:
    """Accept messages until `stop` is set, then finish the requests under way."""
    guard = make_guard(ingress, is_open=is_open)
    advice = "choose another with --port or VERBWORKER_INGRESS_PORT"
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(closing(bind(ingress.host, ingress.port, advice=advice)))
        await migrations.require(settings.database())
        database = await stack.enter_async_context(Database(settings.database(), size=settings.control_connections))
        await durability.require_writable(database)
        await stack.enter_async_context(engine)
        inbox = Inbox(database, engine_id=engine.engine_id, owner=uuid4())
        letters = DeadLetters(database)
        tenant = settings.tenant_ids[0] if settings.tenant_ids else None
        messenger = MessageDelivery(registry, inbox, letters, engine, tenant=tenant)
        routes = Routes(
            guard,
            Rates(ingress.rate, ingress.burst),
            Ingress(inbox, letters, ttl=ingress.message_ttl, limit=ingress.body_limit, messenger=messenger),
            MessageCounter(registry, inbox, letters, engine, ttl=ingress.message_ttl, tenant=tenant),
            database,
            limit=ingress.body_limit,
            default_tenant=settings.tenant,
        )
        options = ServerOptions(_MOST_CONNECTIONS, ingress.drain, ingress.tls_certificate, ingress.tls_key)
        async with running([messenger.service], stop), open_server(routes.app(), listener, options):
            await stop.wait()
            routes.leave()


def make_guard(settings: IngressSettings, *, is_open: bool) -> Guard:
    """Build the guard from the settings. Without authentication only for trials on this machine."""
    credentials = settings.load_credentials()
    if is_open:
        if credentials:
            raise ContractInvalid("--insecure-no-auth cannot be combined with credentials: remove one of them")
        if not is_loopback(settings.host):
            raise ContractInvalid("--insecure-no-auth may only listen on this machine: use 127.0.0.1")
    elif not credentials:
        raise ContractInvalid(
            "no senders are configured: set VERBWORKER_INGRESS_CREDENTIALS_FILE (or try it out by --insecure-no-auth)"
        )
    tolerance, oidc = settings.tolerance.total_seconds(), credentials.oidc
    issuer = None if oidc is None else Issuer(oidc.issuer, oidc.audience, oidc.jwks)
    return Guard(credentials, tolerance=tolerance, issuer=issuer, open_to_all=is_open)
