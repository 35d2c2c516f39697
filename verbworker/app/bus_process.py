"""One process that consumes a bus: its database connections, its inbox, and the consumers that we ship."""

import asyncio
from contextlib import AsyncExitStack, nullcontext
from datetime import timedelta
from functools import partial
from uuid import uuid4

from verbworker.app.selfcheck import open_with_database
from verbworker.app.settings import Settings
from verbworker.contract.consumer import Consumer
from verbworker.stores import durability
from verbworker.stores.access.tenancy import EVERY_TENANT
from verbworker.stores.database import Database
from verbworker.stores.messages.dead_letters import DeadLetters
from verbworker.stores.messages.envelope_queue import EnvelopeQueue
from verbworker.stores.messages.inbox import Inbox
from verbworker.work.messages.consumption import Consumption
from verbworker.work.messages.ingress import Ingress
from verbworker.work.messages.line_consumer import consume_lines

QUEUE, LINES = "postgres", "stdin"
SHIPPED = (QUEUE, LINES)
"""The names of the consumers that need no code."""


async def consume(
    settings: Settings,
    name: str,
    consumer: Consumer | None,
    stop: asyncio.Event,
    *,
    ttl: timedelta,
    only_tenant: str | None = None,
    is_strict: bool = False,
) -> None:
    """Run a consumer, or the shipped one of that name, until `stop` is set or it returns."""
    address = settings.database()
    open_pool = partial(Database, address)
    opening = partial(durability.open_writable, address, size=2, tenant=only_tenant or settings.tenant)
    async with (
        open_with_database(address, stop, opening, waiting=nullcontext) as database,
        AsyncExitStack() as stack,
    ):
        if database is None:
            return
        if consumer is None and name == QUEUE:
            # Its connection is in the transaction that takes an envelope for as long as that is under way.
            queue = await stack.enter_async_context(open_pool(size=1, tenant=only_tenant or EVERY_TENANT))
            consumer = EnvelopeQueue(queue).consume
        inbox = Inbox(database, engine_id=settings.cluster(), owner=uuid4(), quotas=settings.quotas())
        ingress = Ingress(inbox, DeadLetters(database), ttl=ttl)
        tenant = settings.tenant
        consumption = Consumption(
            name, consumer or consume_lines, ingress, tenant_id=tenant, only_tenant=only_tenant, is_strict=is_strict
        )
        await consumption.run(stop)
