"""Starting instances as the router will: known to the database first, then to the engine, with every variable set."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from verbworker.contract.workflow import WorkflowVerb
from verbworker.engine.protocol import Engine, Start
from verbworker.model import start_variables as beginning
from verbworker.payload.signature import KeyRing
from verbworker.stores.cases.instances import Instance, Instances
from verbworker.stores.database import Database

TENANT = "tests"


@dataclass(frozen=True, slots=True)
class Prepared:
    """An instance the database knows, and the variables the engine is to start it with."""

    instance_uid: UUID
    entry_id: UUID
    variables: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Begun:
    """A running instance."""

    instance_uid: UUID
    entry_id: UUID
    instance_key: int


async def prepare(
    database: Database,
    engine_id: str,
    workflow: WorkflowVerb,
    data: Mapping[str, Any],
    *,
    ring: KeyRing | None = None,
    correlation: Mapping[str, str] | None = None,
) -> Prepared:
    """Make an instance known with its first payload; nothing is started yet."""
    ready = beginning.begin(
        workflow,
        data,
        instance_uid=uuid4(),
        entry_id=uuid4(),
        tenant_id=TENANT,
        at=datetime.now(UTC),
        ring=ring if workflow.integrity == "signed" else None,
    )
    await Instances(database).open(
        Instance(
            instance_uid=ready.instance_uid,
            tenant_id=TENANT,
            entry_id=ready.entry_id,
            verb=workflow.name,
            verb_version=str(workflow.version),
            payload_schema=workflow.schema,
            engine_id=engine_id,
            process_id=workflow.process,
            payload=ready.content,
            correlation={**ready.correlation, **(correlation or {})},
        )
    )
    variables = {**ready.variables, **(correlation or {})}
    return Prepared(ready.instance_uid, ready.entry_id, variables)


async def begin(
    database: Database,
    engine: Engine,
    workflow: WorkflowVerb,
    data: Mapping[str, Any],
    *,
    ring: KeyRing | None = None,
    correlation: Mapping[str, str] | None = None,
    changes: Mapping[str, object] | None = None,
) -> Begun:
    """Start one instance; `changes` are put over the variables, as somebody would who tampers with them."""
    ready = await prepare(database, engine.engine_id, workflow, data, ring=ring, correlation=correlation)
    started = await engine.start(Start(workflow.process, {**ready.variables, **(changes or {})}))
    await Instances(database).pin(
        ready.instance_uid,
        instance_key=started.instance_key,
        definition_key=started.definition_key,
        version=started.version,
    )
    return Begun(ready.instance_uid, ready.entry_id, started.instance_key)
