"""A database as it is after a long time: many instances that have ended, and many that wait."""

import asyncio

from bench.contenders.course import TEXT
from tests.support.models import one_task
from verbworker.engine.embedded.engine import EmbeddedEngine
from verbworker.engine.protocol import Resource, Start
from verbworker.stores.database import Connection, Database, connect

_STARTERS = 64

# Keys below every key that the engine hands out, so that they never meet.
_ENDED = """
INSERT INTO verbworker_engine.ended_instance (
  instance_key, definition_key, tenant_id, status, variables, created_at, ended_at
)
SELECT -number << 20, 1, '<default>', 'completed', convert_to($2, 'UTF8'), now() - interval '1 day', now()
FROM generate_series(1, $1::bigint) AS number
"""
_KNOWN = """
INSERT INTO verbworker.workflow_instance (
  instance_uid, tenant_id, entry_id, verb, verb_version, payload_schema, engine_id, process_id, process_version,
  definition_key, instance_key, status, started_at, ended_at
)
SELECT gen_random_uuid(), 'tests', gen_random_uuid(), 'old.flow', '1', 'old.flow/v1', 'bench', 'old-flow', 1, 1,
  -number << 20, 'completed', now() - interval '1 day', now()
FROM generate_series(1, $1::bigint) AS number
"""


async def crowd(dsn: str, *, ended: int, waiting: int) -> None:
    """Fill a database: ended instances by SQL, waiting ones by really starting them; nobody serves their job."""
    async with connect(dsn) as connection:
        if ended:
            words = f'{{"domain_payload":"{TEXT}"}}'
            await connection.execute(_ENDED, ended, words)
            await connection.execute(_KNOWN, ended)
    if waiting:
        await _start(dsn, waiting)
    async with connect(dsn) as connection:
        await settle(connection)


async def settle(connection: Connection) -> None:
    """Do now what autovacuum would do at some moment of the measurement."""
    await connection.execute("VACUUM ANALYZE")


async def _start(dsn: str, count: int) -> None:
    turn = asyncio.Semaphore(_STARTERS)
    async with Database(dsn, size=6) as database, EmbeddedEngine(database, run_timers=False) as engine:
        await engine.deploy([Resource("waits.bpmn", one_task("bench-waits", "nobody"))])

        async def one() -> None:
            async with turn:
                await engine.start(Start("bench-waits", {"domain_payload": TEXT}))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(one())
