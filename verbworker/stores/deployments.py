"""Deployments: the bytes behind each process definition of an engine, and its waits."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from verbworker.engine.protocol import Deployed
from verbworker.model import catches
from verbworker.model.catches import Catches
from verbworker.model.waits import Waits, as_json, from_json
from verbworker.model.weave import Woven
from verbworker.profile.compile import Compiled
from verbworker.stores.database import Connection, Database, Row, value_of
from verbworker.stores.sql import query

# After a lost answer the caller soon repeats the deployment; a rejected deployment is never recorded.
_UNANSWERED_FOR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployed version of a process. The bytes are read separately."""

    definition_key: int
    process_id: str
    version: int
    verb: str
    resource: str
    authored_sha256: bytes
    woven_sha256: bytes
    waits: Waits
    steps: int
    deployed_by: str
    deployed_at: datetime


class Deployments:
    """Deployments on one engine. A definition never changes, so callers may cache what they read.

    A caller that holds a connection passes it on, here `on`: it must not take a second one from its pool.
    """

    def __init__(self, database: Database, *, engine_id: str) -> None:
        self._database = database
        self._engine_id = engine_id
        self._waits: dict[int, Waits] = {}

    async def record_task_profiles(self, compiled: Compiled) -> None:
        """Store the profile of a model before the engine has the model; does nothing without a profile."""
        if compiled.definition_id is not None:
            promised = json.dumps(compiled.ir), json.dumps(compiled.policies)
            await self._database.execute(
                query("deployments", "record_task_profiles"),
                compiled.ir_digest,
                compiled.process_id,
                compiled.definition_id,
                *promised,
            )

    async def request(self, woven: Woven) -> None:
        """Store what a model catches before the engine has it: jobs arrive even if the engine's answer is lost."""
        caught = json.dumps(catches.as_json(woven.catches))
        await self._database.execute(
            query("deployments", "request"), self._engine_id, woven.process_id, woven.content, caught
        )

    async def find_requests(self, process_id: str, *, within: timedelta = _UNANSWERED_FOR) -> list[Catches]:
        """Return what each requested model of a process catches whose deployment is not recorded yet."""
        rows = await self._database.fetch(query("deployments", "requested"), self._engine_id, process_id, within)
        return [catches.from_json(json.loads(row["catches"])) for row in rows]

    async def record(self, deployed: Deployed, woven: Woven, *, resource: str, authored_sha256: bytes, by: str) -> bool:
        """Record the definition the engine made of these bytes; False when it is already known."""
        row = await self._database.fetchrow(
            query("deployments", "record"),
            self._engine_id,
            deployed.definition_key,
            deployed.process_id,
            deployed.version,
            woven.verb,
            resource,
            authored_sha256,
            woven.content,
            json.dumps(as_json(woven.waits)),
            woven.steps,
            by,
            None if woven.compiled.definition_id is None else woven.compiled.ir_digest,
            json.dumps(catches.as_json(woven.catches)),
        )
        return row is not None

    async def find(self, definition_key: int, *, on: Connection | None = None) -> Deployment | None:
        """Return the deployment behind a definition key."""
        row = await (on or self._database).fetchrow(query("deployments", "find"), self._engine_id, definition_key)
        return None if row is None else _deployment(row)

    async def waits(self, definition_key: int, *, on: Connection | None = None) -> Waits | None:
        """Return the waits of a definition; None when it is not recorded. A recorded one never changes."""
        if definition_key not in self._waits:
            deployment = await self.find(definition_key, on=on)
            if deployment is None:
                return None
            self._waits[definition_key] = deployment.waits
        return self._waits[definition_key]

    async def latest(self, process_id: str) -> Deployment | None:
        """Return the newest version of a process."""
        row = await self._database.fetchrow(query("deployments", "latest"), self._engine_id, process_id)
        return None if row is None else _deployment(row)

    async def list(self, *, limit: int = 1000) -> list[Deployment]:
        """Return every version of every process, the newest of each first."""
        rows = await self._database.fetch(query("deployments", "list"), self._engine_id, limit)
        return [_deployment(row) for row in rows]

    async def content(self, definition_key: int, *, on: Connection | None = None) -> bytes | None:
        """Return the exact bytes that were deployed."""
        row = await (on or self._database).fetchrow(query("deployments", "content"), self._engine_id, definition_key)
        return None if row is None else row["woven"]

    async def catches(self, definition_key: int) -> Catches | None:
        """Return what each step of a definition catches; None when the definition is not recorded."""
        row = await self._database.fetchrow(query("deployments", "catches"), self._engine_id, definition_key)
        if row is None:
            return None
        if row["catches"] is None:
            # Deployed by an older version, which stored only the bytes.
            return catches.catches_of(row["woven"], row["process_id"])
        return catches.from_json(json.loads(row["catches"]))


def _deployment(row: Row) -> Deployment:
    return value_of(Deployment, row, waits=from_json(json.loads(row["waits"])))
