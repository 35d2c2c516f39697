"""The server of the ingress: builds it, listens, and ends without losing an answer."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING
from uuid import uuid4

from verbworker.engine import Engine
from verbworker.errors import ContractInvalid
from verbworker.ops.config import Settings
from verbworker.ops.http.listening import Habits, bound, is_loopback, listen
from verbworker.ops.ingress.guard import Guard
from verbworker.ops.ingress.rate import Rates
from verbworker.ops.ingress.routes import Routes
from verbworker.ops.ingress.settings import Credentials, IngressSettings
from verbworker.registry import Registry
from verbworker.stores import _schema, _server
from verbworker.stores._database import Database
from verbworker.stores.dead_letters import DeadLetters
from verbworker.stores.inbox import Inbox
from verbworker.work.ingress import Counter, Ingress
from verbworker.work.messenger import Messenger

if TYPE_CHECKING:
    from verbworker.ops.ingress.oidc import Issuer

_AT_ONCE = 256


async def serve(
    settings: Settings,
    ingress: IngressSettings,
    registry: Registry,
    engine: Engine,
    stop: asyncio.Event,
    *,
    is_open: bool = False,
) -> None:
    """Take messages until `stop` is set, then finish the requests under way."""
    guard = make_guard(ingress, is_open=is_open)
    advice = "choose another by VERBWORKER_INGRESS_PORT"
    with closing(bound(ingress.host, ingress.port, advice=advice)) as listener:
        await _serve(settings, ingress, registry, engine, guard, listener, stop)


async def _serve(
    settings: Settings,
    ingress: IngressSettings,
    registry: Registry,
    engine: Engine,
    guard: Guard,
    listener: socket.socket,
    stop: asyncio.Event,
) -> None:
    await _schema.require(settings.database())
    async with engine, Database(settings.database(), size=settings.control_connections) as database:
        await _server.require_writable(database)
        inbox = Inbox(database, engine_id=engine.engine_id, owner=uuid4())
        letters = DeadLetters(database)
        tenant = settings.tenant_ids[0] if settings.tenant_ids else None
        messenger = Messenger(registry, inbox, letters, engine, tenant=tenant)
        routes = Routes(
            guard,
            Rates(ingress.rate, ingress.burst),
            Ingress(inbox, letters, ttl=ingress.message_ttl, limit=ingress.body_limit, messenger=messenger),
            Counter(registry, inbox, letters, engine, ttl=ingress.message_ttl, tenant=tenant),
            database,
            limit=ingress.body_limit,
            tenant_of_anybody=settings.tenant,
        )
        async with _beside(messenger):
            await listen(routes.app(), listener, _habits(ingress), stop, leaving=routes.leave)


def make_guard(settings: IngressSettings, *, is_open: bool) -> Guard:
    """The guard that the settings describe; nobody at the door is refused, but for trials on this machine."""
    credentials = settings.believed()
    if is_open:
        if credentials:
            raise ContractInvalid("--insecure-no-auth and credentials exclude each other: leave one of them out")
        if not is_loopback(settings.host):
            raise ContractInvalid("--insecure-no-auth is for this machine alone: listen on 127.0.0.1")
    elif not credentials:
        raise ContractInvalid(
            "nobody may send: set VERBWORKER_INGRESS_CREDENTIALS_FILE, or pass --insecure-no-auth to try it out"
        )
    tolerance = settings.tolerance.total_seconds()
    return Guard(credentials, tolerance=tolerance, issuer=_issuer(credentials), open_to_all=is_open)


def _issuer(credentials: Credentials) -> "Issuer | None":
    if credentials.oidc is None:
        return None
    # Here and not above: its cryptography takes a moment to import, and most senders sign or show a key.
    from verbworker.ops.ingress.oidc import Issuer

    return Issuer(credentials.oidc)


def _habits(settings: IngressSettings) -> Habits:
    return Habits(_AT_ONCE, settings.drain, settings.tls_certificate, settings.tls_key)


@asynccontextmanager
async def _beside(messenger: Messenger) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        delivering = tasks.create_task(messenger.run())
        try:
            yield
        finally:
            delivering.cancel()
