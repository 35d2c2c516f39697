"""Payload versions of record: the head onto which every branch of an instance merges."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from verbworker.errors import PayloadIntegrityError, StoreError
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class Head:
    """The newest payload of an instance; with its correlation keys when locked."""

    content: bytes
    hash: bytes
    version: int
    correlation: Mapping[str, str] = field(default_factory=dict)


async def head(database: Database, instance_uid: UUID) -> Head:
    """Return the payload of record."""
    async with database.acquire() as connection:
        return await head_in(connection, instance_uid)


async def head_in(connection: Connection, instance_uid: UUID) -> Head:
    """Return the payload of record, inside the caller's transaction."""
    row = await _row(connection, "head", instance_uid)
    return Head(row["content"], row["hash"], row["version"])


async def is_known_in(connection: Connection, instance_uid: UUID, hash: bytes) -> bool:
    """Return whether an instance ever had a payload with this hash."""
    return bool(await connection.fetchval(query("payloads", "is_known"), instance_uid, hash))


async def hold_head(connection: Connection, instance_uid: UUID) -> Head:
    """Return the payload of record, locked until the transaction ends."""
    row = await _row(connection, "head_for_update", instance_uid)
    return Head(row["content"], row["hash"], row["version"], json.loads(row["correlation"]))


async def _row(connection: Connection, name: str, instance_uid: UUID) -> Row:
    row = await connection.fetchrow(query("payloads", name), instance_uid)
    if row is None:
        raise StoreError(f"instance {instance_uid} has no payload")
    # The database compares them when it first stores a payload, not each time it moves one on.
    if sha256(row["content"]).digest() != row["hash"]:
        raise PayloadIntegrityError("the payload of record does not match its hash", code="HeadMismatch")
    return row


async def open_versions(connection: Connection, instance_uid: UUID, hash: bytes, content: bytes) -> None:
    """Store an instance's first payload."""
    await connection.execute(query("payloads", "open"), instance_uid, hash, content)
