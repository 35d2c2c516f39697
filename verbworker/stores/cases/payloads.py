"""Payload versions of record: the head onto which every branch of an instance merges, and the flags beside it."""

import json
from collections.abc import Mapping
from hashlib import sha256
from uuid import UUID

from verbworker.errors import PayloadIntegrityError, StoreError
from verbworker.payload.record import Head
from verbworker.stores.database import Connection, Database
from verbworker.stores.sql import query


async def head(database: Database, instance_uid: UUID) -> Head:
    """Return the payload of record. Its seal is checked by `Head.check`, which needs the workflow's keys."""
    async with database.acquire() as connection:
        return await head_in(connection, instance_uid)


async def head_in(connection: Connection, instance_uid: UUID) -> Head:
    """Return the payload of record, inside the caller's transaction.

    Raises `PayloadIntegrityError` unless it fits its hash and is the newest version that the instance has.
    """
    row = await connection.fetchrow(query("payloads", "head"), instance_uid)
    if row is None:
        raise StoreError(f"instance {instance_uid} has no payload")
    # A trigger compares them on every write; what was written past the trigger is found here.
    if sha256(row["content"]).digest() != row["hash"]:
        raise PayloadIntegrityError("the payload of record does not match its hash", code="HeadMismatch")
    if not row["is_known"]:
        raise PayloadIntegrityError(
            f"the payload of record is not the newest version of this instance (it claims to be {row['version']})",
            code="HeadUnknown",
        )
    flags = None if row["flags"] is None else json.loads(row["flags"])
    return Head(row["content"], row["hash"], row["version"], row["seal"], row["unversioned_until"], flags)


async def is_known_in(connection: Connection, instance_uid: UUID, hash: bytes) -> bool:
    """Return whether an instance ever had a payload with this hash."""
    return await version_in(connection, instance_uid, hash) is not None


async def version_in(connection: Connection, instance_uid: UUID, hash: bytes) -> int | None:
    """Return the version of an instance with this hash; None if it never had such a payload."""
    version: int | None = await connection.fetchval(query("payloads", "version_of"), instance_uid, hash)
    return version


async def hold_head(connection: Connection, instance_uid: UUID) -> Head:
    """Return the payload of record with the correlation keys, locked until the transaction ends."""
    correlation = await connection.fetchval(query("payloads", "hold"), instance_uid)
    if correlation is None:
        raise StoreError(f"instance {instance_uid} has no payload")
    found = await head_in(connection, instance_uid)
    return Head(
        *(found.content, found.hash, found.version, found.seal, found.unversioned_until, found.flags),
        correlation=json.loads(correlation),
    )


async def open_versions(
    connection: Connection,
    instance_uid: UUID,
    hash: bytes,
    content: bytes,
    *,
    seal: str | None = None,
    flags: Mapping[str, object] | None = None,
) -> None:
    """Store an instance's first payload with its seal and its initial flags."""
    text = None if flags is None else json.dumps(dict(flags))
    await connection.execute(query("payloads", "open"), instance_uid, hash, content, seal, text)


async def unknown_flags(database: Database | Connection, instance_uid: UUID, brought: Mapping[str, object]) -> set[str]:
    """Return those of the flags that never had the value they come with."""
    rows = await database.fetch(query("payloads", "unknown_flags"), instance_uid, json.dumps(dict(brought)))
    return {row["name"] for row in rows}


async def set_flags(database: Database, engine_id: str, instance_key: int, flags: Mapping[str, object]) -> None:
    """Record flags that a person sets, so that the jobs that bring them are not refused."""
    await database.execute(query("payloads", "set_flags"), engine_id, instance_key, json.dumps(dict(flags)))
