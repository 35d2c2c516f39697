"""Builders for the runbook: entries, the instances that carry them out, and what they wait for."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from tests.support.frames import ENGINE, FIRST
from verbworker.runbook.event import Entry, EntryMode, Event, ParkedToken, Status, Wait
from verbworker.stores.cases.instances import Instance, Instances
from verbworker.stores.cases.overview import Filter, Overview
from verbworker.stores.cases.runbook import Request, Runbook
from verbworker.stores.database import Database

INSTANCE_KEY = 9000
DISPATCH = """
INSERT INTO verbworker.dispatch (instance_uid, entry_id, engine_id, process_id, variables, attempts)
VALUES ($1, $2, $3, $4, $5, $6)
"""


def make_request(**changes: Any) -> Request:
    """A request to open a case."""
    given: dict[str, Any] = {
        "entry_id": uuid4(),
        "tenant_id": "default",
        "request_key": None,
        "request_hash": b"asked",
        "verb": "kyc.open-case",
        "verb_version": "1",
        "mode": EntryMode.HUMAN_GATE,
        "sentence": "Open a case",
        "invocation": "(kyc.open-case)",
        "args": b"{}",
        "asked_by": "ada",
        "process_id": "kyc",
    }
    return Request(**(given | changes))


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry with its instance, and the runbook it stands in."""

    database: Database
    runbook: Runbook
    entry_id: UUID
    instance_uid: UUID

    @classmethod
    async def open(cls, database: Database, *, attempts: int | None = 0, **changes: Any) -> "StoredEntry":
        """Make an entry and its instance known, with a start request that was sent `attempts` times."""
        request, runbook, uid = make_request(**changes), Runbook(database), uuid4()
        instance = Instance(
            instance_uid=uid,
            tenant_id=request.tenant_id,
            entry_id=request.entry_id,
            verb=request.verb,
            verb_version=request.verb_version,
            payload_schema="kyc.open-case/v1",
            engine_id=ENGINE,
            process_id="kyc",
            payload=FIRST,
        )
        async with database.transaction() as connection:
            assert await runbook.open_in(connection, request)
            await Instances(database).open_in(connection, instance)
            if attempts is not None:
                await connection.execute(DISPATCH, uid, request.entry_id, ENGINE, "kyc", b"{}", attempts)
        return cls(database, runbook, request.entry_id, uid)

    async def start(self, instance_key: int = INSTANCE_KEY) -> bool:
        """The engine has it."""
        instances = Instances(self.database)
        return await instances.pin(self.instance_uid, instance_key=instance_key, definition_key=70, version=3)

    def token(self, element: int = 1, kind: Wait = Wait.TIMER, **changes: Any) -> ParkedToken:
        """A wait of this entry."""
        given: dict[str, Any] = {
            "tenant_id": "default",
            "entry_id": self.entry_id,
            "instance_uid": self.instance_uid,
            "engine_id": ENGINE,
            "instance_key": INSTANCE_KEY,
            "element_instance_key": element,
            "element_id": f"element-{element}",
            "kind": kind,
            "reason": "Awaiting something",
        }
        return ParkedToken(**(given | changes))

    async def park(self, token: ParkedToken) -> None:
        """Open a token, with nothing told."""
        async with self.database.transaction() as connection:
            await self.runbook.park_in(connection, token)

    async def unpark(self, element: int, closed_as: str = "resumed") -> int:
        """Close a token, with nothing told; how many were closed."""
        async with self.database.transaction() as connection:
            return len(await self.runbook.unpark_in(connection, ENGINE, element, closed_as=closed_as))

    async def entry(self) -> Entry:
        """The entry as it stands."""
        entry = await self.runbook.entry(self.entry_id)
        assert entry is not None
        return entry

    async def events(self) -> list[Event]:
        """What happened so far."""
        return await self.runbook.events(self.entry_id)

    async def kinds(self) -> list[str]:
        """The names of what happened so far."""
        return [event.kind.value for event in await self.events()]

    async def value(self, statement: str, *args: object) -> Any:
        """The first value of a statement."""
        row = await self.database.fetchrow(statement, *args)
        return None if row is None else row[0]


def told(event: Event, *names: str) -> dict[str, Any]:
    """Some fields of what an event says."""
    return {name: json.loads(json.dumps(event.detail)).get(name) for name in names}


async def entries_of(database: Database, tenant: str, status: Status | None = None) -> list[Entry]:
    """A tenant's entries as every surface lists them, newest first."""
    return [listed.entry for listed in await Overview(database).page(tenant, Filter(status=status))]
