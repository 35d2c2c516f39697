"""Process instances: the runbook entry each belongs to, and the version it is pinned to."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from hashlib import sha256
from operator import attrgetter
from typing import Self
from uuid import UUID

from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Started
from verbworker.errors import PermanentContract, StoreError
from verbworker.job.frame import InstanceFacts
from verbworker.job.job import Job
from verbworker.model.start_variables import StartVariables
from verbworker.stores.cases.payloads import open_versions
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.rows import columns, value_of
from verbworker.stores.sql import query

# A broker that lost its last records delivers an instance again soon after it is back, under another key.
MISSED_FOR = timedelta(minutes=1)
# How long after its end an entry's instance is still checked, if the engine could not be asked before.
_LOOKED_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Instance:
    """An instance about to be started, with its first payload."""

    instance_uid: UUID
    tenant_id: str
    entry_id: UUID
    verb: str
    verb_version: str
    payload_schema: str
    engine_id: str
    process_id: str
    payload: bytes
    business_key: str | None = None
    correlation: Mapping[str, str] = field(default_factory=dict)
    seal: str | None = None
    flags: Mapping[str, object] | None = None

    @classmethod
    def of(cls, workflow: WorkflowVerb, start: StartVariables, *, engine_id: str) -> Self:
        """Return the instance of a workflow verb, as it starts."""
        return cls(
            *(start.instance_uid, start.tenant_id, start.entry_id),
            *(workflow.name, str(workflow.version), workflow.schema, engine_id, workflow.process),
            *(start.content, start.business_key, start.correlation),
            seal=start.seal,
            flags=start.flags,
        )


@dataclass(frozen=True, slots=True)
class Carrier:
    """The instance behind an entry; without a key until the engine has started it."""

    instance_uid: UUID
    engine_id: str
    instance_key: int | None


@dataclass(frozen=True, slots=True)
class QuietInstance:
    """An instance without news for long, or whose entry has ended."""

    instance_uid: UUID
    entry_id: UUID
    instance_key: int
    is_missed: bool = False  # the engine did not have it at an earlier check


_INSTANCE = attrgetter(
    *("instance_uid", "tenant_id", "entry_id", "verb", "verb_version", "payload_schema", "engine_id", "process_id"),
    "business_key",
)


class Instances:
    """The instances of workflow verbs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def database(self) -> Database:
        """Return the database that stores them."""
        return self._database

    async def open(self, instance: Instance) -> None:
        """Store an instance and its first payload, before the engine is asked to start it."""
        async with self._database.transaction() as connection:
            await self.open_in(connection, instance)

    async def open_in(self, connection: Connection, instance: Instance) -> None:
        """Store an instance inside the caller's transaction."""
        await connection.execute(
            query("instances", "open"),
            *_INSTANCE(instance),
            json.dumps(dict(instance.correlation)),
        )
        digest = sha256(instance.payload).digest()
        uid, content = instance.instance_uid, instance.payload
        await open_versions(connection, uid, digest, content, seal=instance.seal, flags=instance.flags)

    async def pin(
        self, instance_uid: UUID, *, instance_key: int, definition_key: int, version: int, takes_key: bool = True
    ) -> bool:
        """Pin an instance to the engine's instance; False when it is already pinned or has ended.

        The key may belong to another instance, whose records the engine lost: that one is unpinned, or, with
        `takes_key` off, this raises `PermanentContract`.
        """
        what = instance_uid, instance_key, definition_key, version
        try:
            return await self._database.fetchrow(query("instances", "pin"), *what) is not None
        except StoreError as error:
            if not error.is_duplicate:
                raise
            if not takes_key:
                raise PermanentContract(
                    "another instance has this key; was the engine recreated under its old id?", code="InstanceMismatch"
                ) from error
        async with self._database.transaction() as connection:
            await self._evict_in(connection, instance_uid, instance_key)
            return await connection.fetchrow(query("instances", "pin"), *what) is not None

    async def _evict_in(self, connection: Connection, instance_uid: UUID, instance_key: int) -> None:
        for row in await connection.fetch(query("instances", "evict"), instance_uid, instance_key):
            await connection.fetch(query("instances", "tell_eviction"), row["entry_id"], instance_uid, instance_key)

    async def pin_in(self, connection: Connection, started: Mapping[UUID, Started]) -> set[UUID]:
        """Pin instances inside the transaction that starts them; return those that were pinned."""
        items = [(uid, one.instance_key, one.definition_key, one.version) for uid, one in sorted(started.items())]
        rows = await connection.fetch(query("instances", "pin_many"), *columns(items, 4))
        return {row["instance_uid"] for row in rows}

    async def adopt(self, instance_uid: UUID, job: Job, *, instead_of: int) -> bool:
        """Pin an instance to a job's engine instance instead of one that is gone; False when it moved on."""
        key = job.process_instance_key
        async with self._database.transaction() as connection:
            await self._evict_in(connection, instance_uid, key)
            row = await connection.fetchrow(
                query("instances", "adopt"),
                instance_uid,
                instead_of,
                key,
                job.process_definition_key,
                job.process_version,
            )
            if row is not None:
                await connection.fetch(query("instances", "tell_adoption"), row["entry_id"], instead_of, key)
        return row is not None

    async def knows(self, instance_uid: UUID, payload_hash: bytes) -> bool:
        """Return whether an instance ever had a payload with this hash."""
        return await self._database.fetchrow(query("payloads", "version_of"), instance_uid, payload_hash) is not None

    async def facts(self, instance_uid: UUID) -> InstanceFacts | None:
        """Return what the database knows about an instance."""
        return _correlation(await self._database.fetchrow(query("instances", "known"), instance_uid))

    async def hold_in(self, connection: Connection, instance_uid: UUID) -> InstanceFacts | None:
        """Return the same, and lock the instance against updates until the caller's transaction ends."""
        return _correlation(await connection.fetchrow(query("instances", "hold"), instance_uid))

    async def hold_carrier_in(self, connection: Connection, entry_id: UUID) -> Carrier | None:
        """Return the instance that executes an entry, locked in the same way."""
        row = await connection.fetchrow(query("instances", "hold_carrier"), entry_id)
        return None if row is None else value_of(Carrier, row)

    async def miss(self, instance_uid: UUID, instance_key: int) -> None:
        """Record that the engine does not have the instance an entry is pinned to."""
        await self._database.execute(query("instances", "miss"), instance_uid, instance_key)

    async def find_again(self, instance_uid: UUID, instance_key: int) -> None:
        """Record that the engine has an instance that it missed before."""
        await self._database.execute(query("instances", "find_again"), instance_uid, instance_key)

    async def look_again(self, instance_uid: UUID, instance_key: int, usual: timedelta) -> None:
        """Have an instance checked again in a minute, because the engine did not answer; `usual` is the usual pause."""
        await self._database.execute(query("instances", "look_again"), instance_uid, instance_key, usual)

    async def quiet(
        self, engine_id: str, *, longer_than: timedelta, limit: int, missed_for: timedelta = MISSED_FOR
    ) -> list[QuietInstance]:
        """Return running instances without news, or missing in the engine; only one caller at a time gets each."""
        rows = await self._database.fetch(query("instances", "quiet"), engine_id, longer_than, limit, missed_for)
        return [QuietInstance(**row) for row in rows]

    async def is_made_again_in(self, connection: Connection, instance_uid: UUID, instance_key: int) -> bool:
        """Return whether the engine delivers jobs of an instance under another key than this."""
        return bool(await connection.fetchval(query("instances", "is_made_again"), instance_uid, instance_key))

    async def find_lingering(
        self, engine_id: str, *, longer_than: timedelta, limit: int, within: timedelta = _LOOKED_AFTER
    ) -> list[QuietInstance]:
        """Return instances of entries that ended that long ago, to check in the engine; claimed in the same way."""
        rows = await self._database.fetch(query("instances", "lingering"), engine_id, longer_than, limit, within)
        return [value_of(QuietInstance, row) for row in rows]

    async def gone(self, instance_uid: UUID, instance_key: int) -> None:
        """Record that the engine no longer has the instance of an ended entry."""
        await self._database.execute(query("instances", "gone"), instance_uid, instance_key)

    async def pin_to(self, instance_uid: UUID, job: Job, payload_hash: bytes) -> bool:
        """Pin an instance by one of its jobs, if its starter has not; False when it has another pin.

        Only the instance's own payload may take a key from another instance; otherwise this raises `PermanentContract`.
        """
        key, definition_key, version = job.process_instance_key, job.process_definition_key, job.process_version
        pin = partial(self.pin, instance_uid, instance_key=key, definition_key=definition_key, version=version)
        try:
            return await pin(takes_key=False)
        except PermanentContract:
            if not await self.knows(instance_uid, payload_hash):
                raise
        return await pin(takes_key=True)

    async def key_of(self, instance_uid: UUID) -> int | None:
        """Return the engine's key of an instance, if it has one."""
        row = await self._database.fetchrow(query("instances", "key_of"), instance_uid)
        return None if row is None else row["instance_key"]

    async def of_entry(self, entry_id: UUID) -> Carrier | None:
        """Return the instance that executes an entry; None for an entry of a direct verb."""
        row = await self._database.fetchrow(query("instances", "of_entry"), entry_id)
        return None if row is None else value_of(Carrier, row)


def _correlation(row: Row | None) -> InstanceFacts | None:
    if row is None:
        return None
    flags = None if row["flags"] is None else json.loads(row["flags"])
    return value_of(InstanceFacts, row, correlation=json.loads(row["correlation"]), flags=flags)
