"""The embedded engine's messages: subscriptions that wait for one, and messages buffered for later."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from verbworker.stores.database import Connection, Database
from verbworker.stores.embedded.tokens import StoredInstance
from verbworker.stores.sql import query


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message to correlate."""

    tenant_id: str
    name: str
    correlation_key: str
    message_id: str
    variables: bytes


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One wait of one instance for a message."""

    wait_key: int
    instance_key: int
    process_id: str


@dataclass(frozen=True, slots=True)
class MessageStart:
    """A start event that a message triggers."""

    process_id: str
    element_id: str
    definition_key: int


@dataclass(frozen=True, slots=True)
class MatchedMessage:
    """A buffered message and the wait it is for."""

    wait_key: int
    message_key: int
    variables: bytes


@dataclass(frozen=True, slots=True)
class NextStart:
    """A buffered message that starts the next instance of a process."""

    message_key: int
    variables: bytes
    element_id: str
    definition_key: int


class Subscriptions:
    """Waits and buffered messages. All methods but `expire` need a transaction that has called `take_turn`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take_turn(self, connection: Connection, tenant_id: str, keys: Sequence[tuple[str, str]]) -> None:
        """Lock these (name, key) pairs until the transaction ends."""
        # By key alone if there is one: what it started must be seen under any message name.
        places = [f"{tenant_id}\x1f{key}" if key else f"{tenant_id}\x1f\x1f{name}" for name, key in keys]
        await connection.fetch(query("subscriptions", "lock"), places)

    async def is_buffered(self, connection: Connection, message: StoredMessage) -> bool:
        """Return whether a message with the same name, key and ID is still buffered."""
        return bool(await connection.fetchval(query("subscriptions", "is_buffered"), *_address(message)))

    async def buffer(self, connection: Connection, message: StoredMessage, ttl_ms: int) -> int:
        """Buffer a message for `ttl_ms` and return its key."""
        key: int = await connection.fetchval(
            query("subscriptions", "buffer"), *_address(message), message.variables, ttl_ms
        )
        return key

    async def waiting(self, connection: Connection, message: StoredMessage) -> Mapping[str, list[Subscriber]]:
        """Return the waits for a message, by process."""
        found: dict[str, list[Subscriber]] = {}
        place = message.tenant_id, message.name, message.correlation_key
        for row in await connection.fetch(query("subscriptions", "waiting"), *place):
            found.setdefault(row["process_id"], []).append(Subscriber(**row))
        return found

    async def starting(self, connection: Connection, message: StoredMessage) -> list[MessageStart]:
        """Return the start events that a message may trigger now."""
        place = message.tenant_id, message.name, message.correlation_key
        return [MessageStart(**row) for row in await connection.fetch(query("subscriptions", "starting"), *place)]

    async def find_message(
        self, connection: Connection, kept: StoredInstance, waits: Mapping[int, tuple[str, str]], taken: Sequence[int]
    ) -> MatchedMessage | None:
        """Return the first of an instance's waits that has a buffered message, leaving out messages already taken."""
        row = await connection.fetchrow(
            query("subscriptions", "buffered"),
            kept.tenant_id,
            kept.process_id,
            list(waits),
            [name for name, _ in waits.values()],
            [key for _, key in waits.values()],
            list(taken),
        )
        return None if row is None else MatchedMessage(**row)

    async def next_start(self, connection: Connection, kept: StoredInstance) -> NextStart | None:
        """Return the message that may start a process now that the previous instance of its key has ended."""
        row = await connection.fetchrow(
            query("subscriptions", "next_start"), kept.tenant_id, kept.process_id, kept.start_key
        )
        return None if row is None else NextStart(**row)

    async def expire(self, limit: int) -> int:
        """Delete expired messages and return how many."""
        return len(await self._database.fetch(query("subscriptions", "expire"), limit))


def _address(message: StoredMessage) -> tuple[str, str, str, str]:
    return message.tenant_id, message.name, message.correlation_key, message.message_id
