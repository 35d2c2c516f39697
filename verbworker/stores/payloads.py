"""Payload versions of record: the head every branch of an instance merges onto."""

from dataclasses import dataclass
from uuid import UUID

from verbworker.errors import StoreError
from verbworker.stores._database import Connection, Database
from verbworker.stores._sql import query


@dataclass(frozen=True, slots=True)
class Head:
    """The newest payload of an instance."""

    content: bytes
    hash: bytes
    version: int


async def head(database: Database, instance_uid: UUID) -> Head:
    """Read the payload of record."""
    async with database.acquire() as connection:
        return await _read(connection, "head", instance_uid)


async def hold_head(connection: Connection, instance_uid: UUID) -> Head:
    """Read the payload of record and keep others from moving it until the transaction ends."""
    return await _read(connection, "head_for_update", instance_uid)


async def _read(connection: Connection, name: str, instance_uid: UUID) -> Head:
    row = await connection.fetchrow(query("payloads", name), instance_uid)
    if row is None:
        raise StoreError(f"instance {instance_uid} has no payload")
    return Head(row["content"], row["hash"], row["version"])


async def open_versions(connection: Connection, instance_uid: UUID, hash: bytes, content: bytes) -> None:
    """Store an instance's first payload."""
    await connection.execute(query("payloads", "open"), instance_uid, hash, content)
