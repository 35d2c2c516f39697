"""Deployments: the bytes behind each process definition of an engine, and its waits."""

import json
import logging
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Self

from verbworker.engine.protocol import Deployed
from verbworker.job.job import Job
from verbworker.model import catches
from verbworker.model.catches import Catches
from verbworker.model.waits import Waits, as_json, from_json
from verbworker.model.weave import Woven
from verbworker.profile.compile import Compiled
from verbworker.stores.database import Connection, Database, Row
from verbworker.stores.rows import value_of
from verbworker.stores.sql import query

_log = logging.getLogger(__name__)

# How long after it was asked for a model may turn up under a key that nobody recorded. The first job of a definition
# comes soon, unless no worker runs.
_UNANSWERED_FOR = timedelta(days=1)
# What only people read in a model: names, documentation, and the diagram.
_FOR_PEOPLE = re.compile(
    rb"""\sname=("[^"]*"|'[^']*')"""
    rb"|<(?:\w+:)?documentation\b.*?</(?:\w+:)?documentation>"
    rb"|<(?:\w+:)?BPMNDiagram\b.*?</(?:\w+:)?BPMNDiagram>",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition as a job names it."""

    key: int
    process_id: str
    version: int

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the definition of a job."""
        return cls(job.process_definition_key, job.process_id, job.process_version)


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

    async def request(self, woven: Woven, *, resource: str, authored_sha256: bytes, by: str) -> None:
        """Store a model before the engine has it: its jobs arrive even if the engine's answer is lost."""
        await self._database.execute(
            query("deployments", "request"),
            self._engine_id,
            woven.process_id,
            woven.verb,
            resource,
            authored_sha256,
            woven.content,
            _shape(woven),
            json.dumps(as_json(woven.waits)),
            woven.steps,
            by,
            _terms_digest(woven),
            json.dumps(catches.as_json(woven.catches)),
            json.dumps(woven.compiled.ir["flags"]) if woven.is_hollow else None,
        )

    async def assume(
        self, definition: Definition, *, within: timedelta = _UNANSWERED_FOR, on: Connection | None = None
    ) -> bool:
        """Record a definition that nobody recorded as the model it must be; False when that is not certain."""
        key, process_id, version = definition.key, definition.process_id, definition.version
        row = await (on or self._database).fetchrow(
            query("deployments", "assume"), self._engine_id, key, process_id, version, within
        )
        if row is not None:
            fields = {"process_id": process_id, "version": version, "definition_key": key}
            _log.warning("the engine has a model whose deployment it did not confirm; it is assumed", extra=fields)
        return row is not None

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
            _terms_digest(woven),
            json.dumps(catches.as_json(woven.catches)),
        )
        return row is not None

    async def find(self, definition_key: int, *, on: Connection | None = None) -> Deployment | None:
        """Return the deployment behind a definition key."""
        row = await (on or self._database).fetchrow(query("deployments", "find"), self._engine_id, definition_key)
        return None if row is None else _deployment(row)

    async def waits(self, definition: Definition, *, on: Connection | None = None) -> Waits | None:
        """Return the waits of a definition; None when it is neither recorded nor certain. They never change."""
        if definition.key not in self._waits:
            deployment = await self.find(definition.key, on=on)
            if deployment is None and await self.assume(definition, on=on):
                deployment = await self.find(definition.key, on=on)
            if deployment is None:
                return None
            self._waits[definition.key] = deployment.waits
        return self._waits[definition.key]

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

    async def model(self, definition: Definition, *, on: Connection | None = None) -> bytes | None:
        """Return the model of a definition; None when it is neither recorded nor certain."""
        content = await self.content(definition.key, on=on)
        if content is None and await self.assume(definition, on=on):
            content = await self.content(definition.key, on=on)
        return content

    async def catches(self, definition_key: int) -> Catches | None:
        """Return what each step of a definition catches; None when the definition is not recorded."""
        row = await self._database.fetchrow(query("deployments", "catches"), self._engine_id, definition_key)
        if row is None:
            return None
        if row["catches"] is None:
            # Deployed by an older version, which stored only the bytes.
            return catches.catches_of(row["woven"], row["process_id"])
        return catches.from_json(json.loads(row["catches"]))


def _shape(woven: Woven) -> bytes:
    """Return a digest that models share which differ only in what people read."""
    # Names of messages and errors are no text for people: the waits and catches have them.
    waits = {key: {**waiting, "name": ""} for key, waiting in as_json(woven.waits).items()}
    facts = json.dumps([waits, catches.as_json(woven.catches)], sort_keys=True)
    return sha256(_FOR_PEOPLE.sub(b"", woven.content) + facts.encode()).digest()


def _terms_digest(woven: Woven) -> str | None:
    return None if woven.compiled.definition_id is None else woven.compiled.ir_digest


def _deployment(row: Row) -> Deployment:
    return value_of(Deployment, row, waits=from_json(json.loads(row["waits"])))
